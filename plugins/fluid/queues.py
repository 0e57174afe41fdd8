"""Where the packets of flows wait: at the first link of a path that carries all it can."""

from typing import NamedTuple, Self

import numpy as np

from railweave.framework.model import PathBatch
from railweave.framework.model.arrays import Bool, Float, Int32, Int64


class Behind(NamedTuple):
    """What waits behind full links: of each path that has one (W,), its `pair`, the `share` of the pair's
    packets on it, and the first of its links that is full, of `n_links`. `window_bits` (P,) of the pairs."""

    pair: Int64
    share: Float
    link: Int32
    window_bits: Float
    n_links: int

    def waiting_bits(self, left_bits: Float) -> Float:
        """(L,): what waits at each link. `left_bits` (P,): of what each pair sends now, or of one job after
        the other (J * P,)."""
        under_way = np.minimum(left_bits.reshape(-1, len(self.window_bits)), self.window_bits).sum(axis=0)
        bits = self.share * under_way[self.pair]
        return np.bincount(self.link, bits, self.n_links).astype(np.float64)

    @property
    def links(self) -> Int64:
        """Those at which packets of some pair wait if it sends."""
        return np.flatnonzero(np.bincount(self.link, minlength=self.n_links))


class WaitingPlaces(NamedTuple):
    """The paths of pairs, to find the links where their packets wait.

    A sender has a window of packets under way. Links that are not full pass them on at once, and a link
    behind one as slow as itself gets them one by one. So the rest of a message, up to the window, waits
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

    def behind(self, full: Bool) -> Behind:
        """What waits behind the links that carry all they can, `full` (L,)."""
        n_hops = len(self.link)
        if not n_hops or not full.any():
            nothing = np.empty(0, np.int64)
            return Behind(nothing, np.empty(0), self.link[:0], self.window_bits, len(full))
        place = np.where(full[self.link], np.arange(n_hops), n_hops)
        first = np.minimum.reduceat(place, self.start)
        waits = first < np.append(self.start[1:], n_hops)
        link = self.link[first[waits]]
        return Behind(self.pair[waits], self.share[waits], link, self.window_bits, len(full))
