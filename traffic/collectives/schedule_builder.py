"""Builds schedules transfer by transfer, from what a file says."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.model import Schedule
from railweave.framework.model.arrays import Int64
from railweave.framework.model.routes import starts
from railweave.traffic.collectives.entries import Entries

Span = tuple[int, int]
"""Elements first..last of a buffer, the last one excluded."""


class ScheduleBuilder:
    """Collects the transfers of one schedule over `n_ranks` ranks; offsets count elements of `itemsize`
    bytes.

    A transport sends what one rank has for another in the order of the schedule. That is the order of adding,
    unless `slot` was used: then it is the order of the time slots, so that no transfer queues behind a later
    one.
    """

    def __init__(self, n_ranks: int, itemsize: int) -> None:
        self._n_ranks, self._itemsize = n_ranks, itemsize
        self._phases: dict[str, int] = {}
        self._phase = -1
        self._slot: int | None = None
        self._rows: list[tuple[int, ...]] = []
        self._after: list[list[int]] = []
        self._seconds: list[float] = []

    def phase(self, name: str) -> None:
        """Put the transfers that follow into the phase of this name, which begins here if it is new."""
        self._phase = self._phases.setdefault(name, len(self._phases))

    def slot(self, slot: int) -> None:
        """Put the transfers that follow into this time slot, where they are ordered by step."""
        self._slot = slot

    def transfer(
        self,
        src: int,
        dst: int,
        span: Span,
        *,
        reduce: bool,
        after: Sequence[int],
        to: int | None = None,
        step: int = 0,
    ) -> int:
        """Send a span of rank `src` to the same place at `dst`, or to element `to` there; the transfer's
        number."""
        first, last = span
        target = first if to is None else to
        return self._add((src, dst, first, target, last - first, reduce), after, 0.0, step)

    def compute(self, rank: int, seconds: float, *, after: Sequence[int]) -> int:
        """Let a rank compute; the computation's number."""
        return self._add((rank, rank, 0, 0, 0, False), after, seconds, 0)

    def _add(self, row: tuple[int, ...], after: Sequence[int], seconds: float, step: int) -> int:
        order = (0, 0) if self._slot is None else (self._slot, step)
        self._rows.append((*row, self._phase, *order))
        self._after.append(sorted(set(after)))
        self._seconds.append(seconds)
        return len(self._rows) - 1

    def build(
        self, collective: str, count: int, dtype: str, redop: str, *, buffer_count: int | None = None
    ) -> Schedule:
        """The schedule, over buffers of `buffer_count` elements (default `count`, the size of the
        collective)."""
        rows = np.array(self._rows, np.int64).reshape(-1, 9)
        src, dst, first, to, length, reduce, phase, slot, step = rows.T
        entries = Entries(self._n_ranks, self._itemsize)
        for name in self._phases:
            entries.phase(name)
        entries.add(
            src,
            dst,
            first=first,
            to=to,
            length=length,
            reduce=reduce,
            after=(starts(np.array(list(map(len, self._after)), np.int64)), _flat(self._after)),
            seconds=self._seconds,
            slot=np.argsort(np.lexsort((step, slot))),
            phase=phase,
        )
        return entries.build(collective, count, dtype, redop, buffer_count=buffer_count)


def _flat(lists: Sequence[Sequence[int]]) -> Int64:
    return np.array([one for of in lists for one in of], np.int64)
