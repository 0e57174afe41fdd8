"""The health of links as the model's queues, counters and losses show it."""

import numpy as np

from railweave.framework.experiment.plugin_calls import wants_paths
from railweave.framework.health.rate_evidence import RateEvidence
from railweave.framework.health.timed_trains import Trains
from railweave.framework.hookspecs import LinkState
from railweave.framework.model import Measurement
from railweave.framework.model.arrays import Float
from railweave.framework.model.findings import LinkTotals
from railweave.plugins.packet.layout import PICOSECONDS
from railweave.plugins.packet.model import Model
from railweave.plugins.packet.pause_counts import PauseCounts


class PacketSource:
    """Which links are up, what waits at them, their counters, the rates of those where packets wait or a
    train has arrived, and what they lose. Trains take their time on idle links, and their bytes count."""

    def __init__(self, model: Model) -> None:
        plan, self._model = model.plan, model
        fabric = plan.fabric.scaled(model.rate_scale)
        self._train_bytes, self._train_packets, self._train_lost = np.zeros((3, fabric.n_links))
        self._by_path = wants_paths(plan.estimator)
        self._last_s, self._last, self._last_data = 0.0, self.totals(), np.zeros(fabric.n_links)
        self._waited, self._trained, self._came = *np.zeros((2, fabric.n_links)), model.sim.s.came.copy()
        self._rates = RateEvidence(fabric.capacity_bps, plan.packet.full_packet_bytes, waited=True)
        self._trains = Trains(fabric, plan.packet, plan.experiment.health.interval_s)

    def measure(self) -> Measurement:
        model, now_s = self._model, self._model.now_s
        rates_bps, loss, link = model.rates_bps, model.links.loss, model.sim.s.link
        waiting = (link["queued"].sum(axis=1) + link["in_nic"]).astype(np.float64)
        arrived = self._trains.arrived(now_s, rates_bps, loss, self)
        totals, before, since_s = self.totals(), self._last, self._last_s
        self._last_s, self._last = now_s, totals
        new, waited = totals.since(before), link["waited_bytes"] - self._waited
        self._waited = link["waited_bytes"].astype(np.float64)
        waited_bytes = waited if not len(new.paused_s) else np.where(new.paused_s == 0, waited, 0.0)
        backlogged = waited_bytes > 0  # what is paused may serve less than it could
        stated = self._rates.add(backlogged, 8 * waited_bytes, rates_bps)
        data = link["data_bytes"].astype(np.float64)
        self._trains.seen(now_s, data > self._last_data, stated)
        self._last_data = data
        self._rates.know(arrived, self._trains.shown_bps)
        return Measurement(
            t_s=now_s,
            dt_s=now_s - since_s,
            sent_bytes=new.sent_bytes,
            sent_packets=new.sent_packets,
            drops=new.drops,
            lost=new.lost,
            queue_bytes=waiting,
            waited_bytes=waited_bytes,
            service_bps=np.where(stated | arrived, self._rates.rate_bps, np.nan),
            probe_s=np.full(len(backlogged), np.nan),
            up=model.links.up,
            counted=self._counted(new.sent_packets),
            paths=model.path_counts() if self._by_path else None,
            paused_s=new.paused_s,
        )

    def _counted(self, sent: Float) -> Float:
        """(L,): the packets since the last time whose fate is known: of a link that may lose some, what came
        to its far end or was lost on the way, a latency after it was sent; of others all sent."""
        s, trains = self._model.sim.s, self._train_packets - self._trained
        came, self._came, self._trained = s.came - self._came, s.came.copy(), self._train_packets.copy()
        return np.where(s.faulty, came + trains, sent)

    def probe(self, now_s: float, links: LinkState) -> None:
        self._trains.send(now_s, links, self._model.rates_bps)

    def totals(self) -> LinkTotals:
        link = self._model.sim.s.link
        columns = ("sent_bytes", "sent_packets", "drops", "lost", "marked", "trimmed")
        sent, packets, drops, lost, marked, trimmed = (link[name].astype(np.float64) for name in columns)
        paused = PauseCounts.of(self._model.sim.s)
        none = np.empty(0)
        per_s = PICOSECONDS * self._model.rate_scale
        return LinkTotals(
            sent + self._train_bytes,
            packets + self._train_packets,
            drops,
            lost + self._train_lost,
            marked=marked if self._model.settings.kmax else none,
            pauses=none if paused is None else paused.pauses.astype(np.float64),
            paused_s=none if paused is None else paused.paused_ps / per_s,
            trimmed=trimmed if self._model.settings.trimming else none,
        )

    def add(self, packets: Float, packet_bytes: Float, loss: Float) -> None:
        """Trains have been sent."""
        self._train_bytes += packets * packet_bytes
        self._train_packets += packets
        self._train_lost += packets * loss
