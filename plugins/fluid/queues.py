"""Where the packets of flows wait: at the first link of a path that carries all it can."""

from typing import NamedTuple, Self

import numpy as np

from railweave.framework.model import PathBatch
from railweave.framework.model.arrays import Bool, Float, Int32, Int64


class WaitingPlaces(NamedTuple):
    """The paths of pairs, to find the links where their packets wait.

    A sender has a window of packets under way. Links that are not full pass them on at once, and a link
    behind one as slow as itself gets them one by one. So what is left of a message, up to the window, waits
    where its path is full first. Links that are alike for the solver differ in this.

    Of each path that has hops (Q,): its `pair`, and the `share` of the pair's packets on it; its hops begin
    at `start` in `link` (H,). `window_bits` (P,) of the pairs.
    """

    pair: Int64
    share: Float
    start: Int64
    link: Int32
    window_bits: Float

    @classmethod
    def of(cls, paths: PathBatch, window_bits: Float) -> Self:
        """`window_bits`: of each pair of `paths`."""
        has = np.diff(paths.hop_start) > 0
        return cls(
            paths.path_pair[has], paths.weight[has], paths.hop_start[:-1][has], paths.links, window_bits
        )

    def waiting_bits(self, left_bits: Float, full: Bool) -> Float:
        """(L,): what waits at each link. `left_bits` (P,): of what each pair sends now, or of one job after
        the other (J * P,); `full` (L,): the links that carry all they can."""
        waits, link = self._first_full(full)
        under_way = np.minimum(left_bits.reshape(-1, len(self.window_bits)), self.window_bits).sum(axis=0)
        bits = self.share[waits] * under_way[self.pair[waits]]
        return np.bincount(link, bits, len(full)).astype(np.float64)

    def may_wait(self, full: Bool) -> Int64:
        """The links at which packets of some pair wait if it sends."""
        may = np.zeros(len(full), bool)
        may[self._first_full(full)[1]] = True
        return np.flatnonzero(may)

    def _first_full(self, full: Bool) -> tuple[Bool, Int32]:
        """(Q,): the paths that have a full link, and the first one of each of these."""
        n_hops = len(self.link)
        if not n_hops or not full.any():
            return np.zeros(len(self.start), bool), self.link[:0]
        place = np.where(full[self.link], np.arange(n_hops), n_hops)
        first = np.minimum.reduceat(place, self.start)
        waits = first < np.append(self.start[1:], n_hops)
        return waits, self.link[first[waits]]
