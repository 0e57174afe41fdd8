"""What was measured, and what was published about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import HealthError
from railweave.framework.model.arrays import Bool, Float, Int64, equal_by_value, readonly
from railweave.framework.model.fabric import Fabric

EQUAL_WITHIN = 1e-12
"""Scores closer than this are the same score: a tie must not depend on float noise."""


@dataclass(frozen=True, eq=False, slots=True)
class Measurement:
    """One interval of every link, as arrays of n_links.

    `t_s` the end of the interval on the run's clock, `dt_s` its length; `sent_bytes`, `sent_packets`, `drops`
    during it (wire bytes as the link's shaper counts them); `queue_bytes` waiting at its end; `service_bps` the
    rate at which the link was seen to drain while it was backlogged all the time, NaN without such evidence;
    `probe_s` a timed probe's delay, NaN without one; `up` whether the carrier is there.
    """

    t_s: float
    dt_s: float
    sent_bytes: Float
    sent_packets: Float
    drops: Float
    queue_bytes: Float
    service_bps: Float
    probe_s: Float
    up: Bool

    def __post_init__(self) -> None:
        for name in ("sent_bytes", "sent_packets", "drops", "queue_bytes", "service_bps", "probe_s"):
            object.__setattr__(self, name, readonly(getattr(self, name), np.float64))
        object.__setattr__(self, "up", readonly(self.up, np.bool_))

    def __eq__(self, other: object) -> bool:
        return equal_by_value(self, other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False, slots=True)
class HealthSnapshot:
    """Published h-scores: 1 is line-rate delay with no queue, lower is slower, 0 is down.

    `link_score` (n_links,); `element_score` (n_nodes,): the score of each switch that has one, 1 for GPUs and
    other nodes; `down` (n_links,). `rail_order` (K,): rails by (score, id) ascending, empty on fabrics without
    rails. `margin`: how many times better a path must score to be worth a move, because measured scores are
    not exact; 1 where the scores are given, as in the source.
    """

    version: int
    t_s: float
    link_score: Float
    element_score: Float
    down: Bool
    rail_order: Int64
    margin: float = 1.0

    def __post_init__(self) -> None:
        for name in ("link_score", "element_score"):
            values = readonly(getattr(self, name), np.float64)
            bad = np.flatnonzero(~((values >= 0) & (values <= 1)))
            if bad.size:
                raise HealthError(f"{name}[{bad[0]}] = {values[bad[0]]}: an h-score lies in 0..1.")
            object.__setattr__(self, name, values)
        object.__setattr__(self, "down", readonly(self.down, np.bool_))
        object.__setattr__(self, "rail_order", readonly(self.rail_order, np.int64))
        if not self.margin >= 1:
            raise HealthError(f"margin {self.margin}: it must be 1 or more.")

    def __eq__(self, other: object) -> bool:
        return equal_by_value(self, other)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def healthy(cls, fabric: Fabric, *, version: int = 0, margin: float = 1.0) -> HealthSnapshot:
        """All scores 1, nothing down: what a router is asked with before anything was measured."""
        rails = fabric.group("rail")
        return cls(
            version,
            0.0,
            np.ones(fabric.n_links),
            np.ones(fabric.n_nodes),
            np.zeros(fabric.n_links, bool),
            np.arange(rails.size if rails else 0),
            margin,
        )
