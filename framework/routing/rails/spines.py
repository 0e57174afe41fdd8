"""Paths over the switches that join rails, for fabrics whose rails are not isolated."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from railweave.framework.model import Fabric, HealthSnapshot, PathBatch
from railweave.framework.model.arrays import Float, Int32, Int64
from railweave.framework.model.health import EQUAL_WITHIN
from railweave.framework.routing.batches import replaced, take
from railweave.framework.routing.damping import pair_scores
from railweave.framework.routing.rails.links import NONE, RDR, RailLinks
from railweave.framework.routing.rails.scores import Scores

MOST_CHOICES = 1 << 20
"""Spines of pairs of rails that are ranked together: some tens of megabytes."""
MULTIPLIER = 0x9E3779B1
"""2^32 over the golden ratio: pairs whose numbers are close take different spines (Knuth, TAOCP 3, 6.4)."""


@dataclass(frozen=True)
class Spines:
    """The switches that are joined to rails, S of them: `up` (K, S) and `down` (S, K) links from and to each
    rail, `n_links` where there is none; `up_score`, `down_score` (K, S) of these, 0 where there is none. A
    spine is as good for two rails as the worse of both trunks."""

    fabric: Fabric
    health: HealthSnapshot
    node: Int64
    up: Int32
    down: Int32
    up_score: Float
    down_score: Float

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
        score = np.where(
            element >= 0, np.minimum(health.element_score[element], health.link_score), health.link_score
        )
        score = np.append(np.where(scores.dead[:-1], 0.0, score), 0.0)
        return cls(fabric, health, node, up, down, score[up], score[down].T)

    def choose(self, links: RailLinks, src: Int64, dst: Int64) -> tuple[Int64, PathBatch]:
        """(P,) the best spine of each pair of places on two rails, and its path over it; of equal ones by a
        hash of the pair."""
        a, b = src % links.rails, dst % links.rails
        draw = (src * len(links.r_up) + dst) * MULTIPLIER & 0xFFFFFFFF
        rails, place = np.unique(a * links.rails + b, return_inverse=True)
        step, spine = max(1, MOST_CHOICES // len(self.node)), np.empty(len(src), np.int64)
        for first in range(0, len(rails), step):
            order, tied = self._ranked(*np.divmod(rails[first : first + step], links.rails))
            some = np.flatnonzero((place >= first) & (place < first + step))
            at = place[some] - first
            spine[some] = order[at, draw[some] * tied[at] >> 32]
        hops = links.r_up[src], self.up[a, spine], self.down[spine, b], links.r_down[dst]
        exists = (hops[1] < self.fabric.n_links) & (hops[2] < self.fabric.n_links)
        return spine, PathBatch.single(src, dst, np.stack(hops, axis=1), reachable=exists)

    def _ranked(self, a: Int64, b: Int64) -> tuple[Int64, Int64]:
        """Of pairs of rails (R,): the spines (R, S), best first, and how many (R,) are as good as that."""
        factor = np.minimum(self.up_score[a], self.down_score[b])
        tied = (factor >= factor.max(axis=1, keepdims=True, initial=0.0) - EQUAL_WITHIN).sum(axis=1)
        return np.argsort(-factor, axis=1, kind="stable"), tied

    def instead(
        self, links: RailLinks, margin: float, over_rails: PathBatch, kind: Int64
    ) -> tuple[Int64, Int64, PathBatch]:
        """Of a batch of pairs of places, whose paths over their own rails are of these kinds: the positions
        of the pairs that leave them for a spine that scores more by the margin, these spines, and all paths.

        A path that is none of the source's kinds, over two rails and another domain, counts for nothing."""
        rows = np.flatnonzero(over_rails.src % links.rails != over_rails.dst % links.rails)
        if not len(rows) or not len(self.node):
            return rows[:0], rows[:0], over_rails
        spine, over = self.choose(links, over_rails.src[rows], over_rails.dst[rows])
        before = take(over_rails, rows)
        had, would = (pair_scores(self.fabric, paths, self.health) for paths in (before, over))
        had[np.isin(kind[rows], (NONE, RDR))] = 0.0
        better = np.flatnonzero(would > had * margin + EQUAL_WITHIN)
        return rows[better], spine[better], replaced(over_rails, rows[better], take(over, better))
