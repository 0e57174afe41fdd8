"""What every all-gather shares: shards, inputs, result and bus bandwidth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model import Schedule
from railweave.framework.parameters import Parameter, Value
from railweave.traffic.collectives.all_reduce import element_count
from railweave.traffic.collectives.arithmetic import dtype_of, exact_input

SHARD_STEP = 16
"""A rank's shard is a multiple of so many bytes, as in nccl-tests, so that all shards are equal."""


class AllGather:
    """Base of the all-gather algorithms; a subclass plans the transfers.

    The size of an all-gather is the whole array, one shard per rank (nccl-tests). It is gathered in place: rank
    r's shard stands at r x shard in its own buffer from the start. `redop` is of no concern.
    """

    summary = ""
    kind = "all-gather"
    parameters: tuple[Parameter, ...] = ()
    serves: tuple[str, ...] = ()
    same_result_everywhere = True
    """Lets the transport compute `expected` once for all ranks."""

    def configured(self, options: Mapping[str, Value]) -> Self:
        return self

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(count,) per rank: its shard, which holds no 0, and 0 wherever another's belongs."""
        kind, n = dtype_of(schedule.dtype), schedule.n_ranks
        count = schedule.size_bytes // kind.itemsize // n
        buffers = []
        for rank in range(n):
            shard = exact_input(schedule.dtype, "max", n, rank, count, seed)
            shard[shard == 0] = 1
            buffer = np.zeros(count * n, kind)
            buffer[rank * count : (rank + 1) * count] = shard
            buffers.append(buffer)
        return buffers

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count,): all shards in the order of ranks, the same for every rank."""
        count = len(inputs[0]) // schedule.n_ranks
        return np.concatenate([held[r * count : (r + 1) * count] for r, held in enumerate(inputs)])

    def busbw_factor(self, n_ranks: int) -> float:
        """(n - 1) / n. Source: nccl-tests doc/PERFORMANCE.md, "AllGather"."""
        return (n_ranks - 1) / n_ranks


def shard_bytes(size_bytes: int, dtype: str, n_ranks: int) -> int:
    """Bytes of each rank's shard of an array of `size_bytes`, rounded down to SHARD_STEP."""
    element_count(size_bytes, dtype, "max")
    return size_bytes // n_ranks // SHARD_STEP * SHARD_STEP
