"""What was measured, and what was published about it."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from railweave.framework.errors import HealthError
from railweave.framework.model.arrays import ArrayNoun, Bool, Float, Int64
from railweave.framework.model.fabric import Fabric
from railweave.framework.model.path_counts import PathCounts

EQUAL_WITHIN = 1e-12
"""Scores closer than this are the same score: a tie must not depend on float noise."""


@dataclass(frozen=True, eq=False, slots=True)
class Measurement(ArrayNoun):
    """One interval of every link, as arrays of n_links.

    `t_s` the end of the interval on the run's clock, `dt_s` its length; `sent_bytes`, `sent_packets`, `drops`
    during it (wire bytes as the link's shaper counts them); `lost`, packets that did not reach the far end,
    NaN if arrivals were not counted, of those `counted` at the same moments (empty: those sent in this and in
    earlier intervals without such a count); `queue_bytes` waiting at its end; `waited_bytes`, wire bytes sent
    of packets that had been seen waiting, by which detection is judged; `service_bps` the rate at which the
    link was seen to drain while it was backlogged all the time, NaN without such evidence; `probe_s` a timed
    probe's delay, NaN without one; `up` whether the carrier is there; `since_s` when what says `service_bps`
    began, empty where that is this interval; `marked`, packets that the link marked (ECN) since that was last
    known, empty where it is not known now; `paths`, what senders have learnt of their packets by path since
    that was last known, where the estimator wants it; None where it is not known now; `paused_s`, how long of
    the interval the link's data was paused (PFC), empty where none is.
    """

    t_s: float
    dt_s: float
    sent_bytes: Float
    sent_packets: Float
    drops: Float
    lost: Float
    queue_bytes: Float
    waited_bytes: Float
    service_bps: Float
    probe_s: Float
    up: Bool
    since_s: Float = field(default_factory=lambda: np.empty(0))
    counted: Float = field(default_factory=lambda: np.empty(0))
    marked: Float = field(default_factory=lambda: np.empty(0))
    paths: PathCounts | None = None
    paused_s: Float = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, eq=False, slots=True)
class HealthSnapshot(ArrayNoun):
    """Published h-scores: 1 is line-rate delay with no queue, lower is slower, 0 is down.

    `link_score` (n_links,); `element_score` (n_nodes,): the score of each switch that has one, 1 for GPUs and
    other nodes; `down` (n_links,). `rail_order` (K,): rails by (score, id) ascending, empty on fabrics
    without rails. `margin`: how many times better a path must score to be worth a move, because measured
    scores are not exact; 1 where the scores are assumed, as in the source. `loss` (n_links,): the share of
    its packets that each link loses, which its score contains; empty where none is known to lose any.
    """

    version: int
    t_s: float
    link_score: Float
    element_score: Float
    down: Bool
    rail_order: Int64
    margin: float = 1.0
    loss: Float = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        ArrayNoun.__post_init__(self)
        for name in ("link_score", "element_score"):
            values = getattr(self, name)
            bad = np.flatnonzero(~((values >= 0) & (values <= 1)))
            if bad.size:
                raise HealthError(f"{name}[{bad[0]}] = {values[bad[0]]}: an h-score lies in 0..1.")
        if not self.margin >= 1:
            raise HealthError(f"margin {self.margin}: it must be 1 or more.")

    def check_fits(self, fabric: Fabric) -> None:
        """Raises HealthError if the snapshot is of a fabric with other numbers of links or nodes."""
        if len(self.down) != fabric.n_links or len(self.element_score) != fabric.n_nodes:
            raise HealthError(
                f"health of {len(self.down)} links and {len(self.element_score)} nodes does not belong to "
                f"this {fabric.kind} of {fabric.n_links} links and {fabric.n_nodes} nodes."
            )

    @classmethod
    def healthy(cls, fabric: Fabric, *, version: int = 0, margin: float = 1.0) -> Self:
        """All scores 1, nothing down: what routers get before anything was measured."""
        link, element = np.ones(fabric.n_links), np.ones(fabric.n_nodes)
        return cls(
            version,
            0.0,
            link,
            element,
            np.zeros(fabric.n_links, bool),
            rails_by_score(fabric, element),
            margin,
        )


def rails_by_score(fabric: Fabric, element_score: Float) -> Int64:
    """(K,): rails by (score, id), sorted anew: 1 to 96 us for 64 to 4096 rails, a twentieth of keeping a list
    in order.

    >>> fabric = rw.topology("rail-only", domains=2, rails=2)
    >>> element_score = np.append(np.ones(fabric.n_nodes - 1), 0.2)  # the last node is rail 1
    >>> rails_by_score(fabric, element_score)
    array([1, 0])
    """
    rails = fabric.group("rail")
    scores = element_score[rails.first : rails.first + rails.size] if rails else element_score[:0]
    return np.argsort(scores, kind="stable")
