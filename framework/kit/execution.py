"""A schedule carried out in memory, transfer by transfer, and its results compared with the arithmetic."""

import heapq
from collections.abc import Mapping

import numpy as np

from railweave.framework.hookspecs import Collective
from railweave.framework.model import Schedule

COMBINE: Mapping[str, np.ufunc] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
DATA, OUTPUT, SCRATCH = 0, 1, 2


def wrong_elements(collective: Collective, schedule: Schedule, seed: int) -> int:
    """Elements, over all ranks, that differ from `expected` after the transfers ran in an order drawn by
    `seed`, each after those it waits for."""
    kind, inputs = np.dtype(schedule.dtype), collective.inputs(schedule, seed)
    buffers = np.zeros((3, schedule.n_ranks, schedule.buffer_bytes), np.uint8)
    for rank, array in enumerate(inputs):
        buffers[DATA, rank, : array.nbytes] = array.view(np.uint8)
    for i in _order(schedule, seed):
        size, src_at, dst_at = (int(a[i]) for a in (schedule.size, schedule.src_offset, schedule.dst_offset))
        sent = buffers[schedule.src_buffer[i], schedule.src[i], src_at : src_at + size].view(kind)
        held = buffers[schedule.dst_buffer[i], schedule.dst[i], dst_at : dst_at + size].view(kind)
        with np.errstate(over="ignore"):
            held[:] = COMBINE[schedule.redop](held, sent) if schedule.reduce[i] else sent
    result = buffers[OUTPUT if (schedule.dst_buffer == OUTPUT).any() else DATA]
    wrong = 0
    for rank in range(schedule.n_ranks):
        expected = collective.expected(schedule, inputs, rank)
        wrong += int(np.count_nonzero(result[rank, : expected.nbytes].view(kind) != expected))
    return wrong


def _order(schedule: Schedule, seed: int) -> list[int]:
    """All transfers, each after those in its `after`; otherwise at random."""
    n = schedule.n_transfers
    rank_of = np.random.default_rng(seed).permutation(n).tolist()
    waits = np.diff(schedule.after_start).tolist()
    followers: list[list[int]] = [[] for _ in range(n)]
    for i, before in zip(np.repeat(np.arange(n), waits).tolist(), schedule.after.tolist(), strict=True):
        followers[before].append(i)
    ready = [(rank_of[i], i) for i in range(n) if not waits[i]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, i = heapq.heappop(ready)
        order.append(i)
        for follower in followers[i]:
            waits[follower] -= 1
            if not waits[follower]:
                heapq.heappush(ready, (rank_of[follower], follower))
    return order
