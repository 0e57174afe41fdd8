"""Builds listed schedules, transfer by transfer, of what a file says."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.model import Schedule

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
        self._after: list[tuple[int, ...]] = []

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
        order = (0, 0) if self._slot is None else (self._slot, step)
        target = first if to is None else to
        self._rows.append((src, dst, first, target, last - first, reduce, self._phase, *order))
        self._after.append(tuple(set(after)))
        return len(self._rows) - 1

    def build(
        self, collective: str, count: int, dtype: str, redop: str, *, buffer_count: int | None = None
    ) -> Schedule:
        """The schedule, over buffers of `buffer_count` elements (default `count`, the size of the
        collective)."""
        table = np.array(self._rows, np.int64).reshape(-1, 9)
        order = np.lexsort((table[:, 8], table[:, 7]))  # by slot, then by step
        position = np.argsort(order).tolist()
        after = [sorted(map(position.__getitem__, self._after[i])) for i in order.tolist()]
        src, dst, first, to, length, reduce, phase = table[order, :7].T
        itemsize = self._itemsize
        return Schedule(
            collective,
            self._n_ranks,
            count * itemsize,
            dtype,
            redop,
            (count if buffer_count is None else buffer_count) * itemsize,
            src,
            dst,
            first * itemsize,
            to * itemsize,
            length * itemsize,
            reduce,
            phase,
            after_start=np.cumsum([0, *map(len, after)]),
            after=np.array([before for waits in after for before in waits], np.int64),
            phase_names=tuple(self._phases),
        )
