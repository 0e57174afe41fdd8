"""The results of workloads: what ranks hold after all transfers, carried out one after the other."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model import Schedule
from railweave.traffic.collectives.arithmetic import REDOPS, exact_inputs
from railweave.traffic.collectives.operations import Operation


def replay(schedule: Schedule, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Every rank's data buffer after all transfers in the order of their numbers, which their dependencies
    allow.

    A schedule with sufficient dependencies gives the same result in every order. It uses data buffers alone.
    """
    combine, schedule = REDOPS[schedule.redop], schedule.expand()
    buffers = [array.copy() for array in inputs]
    itemsize = buffers[0].itemsize
    columns = (
        schedule.src,
        schedule.dst,
        schedule.src_offset,
        schedule.dst_offset,
        schedule.size,
        schedule.reduce,
    )
    with np.errstate(over="ignore"):
        for src, dst, src_at, dst_at, size, reduce in zip(*(c.tolist() for c in columns), strict=True):
            sent = buffers[src][src_at // itemsize : (src_at + size) // itemsize]
            target = buffers[dst][dst_at // itemsize : (dst_at + size) // itemsize]
            target[:] = combine(target, sent) if reduce else sent
    return buffers


class ReplayedWorkload(Operation):
    """Base of the workloads, whose schedules stay within data buffers. No place may be reduced into by one
    rank more than once. The size is what the busiest GPU sends, so that size over time is its rate, and busbw
    is algbw. There is no closed form: messages of different ranks and steps overlap."""

    _replayed: tuple[Sequence[NDArray[Any]], list[NDArray[Any]]] | None = None

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(count,) per rank, in rank order: every place of the buffer holds numbers of the rank's own."""
        return exact_inputs(schedule, schedule.buffer_bytes // np.dtype(schedule.dtype).itemsize, seed)

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count,): the data buffer after all messages. Computed once for all ranks."""
        if self._replayed is None or self._replayed[0] is not inputs:
            self._replayed = inputs, replay(schedule, inputs)
        return self._replayed[1][rank]
