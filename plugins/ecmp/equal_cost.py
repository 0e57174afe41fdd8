"""Equal-cost next hops of every switch towards many destinations at once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.routing.batches import spread, starts

CELLS = 1 << 21
"""Destinations x links worked on at a time; bounds the memory."""

FAR = np.iinfo(np.int64).max // 4


@dataclass(frozen=True)
class NextHops:
    """State = position of a destination x n_nodes + node; it may take `link[start[state] : start[state +
    1]]`."""

    start: Int64
    link: Int64


class EqualCost:
    """Searches backwards from destinations over the links that are up.

    The cost of a path: first the GPUs it passes through, then its hops. So no server forwards where switches
    can do it (rail-optimised: across rails by the spines), yet dr and rd stay where nothing else is there
    (rail-only).
    """

    def __init__(self, fabric: Fabric, down: Bool) -> None:
        n = self._n = fabric.n_nodes
        up = np.flatnonzero(~down & fabric.usable)
        through_gpu = (fabric.link_src[up] < fabric.n_gpus) & (len(fabric.groups) > 1)
        cost = 1 + np.where(through_gpu, n, 0)
        src, dst = fabric.link_src[up].astype(np.int64), fabric.link_dst[up].astype(np.int64)
        leaving, arriving = np.lexsort((up, src)), np.lexsort((up, dst))
        self._out = (up[leaving], src[leaving], dst[leaving], cost[leaving])
        self._into = (src[arriving], cost[arriving])
        self._into_start = into_start = np.searchsorted(dst[arriving], np.arange(n + 1))
        # of a GPU that one link alone leads to, from a switch: every path to it is one to that switch
        only = np.full(fabric.n_gpus, -1)
        single = np.flatnonzero(np.diff(into_start)[: fabric.n_gpus] == 1)
        only[single] = up[arriving[into_start[single]]]
        self._only = np.where(fabric.link_src[only] >= fabric.n_gpus, only, -1)
        self._before = np.where(self._only >= 0, fabric.link_src[self._only], np.arange(fabric.n_gpus))

    def last_hop(self, dst: Int64) -> tuple[Int64, Int64]:
        """(node, link), (P,) each: the switch that all paths to each GPU end with, and its link to the GPU;
        the GPU itself and -1 where there are several."""
        return self._before[dst], self._only[dst]

    def towards(self, dst: Int64) -> Iterator[tuple[Int64, Int64, NextHops]]:
        """In blocks of destinations, any nodes: (rows, states, next hops), rows the positions in `dst` that
        belong to it and states (rows,) the states of their destinations x node 0."""
        ends, which = np.unique(dst, return_inverse=True)
        block = max(1, CELLS // max(1, len(self._out[0])))
        by_end = np.argsort(which, kind="stable")
        bounds = np.searchsorted(which[by_end], np.arange(0, len(ends) + block, block))
        for first, low, high in zip(range(0, len(ends), block), bounds, bounds[1:], strict=False):
            rows = by_end[low:high]
            hops = self._next_hops(ends[first : first + block])
            yield rows, (which[rows] - first) * self._n, hops

    def _next_hops(self, ends: Int64) -> NextHops:
        link, src, dst, cost = self._out
        left = self._costs(ends)
        fits = (left[:, src] == left[:, dst] + cost) & (left[:, dst] < FAR)
        end, place = np.nonzero(fits)
        count = np.bincount(end * self._n + src[place], minlength=len(ends) * self._n)
        return NextHops(starts(count), link[place])

    def _costs(self, ends: Int64) -> Int64:
        """(ends, n_nodes): what is left to go from each node."""
        n = self._n
        left = np.full(len(ends) * n, FAR)
        changed = np.arange(len(ends)) * n + ends
        left[changed] = 0
        into_src, into_cost = self._into
        while changed.size:
            node = changed % n
            count = self._into_start[node + 1] - self._into_start[node]
            link = spread(self._into_start[node], count)
            state = np.repeat(changed - node, count) + into_src[link]
            cost = np.repeat(left[changed], count) + into_cost[link]
            better = cost < left[state]
            np.minimum.at(left, state[better], cost[better])
            changed = np.unique(state[better])
        return left.reshape(len(ends), n)
