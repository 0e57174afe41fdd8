"""Building schedules: chunks, transfers one by one, and the two halves of a ring."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from railweave.framework.model import Schedule

Bounds = Sequence[int]
Extents = Sequence[tuple[int, int]]
"""Pieces of a buffer, (first, last) element each; a chunk of a ring may have several."""


def chunk_bounds(start: int, count: int, parts: int) -> list[int]:
    """parts + 1 ascending element offsets from `start`; chunk sizes differ by at most one element."""
    return [start + i * count // parts for i in range(parts + 1)]


class Plan:
    """Collects the transfers of one collective over `n_ranks` ranks; offsets are in elements of `itemsize` bytes.

    A transport sends what one rank has for another in the order of the schedule. That is the order of adding,
    unless `at` was used: then it is the order of time slots, so that nothing waits behind what comes later.
    """

    def __init__(self, n_ranks: int, itemsize: int) -> None:
        self.n_ranks = n_ranks
        self._itemsize = itemsize
        self._phases: list[str] = []
        self._phase = -1
        self._slot: int | None = None
        self._rows: list[tuple[int, int, int, int, int, bool, int]] = []
        self._after: list[tuple[int, ...]] = []
        self._times: list[tuple[int, int]] = []

    def phase(self, name: str) -> None:
        """Transfers added from here on belong to the phase of this name; a new one if there is none yet."""
        if name not in self._phases:
            self._phases.append(name)
        self._phase = self._phases.index(name)

    def at(self, slot: int) -> None:
        """Transfers added from here on stand in this time slot, and there in the order of their steps."""
        self._slot = slot

    def add(
        self, src: int, dst: int, first: int, last: int, *, reduce: bool, after: Sequence[int],
        to: int | None = None, step: int = 0,
    ) -> int:  # fmt: skip
        """Send elements first..last of `src` to the same place at `dst`, or to `to`; the transfer's number."""
        self._rows.append((src, dst, first, first if to is None else to, last - first, reduce, self._phase))
        self._after.append(tuple(sorted(set(after))))
        self._times.append((self._slot or 0, step))
        return len(self._rows) - 1

    def schedule(
        self, collective: str, count: int, dtype: str, redop: str, *, buffer_count: int | None = None
    ) -> Schedule:
        """What was added, over buffers of `buffer_count` elements (`count`, the collective's size, by default)."""
        rows, after = self._rows, self._after
        if self._slot is not None:
            order = sorted(range(len(rows)), key=self._times.__getitem__)
            place = np.empty(len(rows), np.int64)
            place[order] = np.arange(len(rows))
            rows = [rows[i] for i in order]
            after = [tuple(sorted(int(place[j]) for j in after[i])) for i in order]
        table = np.array(rows, np.int64).reshape(-1, 7)
        src, dst, first, to, length, reduce, phase = table.T
        starts = np.concatenate([[0], np.cumsum([len(a) for a in after], dtype=np.int64)])
        flat = [transfer for waits in after for transfer in waits]
        wide = self._itemsize
        return Schedule(
            collective, self.n_ranks, count * wide, dtype, redop,
            (count if buffer_count is None else buffer_count) * wide, src.astype(np.int32),
            dst.astype(np.int32), first * wide, to * wide, length * wide, reduce.astype(np.int32),
            phase.astype(np.int32), starts, np.array(flat, np.int64),
            phase_names=tuple(self._phases),
        )  # fmt: skip


Entry = Sequence[Sequence[int]]


def ring_reduce_scatter(plan: Plan, members: Sequence[int], bounds: Bounds, entry: Entry) -> list[list[int]]:
    """Member i ends with chunk i reduced over all members, after len(members) - 1 steps.

    `entry[i]` must be complete before member i sends; the answer is, for each member, all that it sends and
    receives here, which must be complete before its part is over. Source: Patarasuk and Yuan 2009.
    """
    return ring_reduce_scatter_of(plan, members, _extents(bounds), entry)


def ring_all_gather(plan: Plan, members: Sequence[int], bounds: Bounds, entry: Entry) -> list[list[int]]:
    """Member i starts with chunk i and ends with all of them; arguments and answer as in ring_reduce_scatter."""
    return ring_all_gather_of(plan, members, _extents(bounds), entry)


def ring_reduce_scatter_of(
    plan: Plan, members: Sequence[int], chunks: Sequence[Extents], entry: Entry
) -> list[list[int]]:
    """ring_reduce_scatter with chunks in several pieces, each a transfer; all chunks have as many pieces."""
    return _ring(plan, members, chunks, entry, first_chunk=-1, reduce=True)


def ring_all_gather_of(
    plan: Plan, members: Sequence[int], chunks: Sequence[Extents], entry: Entry
) -> list[list[int]]:
    """ring_all_gather with chunks in several pieces, each a transfer; all chunks have as many pieces."""
    return _ring(plan, members, chunks, entry, first_chunk=0, reduce=False)


def _extents(bounds: Bounds) -> list[Extents]:
    return [[(a, b)] for a, b in pairwise(bounds)]


def _ring(
    plan: Plan, members: Sequence[int], chunks: Sequence[Extents], entry: Entry, *, first_chunk: int, reduce: bool
) -> list[list[int]]:  # fmt: skip
    n, pieces = len(members), len(chunks[0])
    if n == 1:
        return [list(entry[0])]
    part: list[list[int]] = [[] for _ in members]
    arrived: list[list[int | None]] = [[None] * pieces for _ in members]
    for step in range(n - 1):
        sent: list[list[int | None]] = []
        for i in range(n):
            chunk = chunks[(i + first_chunk - step) % n]
            sent.append(
                [
                    plan.add(
                        members[i], members[(i + 1) % n], first, last, reduce=reduce,
                        after=[*entry[i], *(() if came is None else (came,))], step=step,
                    )
                    for (first, last), came in zip(chunk, arrived[i], strict=True)
                ]
            )  # fmt: skip
        arrived = [sent[i - 1] for i in range(n)]
        for i in range(n):
            part[i] += [transfer for transfer in (*sent[i], *arrived[i]) if transfer is not None]
    return part
