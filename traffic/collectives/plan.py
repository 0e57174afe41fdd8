"""Building schedules: chunks, transfers one by one, and the two halves of a ring."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railweave.framework.model import Schedule

Bounds = Sequence[int]


def chunk_bounds(start: int, count: int, parts: int) -> list[int]:
    """parts + 1 ascending element offsets from `start`; chunk sizes differ by at most one element."""
    return [start + i * count // parts for i in range(parts + 1)]


class Plan:
    """Collects the transfers of one collective over `n_ranks` ranks; offsets are in elements of `itemsize` bytes."""

    def __init__(self, n_ranks: int, itemsize: int) -> None:
        self.n_ranks = n_ranks
        self._itemsize = itemsize
        self._phases: list[str] = []
        self._rows: list[tuple[int, int, int, int, bool, int]] = []
        self._after: list[tuple[int, ...]] = []

    def phase(self, name: str) -> None:
        """Transfers added from here on belong to a new phase."""
        self._phases.append(name)

    def add(self, src: int, dst: int, first: int, last: int, *, reduce: bool, after: Sequence[int]) -> int:
        """Send elements first..last of `src` to the same place at `dst`; the transfer's number."""
        self._rows.append((src, dst, first, last - first, reduce, len(self._phases) - 1))
        self._after.append(tuple(sorted(set(after))))
        return len(self._rows) - 1

    def schedule(self, collective: str, count: int, dtype: str, redop: str) -> Schedule:
        rows = np.array(self._rows, np.int64).reshape(-1, 6)
        src, dst, first, length, reduce, phase = rows.T
        starts = np.concatenate([[0], np.cumsum([len(a) for a in self._after], dtype=np.int64)])
        flat = [transfer for after in self._after for transfer in after]
        size_bytes = count * self._itemsize
        offset = first * self._itemsize
        return Schedule(
            collective, self.n_ranks, size_bytes, dtype, redop, size_bytes, src.astype(np.int32),
            dst.astype(np.int32), offset, offset, length * self._itemsize, reduce.astype(np.int32),
            phase.astype(np.int32), starts, np.array(flat, np.int64),
            phase_names=tuple(self._phases),
        )  # fmt: skip


Entry = Sequence[Sequence[int]]


def ring_reduce_scatter(plan: Plan, members: Sequence[int], bounds: Bounds, entry: Entry) -> list[list[int]]:
    """Member i ends with chunk i reduced over all members, after len(members) - 1 steps.

    `entry[i]` must be complete before member i sends; the answer is, for each member, all that it sends and
    receives here, which must be complete before its part is over. Source: Patarasuk and Yuan 2009.
    """
    return _ring(plan, members, bounds, entry, first_chunk=-1, reduce=True)


def ring_all_gather(plan: Plan, members: Sequence[int], bounds: Bounds, entry: Entry) -> list[list[int]]:
    """Member i starts with chunk i and ends with all of them; arguments and answer as in ring_reduce_scatter."""
    return _ring(plan, members, bounds, entry, first_chunk=0, reduce=False)


def _ring(
    plan: Plan, members: Sequence[int], bounds: Bounds, entry: Entry, *, first_chunk: int, reduce: bool
) -> list[list[int]]:
    n = len(members)
    if n == 1:
        return [list(entry[0])]
    part: list[list[int]] = [[] for _ in members]
    arrived: list[list[int]] = [[] for _ in members]
    for step in range(n - 1):
        sent = []
        for i in range(n):
            chunk = (i + first_chunk - step) % n
            sent.append(
                plan.add(
                    members[i], members[(i + 1) % n], bounds[chunk], bounds[chunk + 1],
                    reduce=reduce, after=[*entry[i], *arrived[i]],
                )
            )  # fmt: skip
        arrived = [[sent[i - 1]] for i in range(n)]
        for i in range(n):
            part[i] += [sent[i], *arrived[i]]
    return part
