"""What is alike in a schedule on a fabric: pairs and links that its symmetries make one.

A symmetry that a schedule states is a permutation of ranks, and nothing but a claim. It is used if it leads
from every entry to one that is alike, which waits for the images of what the first waits for, and if pairs
and links then fall into classes: all links of a class have one capacity and carry as many flows of each class
of pairs, and all pairs of a class use as many links of each class of links, in every state. Max-min fair
rates are the same within such classes (an equitable partition), and so are all times.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from railweave.framework.model import Schedule
from railweave.framework.model.arrays import Bool, Int64, Marks, mixed, spread
from railweave.framework.model.routes import starts
from railweave.framework.solver.network import Network

WEIGHT_STEPS = 1 << 30
"""Uses of a link that differ by less than one part in this number are equal."""
SAMPLE = 4096
"""Pairs that are tried before all."""
BLOCK = 1 << 20
"""Hops that are looked at together: what is made of them takes little memory."""


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
    schedule: Schedule,
    sizes: Marks,
    places: Places,
    src: Int64,
    dst: Int64,
    networks: Sequence[Network],
) -> tuple[Int64, Int64]:
    """(K,): the first of the class of every key, pairs (P,) from `src` to `dst`, ascending, being the first
    keys; (L,): the class of every link, -1 where nothing passes. `networks`: of every state, each pair and
    link by itself. `sizes` (n,): see `size_marks`."""
    views, n_pairs = [_BlockView(network) for network in networks], len(src)
    entries = _ScheduleEntries(schedule, sizes, places, src, dst)

    def alike(moves: Sequence[Int64]) -> tuple[Int64, Int64] | None:
        first = orbits(len(places.start) - 1, moves)
        links = _link_classes(first[:n_pairs], views)
        return None if links is None else (first, links)

    single = all(view.single for view in views)
    kept: list[Int64] = []
    unclear: list[Int64] = []
    for symmetry in schedule.symmetries.astype(np.int64):
        for ranks in (symmetry, symmetry[symmetry]):  # ties between routes may alternate along an axis
            pairs = entries.moved_pairs(ranks)
            leads = pairs is not None and all(view.leads_to_links(pairs) for view in views)
            if pairs is None or (single and not leads):
                continue  # most end here, and a sample of pairs is enough for that
            move = entries.moved(ranks, pairs)
            if move is not None and leads:
                kept.append(move)
                break
            if move is not None:
                unclear.append(move)  # hops of several paths have no order
    if not kept and not unclear:
        used = np.logical_or.reduce([view.used() for view in views])
        return np.arange(len(places.start) - 1), np.where(used, np.cumsum(used) - 1, -1)
    if (result := alike(kept)) is None:  # links do not become the same ones in every state
        kept, unclear, result = [], kept + unclear, alike([])
    assert result is not None, "a pair differs from itself"
    for move in unclear:
        promising = all(view.looks_alike(move[:n_pairs]) for view in views)
        if promising and (merged := alike([*kept, move])) is not None:
            kept, result = [*kept, move], merged
    return result


def side_by_side(schedules: Sequence[Schedule]) -> Schedule:
    """What is alike or not in jobs between GPUs, as one schedule in which each has the GPUs to itself. Its
    symmetries are those of each job while the others stay as they are, and those of all at once, the first
    with the first."""
    if len(schedules) == 1:
        return schedules[0]
    n, jobs = schedules[0].n_ranks, len(schedules)

    def joined(name: str, shift: Sequence[int] | None = None) -> Any:
        parts = zip(schedules, shift or [0] * jobs, strict=False)
        return np.concatenate(
            [np.where((values := getattr(schedule, name)) < 0, values, values + by) for schedule, by in parts]
        )

    def begins(name: str) -> Int64:
        return starts(np.concatenate([np.diff(getattr(schedule, name)) for schedule in schedules]))

    entry = starts(np.array([schedule.n_entries for schedule in schedules])).tolist()
    slot = starts(np.array([int(schedule.slot.max(initial=-1)) + 1 for schedule in schedules])).tolist()
    ranks, same = [job * n for job in range(jobs)], np.arange(jobs * n)
    claims = [schedule.symmetries + first for schedule, first in zip(schedules, ranks, strict=True)]
    symmetries = [np.concatenate(together) for together in zip(*claims, strict=False)]
    for first, of_job in zip(ranks, claims, strict=True):
        symmetries += [np.concatenate((same[:first], claim, same[first + n :])) for claim in of_job]
    nothing, buffer_bytes = (
        np.zeros(entry[-1], np.int32),
        max(schedule.buffer_bytes for schedule in schedules),
    )
    return Schedule(
        "jobs", jobs * n, 0, schedules[0].dtype, schedules[0].redop, buffer_bytes,
        src=joined("src", ranks), dst=joined("dst", ranks), size=joined("size"), src_offset=nothing,
        dst_offset=nothing, reduce=nothing, phase=nothing, after_start=begins("after_start"),
        after=joined("after", entry), chained_start=begins("chained_start"), chained=joined("chained", entry),
        repeat=joined("repeat"), lag=joined("lag"), seconds=joined("seconds"), slot=joined("slot", slot),
        symmetries=np.array(symmetries, np.int32).reshape(-1, jobs * n),
    )  # fmt: skip


def size_marks(schedule: Schedule) -> Marks:
    """(n,): a mark of the sizes of all repetitions of every entry, in their order."""
    start, sizes = schedule.per_repetition(lambda size: size)
    repetition = spread(np.zeros(len(start) - 1, np.int64), np.diff(start))
    return _sums(start, mixed(repetition, sizes.view(np.int64)))


class _ScheduleEntries:
    """The entries of a schedule, for comparing them with what they become."""

    def __init__(self, schedule: Schedule, sizes: Marks, places: Places, src: Int64, dst: Int64) -> None:
        self._places, self._src, self._dst, self._n = places, src, dst, schedule.n_ranks
        shares_slot = np.zeros(schedule.n_entries, bool)
        by_key = places.order
        shares_slot[by_key[1:]] = (np.diff(schedule.slot[by_key]) == 0) & (np.diff(places.key[by_key]) == 0)
        columns = (sizes, schedule.repeat, schedule.lag, schedule.seconds, shares_slot)
        self._columns = [column for column in columns if (column != column[0]).any()]
        self._marks = mixed(np.arange(schedule.n_entries))
        waits = (schedule.after_start, schedule.after), (schedule.chained_start, schedule.chained)
        self._waits = [
            (start, after, _sums(start, self._marks[after])) for start, after in waits if len(after)
        ]

    def moved_pairs(self, ranks: Int64) -> Int64 | None:
        """(P,): what becomes of every pair if every rank becomes `ranks[rank]`; None where one becomes a pair
        that sends nothing."""
        n, src, dst, n_pairs = self._n, self._src, self._dst, len(self._src)
        if len(ranks) != n or not np.array_equal(np.sort(ranks), np.arange(n)):
            return None
        pairs, moved = src * n + dst, ranks[src] * n + ranks[dst]
        if n * n <= 8 * n_pairs:
            place = np.full(n * n, -1)
            place[pairs] = np.arange(n_pairs)
            to = place[moved]
        else:
            to = np.minimum(np.searchsorted(pairs, moved), max(0, n_pairs - 1))
        return to if np.array_equal(pairs[to], moved) else None

    def moved(self, ranks: Int64, pairs: Int64) -> Int64 | None:
        """What becomes of every key if every rank becomes `ranks[rank]` and every pair `pairs[pair]`; None
        where that is no symmetry of the schedule."""
        n, n_pairs = self._n, len(pairs)
        keys = np.concatenate((pairs, n_pairs + ranks, np.arange(n_pairs + n, len(self._places.start) - 1)))
        image = self._places.image(keys)
        if image is None or any(np.any(column[image] != column) for column in self._columns):
            return None
        for start, after, marks in self._waits:
            if np.any(_sums(start, self._marks[image[after]]) != marks[image]):
                return None
        return keys


class _BlockView:
    """A network with sums over hops, taken a block of pairs at a time."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.single = bool((network.use == 1).all())
        """Whether each pair has one path, whose hops are in order."""
        self._use = None if self.single else np.rint(network.use * WEIGHT_STEPS).astype(np.int64)
        edges = np.searchsorted(network.start, np.arange(BLOCK, len(network.link), BLOCK))
        self._edges = [0, *np.unique(edges).tolist(), network.n_pairs]

    def _blocks(self) -> Iterator[tuple[slice, slice]]:
        """Pairs that follow each other, and their hops."""
        for low, high in pairwise(self._edges):
            yield slice(low, high), slice(int(self._network.start[low]), int(self._network.start[high]))

    def leads_to_links(self, move: Int64) -> bool:
        """Whether one link becomes one link, of the same capacity, if every pair becomes `move[pair]` and its
        hops, in their order, those of that pair."""
        network, start = self._network, self._network.start
        count, to = np.diff(start), np.full(self._network.n_links, -1, np.int32)
        few = slice(0, min(len(move), SAMPLE))
        for pairs, hops in ((few, slice(0, int(start[few.stop]))), *self._blocks()):
            moved, link = move[pairs], network.link[hops]
            if np.any(count[moved] != count[pairs]) or np.any(
                network.delay_s[moved] != network.delay_s[pairs]
            ):
                return False
            images = spread(start[moved], count[moved])
            image, before = network.link[images], to[link]
            to[link] = image
            if np.any(to[link] != image) or np.any((before != image) & (before >= 0)):
                return False
            if self._use is not None and np.any(self._use[images] != self._use[hops]):
                return False
        used = np.flatnonzero(to >= 0)
        return np.array_equal(network.capacity_bps[to[used]], network.capacity_bps[used])

    def looks_alike(self, move: Int64) -> bool:
        """Whether pairs and their images cross links of the same capacities and loads, which are
        crossed by such pairs: if not, nothing else needs to be compared."""
        return np.array_equal(self._looks[move], self._looks)

    @cached_property
    def _looks(self) -> Marks:
        network = self._network
        load = np.bincount(network.link, self._use, network.n_links).astype(np.int64)
        crossed = self.of_pairs(mixed(network.capacity_bps.view(np.int64), load))
        return self.of_pairs(self.of_links(crossed))

    def of_links(self, of_pair: Marks) -> Marks:
        """(L,): a mark of the capacity of each link, and the marks and uses of all pairs that cross it."""
        network = self._network
        bits = 52 - int(np.bincount(network.link, minlength=1).max()).bit_length()  # sums in floats are exact
        sums = np.zeros((2, network.n_links))
        for pairs, hops in self._blocks():
            marks = self._with_use(np.repeat(of_pair[pairs], np.diff(network.start)[pairs]), hops)
            for i, part in enumerate((marks & np.uint64((1 << bits) - 1), marks >> np.uint64(64 - bits))):
                sums[i] += np.bincount(network.link[hops], part, network.n_links)
        return mixed(network.capacity_bps.view(np.int64), *sums.view(np.int64))

    def of_pairs(self, of_link: Marks) -> Marks:
        """(P,): a mark of the delay of each pair, and the marks and uses of all links that it crosses."""
        network, sums = self._network, np.empty(self._network.n_pairs, np.uint64)
        for pairs, hops in self._blocks():
            marks = self._with_use(of_link[network.link[hops]], hops)
            sums[pairs] = _sums(network.start[pairs.start : pairs.stop + 1] - hops.start, marks)
        return mixed(network.delay_s.view(np.int64), sums)

    def _with_use(self, marks: Marks, hops: slice) -> Marks:
        return marks if self._use is None else mixed(marks, self._use[hops])

    def used(self) -> Bool:
        """(L,): the links that some pair crosses."""
        return np.bincount(self._network.link, minlength=self._network.n_links) > 0


def _link_classes(pair_class: Int64, views: Sequence[_BlockView]) -> Int64 | None:
    """(L,): the class of every link, -1 where nothing passes; None where pairs of a class (P,) differ."""
    marks = mixed(*(view.of_links(mixed(pair_class)) for view in views))
    used = np.logical_or.reduce([view.used() for view in views])
    link_class = np.full(len(marks), -1)
    link_class[used] = np.unique(marks[used], return_inverse=True)[1]
    for view in views:
        crossed = view.of_pairs(mixed(link_class))
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


def _sums(start: Int64, marks: Marks) -> Marks:
    """(n,): the sum of each of n ranges, which does not depend on the order in it."""
    sums = np.zeros(len(marks) + 1, np.uint64)
    np.cumsum(marks, out=sums[1:])
    return sums[start[1:]] - sums[start[:-1]]
