"""What is kept of every link between measurements: smoothed queue, loss, the last rate seen."""

from dataclasses import dataclass, replace
from math import exp
from typing import Self

import numpy as np

from railweave.framework.errors import HealthError
from railweave.framework.health.loss_counts import LossCounts
from railweave.framework.hookspecs import LinkState
from railweave.framework.hookspecs.estimators import MOST_PACKETS
from railweave.framework.model import Fabric, Measurement, PathCounts
from railweave.framework.model.arrays import ArrayNoun, Bool, Float

SLOW = 0.9
"""A link with less of its rate, or of its speed for what it loses, is measured again, and the others of its
switch, too: what it feeds builds no queue. Half of a switch that is not measured hides 0.05 of its mean."""
FASTER, EVIDENT_PACKETS = 1.1, 4
"""What a link sends beyond this many times its last rate contradicts that, once it adds up to EVIDENT_PACKETS
full packets: a shaper lets one go early, and a sample may come a packet late."""
PATIENCE_PACKETS = 24
"""Full packets at line rate for which a queue may stand before it says something of a link whose rate is not
known: by then a link that serves them has shown it. Bursts of TCP are longer than any allowance at once."""


@dataclass(frozen=True, eq=False)
class LinkTracker(ArrayNoun):
    """The links as estimators see them, and what the next measurement is added to.

    `fabric` has the rates of the measurements; `links` the state; `losses` what their loss is stated from.
    `measured_s` (n_links,): when a rate was last measured, -inf before any; `since_s` (n_links,): when what
    says it began; `slow_since_s` (n_nodes + 1,): since when a link of each switch is slow, inf where none is.
    `patience_s` (n_links,): how long a queue may stand while the rate is not known, and `waiting_s`, for how
    long it has been seen to stand, -1 where none is. `excess` (3, n_links): what a link sent beyond its last
    rate since it last sent no more than that, in bits, all that it sent since then, and for how long;
    `packet_bits` of a full packet.
    """

    fabric: Fabric
    links: LinkState
    losses: LossCounts
    measured_s: Float
    since_s: Float
    slow_since_s: Float
    patience_s: Float
    waiting_s: Float
    packet_bits: float
    excess: Float

    @classmethod
    def start(cls, fabric: Fabric, packet_bytes: float = 0.0) -> Self:
        """Before any measurement: empty queues, no loss, no evidence of a rate, everything up.

        `packet_bytes`: of a full packet; by default queues count from the first.
        """
        patience_s = PATIENCE_PACKETS * 8 * packet_bytes / fabric.capacity_bps
        n, zero, no_rate = fabric.n_links, np.zeros(fabric.n_links), np.full(fabric.n_links, np.nan)
        no, up, counts = np.zeros(n, bool), np.ones(n, bool), np.zeros((3, n))
        links = LinkState(zero, zero, no_rate, no_rate, up, no, no, no, counts)
        never, slow_since_s = np.full(n, -np.inf), np.full(fabric.n_nodes + 1, np.inf)
        return cls(
            fabric, links, LossCounts.none(n), never, never, slow_since_s, patience_s, zero - 1,
            8 * packet_bytes, np.zeros((3, n)),
        )  # fmt: skip


def observe(tracker: LinkTracker, measurement: Measurement, smoothing_s: float = 0.3) -> LinkTracker:
    """The tracker after one more interval; pure.

    The queue follows with time constant `smoothing_s` (weight 1 - exp(-dt / smoothing_s), so uneven intervals
    are alike). `service_bps` and `probe_s` are the last evidence, which NaN leaves as it was; otherwise a
    slow link would look healthy once traffic left it. The queue of a link whose rate is not known counts once
    it has stood for PATIENCE_PACKETS. For the loss see `LossCounts`: lost are packets that did not reach the
    far end; packets that find the queue full are load.

    Raises HealthError for a measurement of other links, of no duration, or with a count that is negative or
    not a number.
    """
    fabric, old, dt_s = tracker.fabric, tracker.links, measurement.dt_s
    _check(measurement, fabric.n_links)
    gain = 1.0 if smoothing_s == 0 else 1.0 - exp(-dt_s / smoothing_s)
    served_bps, excess = _served(tracker, measurement)
    rated = ~np.isnan(served_bps)
    losses, loss = tracker.losses.after(measurement, old.loss, smoothing_s)
    service = np.where(rated, served_bps, old.service_bps)
    measured_s = np.where(rated, measurement.t_s, tracker.measured_s)
    began_s = measurement.since_s if len(measurement.since_s) else measurement.t_s
    since_s = np.where(rated, began_s, tracker.since_s)
    unrated = np.isnan(service)
    stood_s = np.where(tracker.waiting_s < 0, 0.0, tracker.waiting_s + dt_s)
    waiting_s = np.where(unrated & (measurement.queue_bytes > 0), stood_s, -1.0)
    queue_bytes = np.where(unrated & (waiting_s < tracker.patience_s), 0.0, measurement.queue_bytes)
    slow = service < SLOW * fabric.capacity_bps
    slow_since_s = _slow_since_s(tracker, slow, measurement.t_s)
    tainted_s = slow_since_s[fabric.link_element]
    # a burst of before may outweigh what has changed, and no other follows where slow links feed this one
    outdated = (since_s < tainted_s) & ~slow & (measurement.queue_bytes == 0)
    unknown, tainted = measured_s < tainted_s, np.isfinite(tainted_s)
    return LinkTracker(
        fabric,
        LinkState(
            old.queue_bytes + gain * (queue_bytes - old.queue_bytes),
            loss,
            service,
            np.where(np.isnan(measurement.probe_s), old.probe_s, measurement.probe_s),
            measurement.up,
            unknown & tainted,
            outdated & tainted,
            old.doubted,
            _packets(tracker, measurement),
            _paths(old.paths, measurement.paths),
        ),
        losses,
        measured_s,
        since_s,
        slow_since_s,
        tracker.patience_s,
        waiting_s,
        tracker.packet_bits,
        excess,
    )


def _served(tracker: LinkTracker, measurement: Measurement) -> tuple[Float, Float]:
    """(the rates that this measurement states, NaN where it states none; the new `excess`).

    A link that feeds others as fast as it is fed builds no queue when it has recovered, but sends more than
    it could at the rate that is known of it: a cumulative sum (Page, 1954) tells from when on, and how much.
    """
    known_bps, dt_s = tracker.links.service_bps, measurement.dt_s
    # a switch that comes back catches up with its counters: no more than the line can have sent
    sent = np.minimum(8 * measurement.sent_bytes, tracker.fabric.capacity_bps * dt_s)
    slower = known_bps * FASTER < tracker.fabric.capacity_bps
    beyond = np.where(slower, tracker.excess[0] + sent - FASTER * known_bps * dt_s, 0.0)
    since = beyond > 0
    excess = np.where(since, np.stack((beyond, tracker.excess[1] + sent, tracker.excess[2] + dt_s)), 0.0)
    stated = ~np.isnan(measurement.service_bps)
    faster = since & ~stated & (beyond > EVIDENT_PACKETS * tracker.packet_bits) & (tracker.packet_bits > 0)
    at_least = np.maximum(excess[1] - tracker.packet_bits, 0.0) / np.where(since, excess[2], 1.0)
    served = np.where(
        faster, np.clip(at_least, known_bps, tracker.fabric.capacity_bps), measurement.service_bps
    )
    return served, np.where(stated, 0.0, excess)


def _packets(tracker: LinkTracker, measurement: Measurement) -> Float:
    """(3, n_links): as of LinkState."""
    packets = tracker.links.packets.copy()
    packets[:2] += tracker.losses.judged(measurement)
    packets[2] += measurement.marked if len(measurement.marked) else 0.0
    return np.where(packets[0] > 2 * MOST_PACKETS, packets / 2, packets)


def _paths(old: PathCounts, new: PathCounts | None) -> PathCounts:
    """As of LinkState."""
    if new is None:
        return old
    counts = new.after(old)
    packets = counts.packets
    return replace(counts, packets=np.where(packets[0] > 2 * MOST_PACKETS, packets / 2, packets))


def _slow_since_s(tracker: LinkTracker, slow: Bool, t_s: float) -> Float:
    """(n_nodes + 1,): since when a link of each switch is slow, inf where none is now."""
    since_s = np.full(tracker.fabric.n_nodes + 1, np.inf)
    since_s[tracker.fabric.link_element[slow]] = t_s
    since_s[-1] = np.inf  # links of no switch
    return np.where(np.isfinite(since_s), np.minimum(since_s, tracker.slow_since_s), np.inf)


def _check(measurement: Measurement, n_links: int) -> None:
    if not measurement.dt_s > 0:
        raise HealthError(
            f"measurement at {measurement.t_s} s covers {measurement.dt_s} s: it must be above 0."
        )
    never_nan = ("sent_bytes", "sent_packets", "drops", "queue_bytes", "waited_bytes")
    for name in (*never_nan, "lost", "service_bps", "probe_s", "up"):
        values = getattr(measurement, name)
        if len(values) != n_links:
            raise HealthError(
                f"measurement at {measurement.t_s} s: {name} of {len(values)} links, not {n_links}."
            )
        wrong = ~(values >= 0) if name in never_nan else values < 0
        if wrong.any():
            bad = np.flatnonzero(wrong)
            raise HealthError(
                f"measurement at {measurement.t_s} s: {name} of link {bad[0]} is {values[bad[0]]}; "
                "it must be 0 or more."
            )
