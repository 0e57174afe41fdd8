"""Paths over the switches that join rails, for fabrics whose rails are not isolated."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from railweave.framework.model import Fabric, HealthSnapshot, PathBatch
from railweave.framework.model.arrays import Int32, Int64
from railweave.framework.model.health import EQUAL_WITHIN
from railweave.framework.routing.batches import replaced, take
from railweave.framework.routing.damping import pair_scores
from railweave.framework.routing.rails.links import NONE, RDR, RailLinks
from railweave.framework.routing.rails.scores import Scores

MULTIPLIER = 0x9E3779B1
"""2^32 over the golden ratio: pairs whose numbers are close take different spines (Knuth, TAOCP 3, 6.4)."""


@dataclass(frozen=True)
class Spines:
    """The switches that are joined to rails, S of them: `up` (K, S) and `down` (S, K) links from and to each
    rail, `n_links` where there is none. `order` (K, K, S): for each two rails the best first, by the lower
    score of both trunks; `tied` (K, K): how many of them are as good as the first."""

    fabric: Fabric
    health: HealthSnapshot
    node: Int64
    up: Int32
    down: Int32
    order: Int64
    tied: Int64

    @classmethod
    def of(cls, fabric: Fabric, health: HealthSnapshot, scores: Scores) -> Self | None:
        """None where the rails are isolated."""
        if "isolated-rails" in fabric.capabilities:
            return None
        rail = fabric.group("rail")
        assert rail is not None, "required of fabrics that are routed by rails"
        leaving = (fabric.link_src >= rail.first) & (fabric.link_src < rail.first + rail.size)
        trunk = np.flatnonzero(leaving & (fabric.link_dst >= fabric.n_gpus))[::-1]  # the lowest id counts
        node, spine = np.unique(fabric.link_dst[trunk].astype(np.int64), return_inverse=True)
        up = np.full((rail.size, len(node)), fabric.n_links, np.int32)
        up[fabric.link_src[trunk] - rail.first, spine] = trunk
        down = np.where(up < fabric.n_links, up ^ 1, fabric.n_links).T
        element = fabric.link_element
        own = np.where(
            element >= 0, np.minimum(health.element_score[element], health.link_score), health.link_score
        )
        own = np.append(np.where(scores.dead[:-1], 0.0, own), 0.0)
        factor = np.minimum(own[up][:, None, :], own[down].T[None, :, :])
        tied = (factor >= factor.max(axis=2, keepdims=True, initial=0.0) - EQUAL_WITHIN).sum(axis=2)
        return cls(fabric, health, node, up, down, np.argsort(-factor, axis=2, kind="stable"), tied)

    def choose(self, links: RailLinks, src: Int64, dst: Int64) -> tuple[Int64, PathBatch]:
        """(P,) the best spine of each pair of places on two rails, and its path over it; of equal ones by a
        hash of the pair."""
        a, b = src % links.rails, dst % links.rails
        turn = ((src * len(links.r_up) + dst) * MULTIPLIER & 0xFFFFFFFF) * self.tied[a, b] >> 32
        spine = self.order[a, b, turn]
        hops = links.r_up[src], self.up[a, spine], self.down[spine, b], links.r_down[dst]
        exists = (hops[1] < self.fabric.n_links) & (hops[2] < self.fabric.n_links)
        return spine, PathBatch.single(src, dst, np.stack(hops, axis=1), reachable=exists)

    def instead(
        self, links: RailLinks, margin: float, own: PathBatch, kind: Int64
    ) -> tuple[Int64, Int64, PathBatch]:
        """Of a batch of pairs of places, whose paths over their own rails are of these kinds: the positions
        of the pairs that leave them for a spine that scores more by the margin, these spines, and all paths.

        A path that is none of the source's kinds, over two rails and another domain, counts for nothing."""
        rows = np.flatnonzero(own.src % links.rails != own.dst % links.rails)
        if not len(rows) or not len(self.node):
            return rows[:0], rows[:0], own
        spine, over = self.choose(links, own.src[rows], own.dst[rows])
        had, would = (pair_scores(self.fabric, paths, self.health) for paths in (take(own, rows), over))
        had[np.isin(kind[rows], (NONE, RDR))] = 0.0
        better = np.flatnonzero(would > had * margin + EQUAL_WITHIN)
        return rows[better], spine[better], replaced(own, rows[better], take(over, better))
