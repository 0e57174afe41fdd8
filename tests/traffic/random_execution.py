"""Carries out a schedule in memory, as slowly and unevenly as its dependencies allow."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model import Schedule
from tests.fakes.transfers import transfer_of

COMBINE: dict[str, Callable[..., Any]] = {
    "sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply,
}  # fmt: skip


def execute(schedule: Schedule, inputs: list[NDArray[Any]], seed: int) -> list[NDArray[Any]]:
    """Every rank's data buffer afterwards; its scratch buffer begins with zeros.

    A transfer first reads its source (at any moment after it may start), then lands (at any later moment): a
    schedule that lets a buffer change under a packet on its way gives a wrong result for some seed.
    """
    rng = random.Random(seed)
    memory = [array.copy() for array in inputs]
    scratch = [np.zeros(schedule.buffer_bytes // array.itemsize, array.dtype) for array in inputs]
    of_buffer = {0: memory, 2: scratch}
    itemsize = inputs[0].dtype.itemsize
    transfers = [transfer_of(schedule, i) for i in range(schedule.n_entries)]
    waiting = {i: set(t.after) for i, t in enumerate(transfers)}
    startable = [i for i, after in waiting.items() if not after]
    flying: list[tuple[int, NDArray[Any]]] = []
    done = 0
    while startable or flying:
        if startable and (not flying or rng.random() < 0.5):
            i = startable.pop(rng.randrange(len(startable)))
            t = transfers[i]
            low = t.src_offset // itemsize
            source = of_buffer[int(schedule.src_buffer[i])][t.src]
            flying.append((i, source[low : low + t.size // itemsize].copy()))
            continue
        i, carried = flying.pop(rng.randrange(len(flying)))
        t = transfers[i]
        low = t.dst_offset // itemsize
        held = of_buffer[int(schedule.dst_buffer[i])][t.dst][low : low + t.size // itemsize]
        held[:] = COMBINE[schedule.redop](held, carried) if t.reduce else carried
        done += 1
        for other, after in waiting.items():
            if i in after:
                after.discard(i)
                if not after:
                    startable.append(other)
    assert done == schedule.n_entries
    return memory
