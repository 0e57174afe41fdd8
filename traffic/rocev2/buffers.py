"""What the ranks hold: filled before an iteration, compared with the arithmetic after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.hookspecs import Collective
from railweave.framework.model import Schedule
from railweave.traffic.collectives.arithmetic import dtype_of

DATA, OUTPUT, SCRATCH = 0, 1, 2


class Buffers:
    """Every rank's data buffer, and output and scratch buffers where the schedule uses them. Buffers of one size
    are used again in the next iteration."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.dtype = dtype_of(schedule.dtype)
        used = {DATA, *map(int, np.unique(schedule.src_buffer)), *map(int, np.unique(schedule.dst_buffer))}
        self.result = OUTPUT if OUTPUT in set(schedule.dst_buffer.tolist()) else DATA
        self._bytes = {
            which: [np.zeros(max(schedule.buffer_bytes, 1), np.uint8) for _ in range(schedule.n_ranks)]
            for which in sorted(used)
        }

    def fill(self, inputs: Sequence[NDArray[Any]]) -> None:
        """Put each rank's input at the start of its data buffer, and zeros everywhere else."""
        for which, buffers in self._bytes.items():
            for rank, buffer in enumerate(buffers):
                filled = 0
                if which == DATA:
                    filled = inputs[rank].nbytes
                    buffer[:filled] = inputs[rank].view(np.uint8)
                buffer[filled:] = 0

    def slice(self, rank: int, which: int, offset: int, size: int) -> NDArray[Any]:
        """(size / itemsize,): part of a buffer as elements; a view."""
        return self._bytes[which][rank][offset : offset + size].view(self.dtype)

    def view(self, rank: int, which: int, offset: int, size: int) -> tuple[memoryview, int]:
        """The same part as bytes, and its address."""
        buffer = self._bytes[which][rank]
        return buffer.data[offset : offset + size], int(buffer.ctypes.data) + offset

    def count_wrong(self, collective: Collective, inputs: Sequence[NDArray[Any]]) -> int:
        """Elements, over all ranks, that differ from what the arithmetic says."""
        wrong = 0
        everywhere = getattr(collective, "same_result_everywhere", False)
        expected: NDArray[Any] | None = None
        for rank in range(self.schedule.n_ranks):
            if expected is None or not everywhere:
                expected = collective.expected(self.schedule, inputs, rank)
            held = self.slice(rank, self.result, 0, expected.nbytes)
            wrong += int(np.count_nonzero(held != expected))
        return wrong
