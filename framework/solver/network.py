"""The links that flows share, and the use that each pair's flow makes of them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.model.arrays import ArrayNoun, Float, Int32, Int64, spread
from railweave.framework.model.routes import starts


@dataclass(frozen=True, eq=False)
class Network(ArrayNoun):
    """`capacity_bps` (L,) of links; pair p uses links `link[start[p]:start[p + 1]]`.

    `start` (P+1,); `link`, `use` (H,): of every bit/s of the pair's flow, `use` bit/s pass that link (1 on a
    single path; a link on several paths of the pair comes once, with the sum of their weights). `delay_s`
    (P,): from the moment a sender starts until the flow takes its share of the links. A pair without links
    is unreachable.
    """

    capacity_bps: Float
    start: Int64
    link: Int32
    use: Float
    delay_s: Float

    def __post_init__(self) -> None:
        for name in ("capacity_bps", "start", "link", "use", "delay_s"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name)))  # one type for numba
        ArrayNoun.__post_init__(self)
        if not (np.all(self.capacity_bps >= 0) and np.all(np.isfinite(self.capacity_bps))):
            raise FabricError("network: a capacity is negative or not a number; a link that is down has 0.")
        if not (np.all(self.delay_s >= 0) and np.all(np.isfinite(self.delay_s))):
            raise FabricError("network: a delay is negative or not a number.")

    def of_pairs(self, pairs: Int64) -> "Network":
        """These pairs, which may be there more than once."""
        if np.array_equal(pairs, np.arange(self.n_pairs)):
            return self  # a copy of a large one would take as much memory
        count = self.hops[pairs]
        hops = spread(self.start[pairs], count)
        return Network(self.capacity_bps, starts(count), self.link[hops], self.use[hops], self.delay_s[pairs])

    @property
    def n_pairs(self) -> int:
        return len(self.delay_s)

    @property
    def n_links(self) -> int:
        return len(self.capacity_bps)

    @cached_property
    def hops(self) -> Int64:
        """(P,): how many links each pair uses."""
        return np.diff(self.start)

    @cached_property
    def link_start(self) -> Int64:
        """(L+1,): where each link's hops begin if they are sorted by link."""
        count = np.zeros(self.n_links, np.int64)
        np.add.at(count, self.link, 1)  # of large ones bincount takes ten times as long
        return starts(count)
