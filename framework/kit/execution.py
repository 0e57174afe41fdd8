"""A schedule carried out in memory, transfer by transfer, and its results compared with the arithmetic."""

from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from itertools import pairwise

import numpy as np

from railweave.framework.experiment.plugin_calls import DATA, OUTPUT
from railweave.framework.hookspecs import Collective
from railweave.framework.model import Schedule

COMBINE: Mapping[str, np.ufunc] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def wrong_elements(collective: Collective, schedule: Schedule, seed: int) -> int:
    """Elements, over all ranks, that differ from `expected` after the transfers ran in an order drawn by
    `seed`, each after those it waits for."""
    kind, inputs = np.dtype(schedule.dtype), collective.inputs(schedule, seed)
    buffers = np.zeros((3, schedule.n_ranks, schedule.buffer_bytes), np.uint8)  # data, output, scratch
    for rank, array in enumerate(inputs):
        buffers[DATA, rank, : array.nbytes] = array.view(np.uint8)
    for i in _order(schedule, seed):
        size, src_at, dst_at = (int(a[i]) for a in (schedule.size, schedule.src_offset, schedule.dst_offset))
        sent = buffers[schedule.src_buffer[i], schedule.src[i], src_at : src_at + size].view(kind)
        held = buffers[schedule.dst_buffer[i], schedule.dst[i], dst_at : dst_at + size].view(kind)
        with np.errstate(over="ignore"):
            held[:] = COMBINE[schedule.redop](held, sent) if schedule.reduce[i] else sent
    result = buffers[OUTPUT if (schedule.dst_buffer == OUTPUT).any() else DATA]
    expected = (collective.expected(schedule, inputs, rank) for rank in range(schedule.n_ranks))
    return sum(
        int(np.count_nonzero(row[: array.nbytes].view(kind) != array))
        for row, array in zip(result, expected, strict=True)
    )


def _order(schedule: Schedule, seed: int) -> Iterator[int]:
    """All transfers, each after those in its `after`; otherwise at random."""
    after, ranges = schedule.after.tolist(), pairwise(schedule.after_start.tolist())
    waiting = TopologicalSorter({i: after[low:high] for i, (low, high) in enumerate(ranges)})
    waiting.prepare()
    ready, draw = list[int](), np.random.default_rng(seed)
    while waiting.is_active():
        ready += waiting.get_ready()
        done = ready.pop(int(draw.integers(len(ready))))
        yield done
        waiting.done(done)
