"""What is kept of every link between measurements: smoothed queue and loss, the last rate seen."""

from dataclasses import dataclass
from math import exp
from typing import Self

import numpy as np

from railweave.framework.errors import HealthError
from railweave.framework.hookspecs import LinkState
from railweave.framework.model import Fabric, Measurement
from railweave.framework.model.arrays import ArrayNoun, Float

SLOW = 0.8
"""Below this share of its rate a link makes what is known of the others of its switch doubtful."""


@dataclass(frozen=True, eq=False)
class LinkTracker(ArrayNoun):
    """The links as estimators see them, and what the next measurement is added to.

    `fabric` has the rates of the measurements; `links` the state; `packets` and `drops` (n_links,): smoothed
    counts whose ratio is the loss. Both fade alike, so an idle link keeps the loss it showed, and fresh
    evidence outweighs old. `measured_s` (n_links,): when a rate was last measured, -inf before any;
    `slow_since_s` (n_nodes + 1,): since when a link of each switch is slow, inf where none is.
    """

    fabric: Fabric
    links: LinkState
    packets: Float
    drops: Float
    measured_s: Float
    slow_since_s: Float

    @classmethod
    def start(cls, fabric: Fabric) -> Self:
        """Before any measurement: empty queues, no loss, no evidence of a rate, everything up."""
        n, zero, no_rate = fabric.n_links, np.zeros(fabric.n_links), np.full(fabric.n_links, np.nan)
        links = LinkState(zero, zero, no_rate, no_rate, np.ones(n, bool), np.zeros(n, bool))
        return cls(fabric, links, zero, zero, np.full(n, -np.inf), np.full(fabric.n_nodes + 1, np.inf))


def observe(tracker: LinkTracker, measurement: Measurement, smoothing_s: float = 0.3) -> LinkTracker:
    """The tracker after one more interval; pure.

    Queue and loss follow with time constant `smoothing_s` (weight 1 - exp(-dt / smoothing_s), so uneven
    intervals are alike). `service_bps` and `probe_s` are the last evidence, which NaN leaves as it was;
    otherwise a slow link would look healthy once traffic left it.

    Raises HealthError for a measurement of other links, of no duration, or with a count that is negative or
    not a number.
    """
    fabric = tracker.fabric
    _check(measurement, fabric.n_links)
    gain = 1.0 if smoothing_s == 0 else 1.0 - exp(-measurement.dt_s / smoothing_s)
    old, stated = tracker.links, ~np.isnan(measurement.service_bps)
    packets = _follow(tracker.packets, measurement.sent_packets + measurement.drops, gain)
    drops = _follow(tracker.drops, measurement.drops, gain)
    seen = packets > np.finfo(np.float64).tiny  # below it the faded counts carry no ratio any more
    service = np.where(stated, measurement.service_bps, old.service_bps)
    measured_s = np.where(stated, measurement.t_s, tracker.measured_s)
    slow = np.full(fabric.n_nodes + 1, np.inf)
    slow[fabric.link_element[service < SLOW * fabric.capacity_bps]] = measurement.t_s
    slow[-1] = np.inf  # links of no switch
    slow = np.where(np.isfinite(slow), np.minimum(slow, tracker.slow_since_s), np.inf)
    return LinkTracker(
        fabric,
        LinkState(
            _follow(old.queue_bytes, measurement.queue_bytes, gain),
            np.where(seen, drops / np.where(seen, packets, 1.0), old.loss),
            service,
            np.where(np.isnan(measurement.probe_s), old.probe_s, measurement.probe_s),
            measurement.up,
            (measured_s < slow[fabric.link_element]) & np.isfinite(slow[fabric.link_element]),
        ),
        packets,
        drops,
        measured_s,
        slow,
    )


def _follow(old: Float, new: Float, gain: float) -> Float:
    return old + gain * (new - old)


def _check(measurement: Measurement, n_links: int) -> None:
    if not measurement.dt_s > 0:
        raise HealthError(
            f"measurement at {measurement.t_s} s covers {measurement.dt_s} s: it must be above 0."
        )
    counts = ("sent_bytes", "sent_packets", "drops", "queue_bytes")
    for name in (*counts, "service_bps", "probe_s", "up"):
        values = getattr(measurement, name)
        if len(values) != n_links:
            raise HealthError(
                f"measurement at {measurement.t_s} s: {name} of {len(values)} links, not {n_links}."
            )
        bad = np.flatnonzero(~(values >= 0)) if name in counts else np.flatnonzero(values < 0)
        if bad.size:
            raise HealthError(
                f"measurement at {measurement.t_s} s: {name} of link {bad[0]} is {values[bad[0]]}; "
                "it must be 0 or more."
            )
