"""The memory of the ranks: filled with inputs before an iteration, written by transfers during it."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.experiment.plugin_calls import DATA, OUTPUT
from railweave.framework.model import Schedule


class RankBuffers:
    """Every rank's data buffer, and output and scratch buffers where the schedule uses them; `result`: which
    of them holds the result. One set serves all iterations over the schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.dtype = np.dtype(schedule.dtype)
        written = set(schedule.dst_buffer.tolist())
        self.result = OUTPUT if OUTPUT in written else DATA
        self._bytes = {
            which: [np.zeros(max(schedule.buffer_bytes, 1), np.uint8) for _ in range(schedule.n_ranks)]
            for which in {DATA, *schedule.src_buffer.tolist(), *written}
        }

    def fill(self, inputs: Sequence[NDArray[Any]]) -> None:
        """Put each rank's input at the start of its data buffer, and zeros everywhere else."""
        for which, buffers in self._bytes.items():
            for rank, buffer in enumerate(buffers):
                data = np.ascontiguousarray(inputs[rank]).view(np.uint8) if which == DATA else buffer[:0]
                buffer[: data.size] = data
                buffer[data.size :] = 0

    def slice(self, rank: int, which: int, offset: int, size: int) -> NDArray[Any]:
        """(size / itemsize,): part of a buffer as elements; a view."""
        return self._bytes[which][rank][offset : offset + size].view(self.dtype)

    def view(self, rank: int, which: int, offset: int, size: int) -> tuple[memoryview, int]:
        """The same part as bytes, and its address."""
        buffer = self._bytes[which][rank]
        return buffer.data[offset : offset + size], int(buffer.ctypes.data) + offset

    def compare(self, expected: Iterable[NDArray[Any]]) -> tuple[int, int]:
        """Compare what every rank holds with the results expected of them, in rank order: elements compared,
        and how many of them were wrong."""
        compared = wrong = 0
        for rank, result in enumerate(expected):
            actual = self.slice(rank, self.result, 0, result.nbytes)
            compared += len(result)
            wrong += int(np.count_nonzero(actual != result))
        return compared, wrong
