"""What ranks hold after a schedule, by carrying it out one transfer after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Schedule
from railweave.traffic.collectives.arithmetic import dtype_of, exact_input, redop_of


def replay(schedule: Schedule, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Every rank's data buffer after all transfers in the order of their numbers, which their dependencies allow.

    A schedule whose dependencies are enough gives the same in every order. Only data buffers are known here;
    ExperimentError for schedules that use others.
    """
    if np.any(schedule.src_buffer) or np.any(schedule.dst_buffer):
        raise ExperimentError(f"{schedule.collective}: only schedules within data buffers can be replayed.")
    combine = redop_of(schedule.redop)
    held = [array.copy() for array in inputs]
    width = held[0].itemsize
    columns = (
        schedule.src,
        schedule.dst,
        schedule.src_offset,
        schedule.dst_offset,
        schedule.size,
        schedule.reduce,
    )
    with np.errstate(over="ignore"):
        for src, dst, start, landing, size, reduce in zip(*(c.tolist() for c in columns), strict=True):
            carried = held[src][start // width : (start + size) // width]
            place = held[dst][landing // width : (landing + size) // width]
            place[:] = combine(place, carried) if reduce else carried
    return held


class Replayed:
    """Inputs and results of workloads whose schedules stay within data buffers; no place may be reduced into by
    one rank more than once."""

    _replayed: tuple[Sequence[NDArray[Any]], list[NDArray[Any]]] | None = None

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(count,) per rank, in rank order: every place of the buffer has numbers of the rank's own."""
        count = schedule.buffer_bytes // dtype_of(schedule.dtype).itemsize
        return [
            exact_input(schedule.dtype, schedule.redop, schedule.n_ranks, rank, count, seed)
            for rank in range(schedule.n_ranks)
        ]

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count,): the data buffer when the messages go one after the other. Worked out once for all ranks."""
        if self._replayed is None or self._replayed[0] is not inputs:
            self._replayed = inputs, replay(schedule, inputs)
        return self._replayed[1][rank]
