"""The health of links as the model knows it: what its packets would show."""

from dataclasses import replace

import numpy as np

from railweave.framework.health.monitor import scores_of
from railweave.framework.health.rate_evidence import RateEvidence
from railweave.framework.health.smoothing import FASTER
from railweave.framework.health.timed_trains import Trains
from railweave.framework.hookspecs import LinkState
from railweave.framework.judging.link_figures import is_large
from railweave.framework.model import Measurement
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.model.findings import LinkTotals
from railweave.plugins.fluid.model import FlowModel
from railweave.plugins.fluid.queues import Behind


class ModelSource:
    """Which links are up, what waits at them, their counters, the rates of those where packets wait or a
    train has arrived, and what they lose. What was sent is told once, by `measure` or by `repeated`."""

    def __init__(self, model: FlowModel) -> None:
        plan, self._model = model.plan, model
        self._fabric = fabric = plan.fabric.scaled(model.rate_scale)
        self._interval_s = plan.experiment.health.interval_s
        self._last_s, self._last = 0.0, model.counted().totals()
        self._told = self._last.sent_bytes, self._last.sent_packets
        self._rates = RateEvidence(fabric.capacity_bps, plan.packet.full_packet_bytes)
        self._trains = Trains(fabric, plan.packet, self._interval_s)
        self._links: LinkState | None = None
        self._measured: Measurement | None = None
        self._carried_bits = model.flows.carried_bits()
        self._settled, self._version, self._link_class = False, -1, np.empty(0, np.int64)
        self._contradicted: bool | None = None
        """Whether something contradicts what is known of the links; None until that is asked."""
        self._nothing_new: dict[bytes, tuple[Int64, Behind]] = {}

    def measure(self) -> Measurement:
        model, now_s = self._model, self._model.now_s
        rates_bps, full = model.rates_bps, model.flows.full().of_links()
        waiting_bits = model.flows.waiting_bits(model.places.behind(full))
        arrived = self._trains.arrived(now_s, rates_bps, model.links.loss, model.counted())
        totals, before, since_s = self.totals(), self._last, self._last_s
        self._last_s, self._last = now_s, totals
        new, backlogged = totals.since(before), waiting_bits > 0
        sent_bytes, sent_packets = self._untold(totals.sent_bytes, totals.sent_packets)
        most_bits = rates_bps * self._interval_s  # what came before the last interval may have had a gap
        stated = self._rates.add(backlogged, np.minimum(8 * new.sent_bytes, most_bits), rates_bps)
        carried_bits, before_bits = model.flows.carried_bits(), self._carried_bits
        self._carried_bits = carried_bits
        self._trains.seen(now_s, carried_bits > before_bits, stated)
        self._rates.know(arrived, self._trains.shown_bps)
        self._measured = Measurement(
            t_s=now_s,
            dt_s=now_s - since_s,
            sent_bytes=sent_bytes,
            sent_packets=sent_packets,
            drops=new.drops,
            lost=new.lost,
            queue_bytes=waiting_bits / 8,
            waited_bytes=np.where(backlogged, sent_bytes, 0.0),
            service_bps=np.where(stated | arrived, self._rates.rate_bps, np.nan),
            probe_s=np.full(len(backlogged), np.nan),
            up=model.links.up,
        )
        return self._measured

    def probe(self, now_s: float, links: LinkState) -> None:
        before, self._links = self._links, links
        self._trains.send(now_s, links, self._model.rates_bps)
        self._nothing_new.clear()
        self._contradicted = None
        self._settled = before is not None and self._as_before(before, links) and self._ignores_queues(links)

    def repeated(self) -> Measurement | None:
        """What would be measured now, where no score would change: the one before changed none, the rates of
        all links at which packets may wait now are known as they are, and no train has arrived. Trains that
        are due are sent."""
        model, now_s = self._model, self._model.now_s
        measured, links = self._measured, self._links
        if model.version != self._version:
            self._settled, self._version = False, model.version
        ready = self._settled and self._trains.next_s > now_s and not model.links.ever_lossy
        if not ready or measured is None or links is None:
            return None
        # what a link that is faster carries will show it; what one that is doubted carries is its proof
        if self._contradicted is None:  # until rates change, and nothing is settled
            faster = links.service_bps * FASTER < model.rates_bps
            self._contradicted = bool(faster.any() or links.doubted.any())
        if self._contradicted:
            return None
        full = model.flows.full()
        if full.link_class is not self._link_class:
            self._nothing_new.clear()
            self._link_class = full.link_class
        if (key := full.classes.tobytes()) not in self._nothing_new:
            behind = model.places.behind(full.of_links())
            at = behind.links
            rate_known = self._rates.exact[at] & (self._rates.rate_bps[at] == model.rates_bps[at])
            if not np.all(rate_known & ~links.unknown[at]):
                return None
            self._nothing_new[key] = at[np.isin(at, self._trains.wanted)], behind
        carried_bits, wanted = model.flows.carried_bits(), self._trains.wanted
        data, self._carried_bits = carried_bits > self._carried_bits, carried_bits
        stated, behind = self._nothing_new[key]
        self._trains.seen(now_s, wanted[data[wanted]], stated[data[stated]])
        self._trains.send(now_s, links, model.rates_bps)
        if is_large(self._fabric):  # nothing is kept of it
            nothing = np.zeros(self._fabric.n_links)
            return replace(
                measured, t_s=now_s, sent_bytes=nothing, sent_packets=nothing, waited_bytes=nothing
            )
        waiting_bits = model.flows.waiting_bits(behind)
        backlogged = waiting_bits > 0
        sent_bytes, sent_packets = self._untold(*model.counted().sent())
        return replace(
            measured, t_s=now_s, queue_bytes=waiting_bits / 8,
            service_bps=np.where(backlogged, model.rates_bps, np.nan), sent_bytes=sent_bytes,
            sent_packets=sent_packets, waited_bytes=np.where(backlogged, sent_bytes, 0.0),
        )  # fmt: skip

    def _untold(self, sent_bytes: Float, sent_packets: Float) -> tuple[Float, Float]:
        """(L,) each: what of the bytes and packets sent so far was not told yet."""
        (told_bytes, told_packets), self._told = self._told, (sent_bytes, sent_packets)
        return sent_bytes - told_bytes, sent_packets - told_packets

    @staticmethod
    def _as_before(before: LinkState, links: LinkState) -> bool:
        return not links.loss.any() and all(
            np.array_equal(getattr(before, name), getattr(links, name), equal_nan=name == "service_bps")
            for name in ("service_bps", "unknown", "up")
        )

    def _ignores_queues(self, links: LinkState) -> bool:
        """Whether the scores would be the same with other queues where packets wait."""
        plan = self._model.plan
        empty, long = (
            scores_of(
                plan.estimator,
                self._fabric,
                replace(links, queue_bytes=queues),
                plan.packet,
                plan.experiment.estimator.name,
            )
            for queues in (0 * links.queue_bytes, 4 * links.queue_bytes)
        )
        return np.array_equal(empty, long)

    def totals(self) -> LinkTotals:
        return self._model.counted().totals()
