"""What is alike in a schedule on a fabric: pairs and links that its symmetries make one.

A symmetry that a schedule states is a permutation of ranks, and nothing but a claim. It is used if it leads
from every entry to one that is alike, which waits for the images of what the first waits for, and if pairs
and links then fall into classes: all links of a class have one capacity and carry as many flows of each class
of pairs, and all pairs of a class use as many links of each class of links, in every state. Max-min fair
rates are the same within such classes (an equitable partition), and so are all times.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from railweave.framework.fluid.network import Network
from railweave.framework.model import Schedule
from railweave.framework.model.arrays import Bool, Int64, spread

Marks = NDArray[np.uint64]
WEIGHT_STEPS = 1 << 30
"""Uses of a link that differ by less than one part in so many are equal."""
_PART = np.uint64((1 << 42) - 1)


class Places(NamedTuple):
    """Entries by where they are carried out: `key` (n,) is their pair, or n_pairs + their rank for
    computations, or one of its own, behind these, for a join of all ranks. `order`: all entries by key, then
    by number; those of key k begin at `start[k]`; `place` (n,) counts them from 0."""

    key: Int64
    order: Int64
    start: Int64
    place: Int64

    @classmethod
    def of(cls, schedule: Schedule, pair: Int64, n_pairs: int) -> "Places":
        """`pair` (n,): that of every transfer."""
        n, joins = schedule.n_entries, schedule.src < 0
        behind = n_pairs + schedule.n_ranks
        key = np.where(schedule.is_transfer, pair, n_pairs + schedule.src).astype(np.int64)
        key[joins] = behind + np.arange(np.count_nonzero(joins))
        order = np.argsort(key, kind="stable")
        start = np.searchsorted(key[order], np.arange(behind + np.count_nonzero(joins) + 1))
        place = np.empty(n, np.int64)
        place[order] = np.arange(n) - start[key[order]]
        return cls(key, order, start, place)

    def image(self, keys: Int64) -> Int64 | None:
        """(n,): the entry that each becomes if its key becomes `keys[key]`; None where numbers differ."""
        count = np.diff(self.start)
        if np.any(count[keys] != count):
            return None
        entries: Int64 = self.order[self.start[keys[self.key]] + self.place]
        return entries


def classes(
    schedule: Schedule, places: Places, src: Int64, dst: Int64, networks: Sequence[Network]
) -> tuple[Int64, Int64]:
    """(K,): the first of the class of every key, pairs (P,) from `src` to `dst`, ascending, being the first
    keys; (L,): the class of every link, -1 where nothing passes. `networks`: of every state, each pair and
    link by itself."""
    views, n_pairs = [_View(network) for network in networks], len(src)

    def alike(moves: Sequence[Int64]) -> tuple[Int64, Int64] | None:
        first = orbits(len(places.start) - 1, moves)
        links = _link_classes(first[:n_pairs], views)
        return None if links is None else (first, links)

    kept: list[Int64] = []
    unclear: list[list[Int64]] = []
    for one in schedule.symmetries:
        # ties between routes may alternate along an axis, and come back after two moves
        powers = one.astype(np.int64), one[one].astype(np.int64)
        moves = [move for power in powers if (move := _keys(schedule, places, src, dst, power)) is not None]
        sure = [move for move in moves if all(view.leads_to_links(move[:n_pairs]) for view in views)]
        kept += sure[:1]
        if not sure:
            unclear.append(moves)
    result = alike(kept)
    assert result is not None
    for moves in unclear:
        for move in moves:
            promising = all(view.looks_alike(move[:n_pairs]) for view in views)
            if promising and (more := alike([*kept, move])) is not None:
                kept, result = [*kept, move], more
                break
    return result


def _keys(
    schedule: Schedule, places: Places, src: Int64, dst: Int64, move: NDArray[np.int32]
) -> Int64 | None:
    """What becomes of every key if every rank becomes `move[rank]`; None where that is no symmetry of the
    schedule."""
    n, ranks = schedule.n_ranks, move.astype(np.int64)
    if len(ranks) != n or not np.array_equal(np.sort(ranks), np.arange(n)):
        return None
    pairs, moved = src * n + dst, ranks[src] * n + ranks[dst]
    to = np.minimum(np.searchsorted(pairs, moved), max(0, len(pairs) - 1))
    if not np.array_equal(pairs[to], moved):
        return None
    keys = np.concatenate((to, len(pairs) + ranks, np.arange(len(pairs) + n, len(places.start) - 1)))
    image = places.image(keys)
    if image is None:
        return None
    shares_slot = np.zeros(schedule.n_entries, bool)
    by_key = places.order
    shares_slot[by_key[1:]] = (np.diff(schedule.slot[by_key]) == 0) & (np.diff(places.key[by_key]) == 0)
    for column in (schedule.size, schedule.repeat, schedule.lag, schedule.seconds, shares_slot):
        if np.any(column[image] != column):
            return None
    marks = _mixed(np.arange(schedule.n_entries))
    for start, of in ((schedule.after_start, schedule.after), (schedule.chained_start, schedule.chained)):
        if np.any(_sums(start, marks[image[of]]) != _sums(start, marks[of])[image]):
            return None
    return keys


class _View:
    """A network with sums over hops."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._use = np.rint(network.use * WEIGHT_STEPS).astype(np.int64)
        self._single = bool((network.use == 1).all())

    def leads_to_links(self, move: Int64) -> bool:
        """Whether one link becomes one link, of the same capacity, if every pair becomes `move[pair]` and its
        hops, in their order, those of that pair."""
        network, count = self._network, np.diff(self._network.start)
        if np.any(count[move] != count) or np.any(network.delay_s[move] != network.delay_s):
            return False
        hops = spread(network.start[move], count)
        to, image = np.full(network.n_links, -1), network.link[hops]
        to[network.link] = image
        same = np.array_equal(to[network.link], image) and np.array_equal(self._use[hops], self._use)
        used = to >= 0
        return same and np.array_equal(network.capacity_bps[to[used]], network.capacity_bps[used])

    def looks_alike(self, move: Int64) -> bool:
        """Whether pairs and those that they become cross links of the same capacities and loads, which are
        crossed by such pairs: if not, nothing else needs to be compared."""
        return np.array_equal(self._looks[move], self._looks)

    @cached_property
    def _looks(self) -> Marks:
        network = self._network
        load = np.bincount(network.link, self._use, network.n_links).astype(np.int64)
        crossed = self.of_pairs(_mixed(network.capacity_bps.view(np.int64), load))
        return self.of_pairs(self.of_links(crossed))

    def of_links(self, of_pair: Marks) -> Marks:
        """(L,): a mark of the capacity of each link, and the marks and uses of all pairs that cross it."""
        network = self._network
        marks = np.repeat(of_pair, np.diff(network.start))
        if not self._single:
            marks = _mixed(marks, self._use)
        # sums of 2^11 x 2^42 in floats are exact
        parts = [
            np.bincount(network.link, marks >> np.uint64(shift) & _PART, network.n_links) for shift in (0, 22)
        ]
        return _mixed(network.capacity_bps.view(np.int64), *(part.view(np.int64) for part in parts))

    def of_pairs(self, of_link: Marks) -> Marks:
        """(P,): a mark of the delay of each pair, and the marks and uses of all links that it crosses."""
        network = self._network
        marks = of_link[network.link]
        if not self._single:
            marks = _mixed(marks, self._use)
        return _mixed(network.delay_s.view(np.int64), _sums(network.start, marks))

    def used(self) -> Bool:
        """(L,): the links that some pair crosses."""
        return np.bincount(self._network.link, minlength=self._network.n_links) > 0


def _link_classes(pair_class: Int64, views: Sequence[_View]) -> Int64 | None:
    """(L,): the class of every link, -1 where nothing passes; None where pairs of a class (P,) differ."""
    marks = _mixed(*(view.of_links(_mixed(pair_class)) for view in views))
    used = np.logical_or.reduce([view.used() for view in views])
    link_class = np.full(len(marks), -1)
    link_class[used] = np.unique(marks[used], return_inverse=True)[1]
    for view in views:
        crossed = view.of_pairs(_mixed(link_class))
        if np.any(crossed != crossed[pair_class]):
            return None
    return link_class


def orbits(n: int, moves: Sequence[Int64]) -> Int64:
    """(n,): the least number to which permutations (n,) of 0..n-1 lead from each."""
    least = np.arange(n)
    settled = False
    while not settled:
        settled = True
        for move in moves:
            step = move
            while np.any((reached := np.minimum(least, least[step])) != least):
                least, step, settled = reached, step[step], False
    return least


def _mixed(*columns: NDArray[np.int64 | np.uint64]) -> Marks:
    """A random-looking number for each row. Source: the finaliser of SplitMix64 (Steele, Lea and Flood,
    "Fast splittable pseudorandom number generators", 2014)."""
    mark = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mark = (mark ^ column.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        mark = (mark ^ (mark >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mark = (mark ^ (mark >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mark ^= mark >> np.uint64(31)
    return mark


def _sums(start: Int64, marks: Marks) -> Marks:
    """(n,): the sum of each of n ranges, which does not depend on the order in it."""
    sums = np.zeros(len(marks) + 1, np.uint64)
    np.cumsum(marks, out=sums[1:])
    return sums[start[1:]] - sums[start[:-1]]
