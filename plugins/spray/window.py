"""The rails that each pair sprays over, for arrays of pairs: ranges of the rails sorted by h-score."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from railweave.framework.model.arrays import Int64
from railweave.framework.model.health import EQUAL_WITHIN
from railweave.framework.routing.batches import spread
from railweave.framework.routing.rails.links import DR, DRD, RD, R
from railweave.framework.routing.rails.scores import Scores

Window = Literal["strict", "blog"]


@dataclass(frozen=True, slots=True)
class SprayWindow:
    """Which rails count as comparable. strict: H in (m, m + delta]; blog: H in [m - delta, m + delta], as
    published.

    The second also takes in rails that are no better than rd and dr, and the pair's own. Source: "rail-only
    connections, Part 2" (Cisco Outshift, 2024).
    """

    mode: Window = "strict"
    delta: float = 1.0

    def ranges(self, scores: Scores, src: Int64, dst: Int64, same_rail: bool) -> tuple[Int64, Int64]:
        """(first, count), (P,) each, in `scores.order`. None for pairs of one domain, and, unless
        `same_rail`, of one rail.

        A snapshot's margin raises the strict window's lower bar, because measured scores are not exact.
        """
        m = scores.thresholds(src, dst, same_rail)
        if self.mode == "strict":
            first = np.searchsorted(scores.ordered, scores.bars(m), side="right")
        else:
            first = np.searchsorted(scores.ordered, m - self.delta - EQUAL_WITHIN, side="left")
        end = np.searchsorted(scores.ordered, m + self.delta + EQUAL_WITHIN, side="right")
        return first.astype(np.int64), np.maximum(end - first, 0).astype(np.int64)


def sprayed(scores: Scores, src: Int64, dst: Int64, first: Int64, count: Int64) -> tuple[Int64, Int64, Int64]:
    """(pair, kind, via) of every path, pairs in order and the rails of each ascending.

    A drd-path over the source's own rail is its rd-path, over the destination's its dr-path, and over a rail
    that both share their r-path.
    """
    rails = len(scores.rail)
    pair = np.repeat(np.arange(len(src)), count)
    pair, via = np.divmod(np.sort(pair * rails + scores.order[spread(first, count)]), rails)
    own, other = via == src[pair] % rails, via == dst[pair] % rails
    kind = np.select([own & other, own, other], [R, RD, DR], DRD)
    return pair, kind, np.where(kind == DRD, via, -1)
