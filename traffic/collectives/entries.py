"""Builds compact schedules from arrays: blocks of transfers, computations and joins, and lists of spans."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from railweave.framework.model import Fabric, Schedule, Spans
from railweave.framework.model.arrays import Int32, Int64, Lists, distinct, spread
from railweave.framework.model.routes import starts

NO_RANK = -1
"""In place of a rank, of what no rank alone waits for."""


class Turns(NamedTuple):
    """How repeated transfers go through lists of spans; each (n,) or one number. As in Spans."""

    src_list: ArrayLike
    dst_list: ArrayLike
    chunks: ArrayLike
    turn: ArrayLike = 0
    stride: ArrayLike = 0


class Parts(NamedTuple):
    """Spans of elements; `first` and `length` of one shape. `each`: every span as a chunk of its own."""

    first: Int64
    length: Int64

    @property
    def each(self) -> "Parts":
        return Parts(self.first[..., None], self.length[..., None])


def parts_of(first: ArrayLike, length: ArrayLike, parts: int) -> Parts:
    """Spans (...,) cut into `parts` each (..., parts), whose lengths differ by at most one element."""
    cuts = np.asarray(first)[..., None] + np.arange(parts + 1) * np.asarray(length)[..., None] // parts
    return Parts(cuts[..., :-1], np.diff(cuts))


def columns(*blocks: Int64) -> Lists:
    """Lists of the same length for every entry: those of a row of all blocks, (n,) or (n, w) each, without
    the -1 in them."""
    table = np.column_stack(blocks)
    filled = table >= 0
    return starts(filled.sum(axis=1)), table[filled]


def listed(lists: Sequence[Sequence[int]]) -> Lists:
    """Lists of any length."""
    count = np.array(list(map(len, lists)), np.int64)
    return starts(count), np.fromiter(chain.from_iterable(lists), np.int64, int(count.sum()))


def levels(after: Lists) -> Int64:
    """(n,): how many entries the longest chain of waits has before each; -1 on and
    behind cycles."""
    left, parent = np.diff(after[0]), after[1]
    n, count = len(left), np.bincount(parent, minlength=len(left))
    start, children = starts(count), np.repeat(np.arange(n), left)[np.argsort(parent)]
    level, depth, ready = np.full(n, -1), 0, np.flatnonzero(left == 0)
    while ready.size:
        level[ready] = depth
        reached = children[spread(start[ready], count[ready])]
        np.subtract.at(left, reached, 1)
        ready, depth = np.unique(reached[left[reached] == 0]), depth + 1
    return level


class Entries:
    """Collects the entries of one schedule over `n_ranks` ranks in blocks of arrays; offsets count elements
    of `itemsize` bytes. What is one number, or one row, holds for all of a block.

    A rank sends what it has for one peer in the order of slots. Without `slot` a block has one of its own
    behind those so far.
    """

    def __init__(self, n_ranks: int, itemsize: int) -> None:
        self.n_ranks, self.itemsize = n_ranks, itemsize
        self.n_entries = self.next_slot = 0
        self._phases: dict[str, int] = {}
        self._phase = 0
        self._columns: list[dict[str, NDArray[Any]]] = []
        self._waits: dict[str, list[Lists]] = {"after": [], "chained": []}
        self._spans: list[Parts] = []
        self._n_spans = 0

    def phase(self, name: str) -> None:
        """Put the entries that follow into the phase of this name, which begins here if it is new."""
        self._phase = self._phases.setdefault(name, len(self._phases))

    def lists(self, parts: Parts) -> Int64:
        """Keep the spans of lists, (lists, spans in each); where each list begins."""
        first: Int64 = self._n_spans + np.arange(len(parts.first)) * parts.first[0].size
        self._spans.append(Parts(parts.first.ravel(), parts.length.ravel()))
        self._n_spans += parts.first.size
        return first

    def add(
        self,
        src: ArrayLike,
        dst: ArrayLike,
        *,
        first: ArrayLike = 0,
        to: ArrayLike | None = None,
        length: ArrayLike = 0,
        reduce: ArrayLike = False,
        after: Lists | None = None,
        repeat: ArrayLike = 1,
        lag: ArrayLike = 1,
        chained: Lists | None = None,
        turns: Turns | None = None,
        seconds: ArrayLike = 0.0,
        slot: ArrayLike | None = None,
        phase: ArrayLike | None = None,
    ) -> Int64:
        """Send `length` elements from `first` of `src` to `to` of `dst`, by default the same place, or what
        `turns` says; `length` is then that of the longest. The numbers of the entries."""
        if slot is None:
            slot = self.next_slot
        fields = {
            "src": src,
            "dst": dst,
            "src_offset": first,
            "dst_offset": first if to is None else to,
            "size": length,
            "reduce": reduce,
            "phase": self._phase if phase is None else phase,
            "repeat": repeat,
            "lag": lag,
            "seconds": seconds,
            "slot": slot,
            **(turns or Turns(0, 0, 0))._asdict(),
        }
        block = dict(zip(fields, map(np.ravel, np.broadcast_arrays(*fields.values())), strict=True))
        n = len(block["src"])
        self._columns.append(block)
        for name, lists in (("after", after), ("chained", chained)):
            self._waits[name].append(lists or (np.zeros(n + 1, np.int64), np.empty(0, np.int64)))
        self.n_entries += n
        self.next_slot = max(self.next_slot, int(block["slot"].max(initial=-1)) + 1)
        return np.arange(self.n_entries - n, self.n_entries)

    def wait(
        self, rank: ArrayLike, after: Lists, *, seconds: ArrayLike = 0.0, slot: ArrayLike | None = None
    ) -> Int64:
        """Computations of `seconds`, or, of 0, joins; NO_RANK for a join of all ranks. Their numbers."""
        return self.add(rank, rank, after=after, seconds=seconds, slot=slot)

    def build(
        self,
        collective: str,
        count: int,
        dtype: str,
        redop: str,
        *,
        buffer_count: int | None = None,
        symmetries: Int32 | None = None,
    ) -> Schedule:
        """The schedule, over buffers of `buffer_count` elements (default `count`, the size of the
        collective)."""
        column, after, chained = self._in_order_of_slots()
        size = self.itemsize
        return Schedule(
            collective,
            self.n_ranks,
            count * size,
            dtype,
            redop,
            (count if buffer_count is None else buffer_count) * size,
            column["src"],
            column["dst"],
            column["src_offset"] * size,
            column["dst_offset"] * size,
            column["size"] * size,
            column["reduce"],
            column["phase"],
            *after,
            phase_names=tuple(self._phases),
            repeat=column["repeat"],
            lag=column["lag"],
            chained_start=chained[0],
            chained=chained[1],
            seconds=column["seconds"],
            slot=column["slot"],
            symmetries=np.empty((0, self.n_ranks), np.int32) if symmetries is None else symmetries,
            spans=self._listed_spans(column),
        )

    def _in_order_of_slots(self) -> tuple[dict[str, NDArray[Any]], Lists, Lists]:
        """(the columns of all blocks by name, the waits of each entry, the entries that its repetitions are
        chained to)."""
        column = {
            name: np.concatenate([np.empty(0, np.int64), *(block[name] for block in self._columns)])
            for name in (self._columns[0] if self._columns else _EMPTY)
        }
        after, chained = (joined(self._waits[name]) for name in ("after", "chained"))
        slot = column["slot"].astype(np.int64)
        if np.any(slot[1:] < slot[:-1]):
            order = np.argsort(slot, kind="stable")
            column = {name: values[order] for name, values in column.items()}
            after, chained = moved(after, order), moved(chained, order)
        return column, after, chained

    def _listed_spans(self, column: dict[str, NDArray[Any]]) -> Spans | None:
        """The spans of all lists in bytes, and how the entries go through them; None without lists."""
        if not self._spans:
            return None
        first, length = (np.concatenate(arrays) for arrays in zip(*self._spans, strict=True))
        turn = column["turn"]
        return Spans(
            first * self.itemsize,
            length * self.itemsize,
            column["src_list"],
            column["dst_list"],
            column["chunks"],
            turn,
            turn,
            column["stride"],
        )


_EMPTY = (
    *("src", "dst", "src_offset", "dst_offset", "size", "reduce", "phase"),
    *("repeat", "lag", "seconds", "slot", *Turns._fields),
)


def joined(blocks: list[Lists]) -> Lists:
    """The lists of several blocks, one block behind the other."""
    nothing = np.empty(0, np.int64)
    lengths = np.concatenate([nothing, *(np.diff(start) for start, _ in blocks)])
    return starts(lengths), np.concatenate([nothing, *(entries for _, entries in blocks)])


def moved(lists: Lists, order: Int64) -> Lists:
    """The lists of entries that are put into another order: place i takes entry `order[i]`."""
    start, entries = lists
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    row, moved_entries = np.repeat(place, np.diff(start)), place[entries]
    return starts(np.bincount(row, minlength=len(order))), moved_entries[np.lexsort((moved_entries, row))]


def rotations(fabric: Fabric, ranks: ArrayLike) -> Int32:
    """(g, n): permutations of `ranks` that may be symmetries of a schedule on this fabric: by one along every
    axis of the GPUs' coordinates, where that leads from ranks to ranks, and by one in the order of ranks."""
    gpus, shape = np.asarray(ranks), fabric.groups[0].shape
    n = len(gpus)
    number = np.full(int(np.prod(shape)), -1)
    places = fabric.gpu_coordinates[gpus]
    number[np.ravel_multi_index(tuple(places.T), shape)] = np.arange(n)
    moves = [(np.arange(n) + 1) % n]
    for axis, length in enumerate(shape):
        shifted = places.copy()
        shifted[:, axis] = (shifted[:, axis] + 1) % length
        moves.append(number[np.ravel_multi_index(tuple(shifted.T), shape)])
    kept = {tuple(move.tolist()) for move in moves if (move >= 0).all() and len(distinct(move)) == n}
    return np.array(sorted(kept - {tuple(range(n))}), np.int32).reshape(-1, n)
