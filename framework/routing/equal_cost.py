"""Equal-cost next hops of every switch towards many destinations at once, and the paths that they make."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from railweave.framework.model import Fabric, Path, PathBatch
from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.routing.batches import join, spread, starts, take

CELLS = 1 << 21
"""Destinations x links worked on at a time; bounds the memory."""

FAR = np.iinfo(np.int64).max // 4
"""Distance of what is not reachable: sums of several stay within 64 bits."""
MOST_COUNTED = 1 << 31
"""Paths of a pair that are told apart; of more, some are never drawn."""
_STRIDE = 7919
"""A prime: pairs that take a part of their paths begin at different ones."""


@dataclass(frozen=True)
class NextHops:
    """State = position of a destination x n_nodes + node; it may take `link[start[state] : start[state +
    1]]`, which lead to the states `to`. `left`: the cost from each state on."""

    start: Int64
    link: Int64
    to: Int64
    left: Int64

    @cached_property
    def before(self) -> Int64:
        """(H + 1,): how many paths the links before each one begin, MOST_COUNTED a link at most."""
        paths, sums = np.zeros(len(self.left), np.int64), np.zeros(len(self.link) + 1, np.int64)
        reached = np.flatnonzero(self.left < FAR)
        reached = reached[np.argsort(self.left[reached], kind="stable")]
        for states in np.split(reached, np.flatnonzero(np.diff(self.left[reached])) + 1):
            count = self.start[states + 1] - self.start[states]
            hops = spread(self.start[states], count)
            onward = np.bincount(np.repeat(np.arange(len(states)), count), paths[self.to[hops]], len(states))
            paths[states] = np.minimum(np.where(count > 0, onward, 1), MOST_COUNTED)
        np.cumsum(paths[self.to], out=sums[1:])
        return sums

    def count(self, state: Int64) -> Int64:
        """How many paths lead from each of these states to its destination."""
        return self.before[self.start[state + 1]] - self.before[self.start[state]]

    def take(self, state: Int64, number: Int64) -> tuple[Int64, Int64]:
        """(link, number): the next link of path `number` of each state, and which one it is from there."""
        place = self.before[self.start[state]] + number
        hop = np.searchsorted(self.before, place, side="right") - 1
        return self.link[hop], place - self.before[hop]


LayOut = Callable[[NextHops, Int64, Int64, Int64, Int64, Int64], PathBatch]
"""See `EqualCost.paths`."""


def _laid_out(
    fabric: Fabric,
    most: int,
    hops: NextHops,
    state: Int64,
    src: Int64,
    dst: Int64,
    before: Int64,
    last: Int64,
) -> PathBatch:
    """The paths to the nodes `before`, then the links `last`, where there are any."""
    there = np.where(src == dst, 0, hops.count(state + src))
    count = np.minimum(there, most)
    pair, nth = np.repeat(np.arange(len(src)), count), spread(np.zeros(len(src), np.int64), count)
    first = (src * _STRIDE + dst) % np.maximum(there // np.maximum(count, 1), 1)
    number, node = first[pair] + nth * there[pair] // count[pair], src[pair]
    walking, columns = np.arange(len(pair)), [np.empty((len(pair), 0), np.int32)]
    while walking.size:
        path_pair = pair[walking]
        link, on = last[path_pair], np.flatnonzero(node[walking] != before[path_pair])
        link[on], number[walking[on]] = hops.take((state[path_pair] + node[walking])[on], number[walking[on]])
        column = np.full((len(pair), 1), -1, np.int32)
        column[walking, 0] = link
        columns.append(column)
        node[walking] = fabric.link_dst[link]
        walking = walking[node[walking] != dst[path_pair]]
    links = np.concatenate(columns, axis=1)
    used = links >= 0
    return PathBatch(src, dst, starts(count), 1 / count[pair], starts(used.sum(axis=1)), links[used])


class ShortestPaths:
    """The paths of least cost between two nodes, GPUs or switches, over links that are up: for routers that
    think pair by pair. Destinations are searched for once. The cost is the GPUs passed through, then hops.

    >>> fabric = rw.topology("fat-tree", k=4)
    >>> paths_of = ShortestPaths(fabric, rw.framework.model.HealthSnapshot.healthy(fabric).down)
    >>> len(paths_of(0, 15)), len(paths_of(0, 1))
    (4, 1)
    """

    def __init__(self, fabric: Fabric, down: Bool, most: int = 128, scores: Float | None = None) -> None:
        """`most`: paths of a pair; of more, as many are taken evenly from them in the order of their links,
        from another one on for each pair. `scores` (n_links,): a path weighs its lowest one times the rate of
        its slowest link. (Not their least product: links above are shared, so that what they have left for a
        pair is no rate of theirs.) Equal weights without."""
        self._fabric, self._most, self._scores = fabric, most, scores
        self._search = EqualCost(fabric, down)
        self._towards: dict[int, _Towards] = {}

    def __call__(self, src: int, dst: int) -> list[Path]:
        """None where no path leads."""
        if (towards := self._towards.get(dst)) is None:
            ((_, _, hops),) = self._search.towards(np.array([dst]))
            towards = self._towards[dst] = _Towards(hops, self._fabric.link_dst.tolist(), dst)
        if src == dst:
            return []
        if towards.hops.count(np.array([src]))[0] <= self._most:
            ways = towards.paths(src)
        else:
            zero, ends = np.zeros(1, np.int64), (np.array([src]), np.array([dst]), np.array([dst]))
            batch = _laid_out(self._fabric, self._most, towards.hops, zero, *ends, zero - 1)
            ways = [path.links for path in batch.paths(0)]
        if (scores := self._scores) is None:
            return [Path(way) for way in ways]
        rates, lists = self._fabric.capacity_bps, map(list, ways)
        return [Path(tuple(way), float(min(scores[way]) * min(rates[way]))) for way in lists]

    def batch(self, src: Int64, dst: Int64) -> PathBatch:
        """Those of many pairs of GPUs."""
        batch = self._search.paths(src, dst, partial(_laid_out, self._fabric, self._most))
        if self._scores is None or not len(batch.weight):
            return batch
        lowest, slowest = (
            np.minimum.reduceat(of_link[batch.links], batch.hop_start[:-1])
            for of_link in (self._scores, self._fabric.capacity_bps)
        )
        serves = lowest * slowest
        weight = serves / np.bincount(batch.path_pair, serves, len(src))[batch.path_pair]
        return PathBatch(batch.src, batch.dst, batch.pair_start, weight, batch.hop_start, batch.links)


class _Towards:
    """The paths to one node; what follows a link is laid out once."""

    def __init__(self, hops: NextHops, link_dst: list[int], dst: int) -> None:
        self.hops, self._link_dst = hops, link_dst
        self._start, self._link = hops.start.tolist(), hops.link.tolist()
        self._paths: dict[int, list[tuple[int, ...]]] = {dst: [()]}

    def paths(self, node: int) -> list[tuple[int, ...]]:
        by_node, waiting = self._paths, [node]
        while waiting:  # a ring has more links to go than Python has frames
            links = self._link[self._start[waiting[-1]] : self._start[waiting[-1] + 1]]
            ends = [self._link_dst[link] for link in links]
            if later := [end for end in ends if end not in by_node]:
                waiting += later
                continue
            of_link = zip(links, ends, strict=True)
            by_node[waiting.pop()] = [(link, *rest) for link, end in of_link for rest in by_node[end]]
        return by_node[node]


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

    def paths(self, src: Int64, dst: Int64, lay_out: LayOut) -> PathBatch:
        """The paths of pairs of GPUs, a block of destinations at a time, as `lay_out(hops, state, src, dst,
        node, link)` gives them. (P,) each: `state` of the destination x node 0; `node`, the switch that all
        paths to the GPU end with, and its `link` to it; the GPU itself and -1 where there are several."""
        rows, parts = [np.empty(0, np.int64)], list[PathBatch]()
        before, last = self._before[dst], self._only[dst]
        for some, state, hops in self.towards(before):
            rows.append(some)
            parts.append(lay_out(hops, state, src[some], dst[some], before[some], last[some]))
        return take(join(*parts), np.argsort(np.concatenate(rows)))

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
        return NextHops(starts(count), link[place], end * self._n + dst[place], left.ravel())

    def _costs(self, ends: Int64) -> Int64:
        """(ends, n_nodes): the cost from each node on."""
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
