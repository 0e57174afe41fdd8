"""What ranks hold after a schedule, by carrying it out one transfer after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Schedule
from railweave.traffic.collectives.arithmetic import redop_of


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
