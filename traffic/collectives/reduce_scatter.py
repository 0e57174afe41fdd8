"""What every reduce-scatter shares: shards, inputs, result and bus bandwidth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model import Schedule
from railweave.framework.parameters import Parameter, Value
from railweave.traffic.collectives.arithmetic import dtype_of, exact_input, reduced


class ReduceScatter:
    """Base of the reduce-scatter algorithms; a subclass plans the transfers.

    The size of a reduce-scatter is the whole array, of which every rank has its own version and each is left
    with one shard of the reduction (nccl-tests). It is done in place. Every rank's buffer begins with its own
    shard and goes on with those of the ranks after it, round to the one before it: so the result stands first.
    """

    summary = ""
    kind = "reduce-scatter"
    parameters: tuple[Parameter, ...] = ()
    serves: tuple[str, ...] = ()
    same_result_everywhere = False

    def configured(self, options: Mapping[str, Value]) -> Self:
        return self

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(count,) per rank: its version of the array, its own shard first."""
        n = schedule.n_ranks
        count = schedule.size_bytes // dtype_of(schedule.dtype).itemsize
        return [
            np.roll(exact_input(schedule.dtype, schedule.redop, n, rank, count, seed), -rank * (count // n))
            for rank in range(n)
        ]

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count / n,): shard `rank` reduced over all versions."""
        n = schedule.n_ranks
        shard = len(inputs[0]) // n
        places = [(rank - other) % n * shard for other in range(n)]
        versions = [held[p : p + shard] for held, p in zip(inputs, places, strict=True)]
        return reduced(schedule.redop, versions)

    def busbw_factor(self, n_ranks: int) -> float:
        """(n - 1) / n. Source: nccl-tests doc/PERFORMANCE.md, "ReduceScatter"."""
        return (n_ranks - 1) / n_ranks


def own_shard_first(schedule: Schedule) -> Schedule:
    """The schedule for buffers that begin with their rank's own shard, from one for arrays in the order of ranks.
    No transfer may reach over two shards."""
    n = schedule.n_ranks
    shard = max(1, schedule.size_bytes // n)

    def moved(offset: NDArray[np.int64], rank: NDArray[np.int32]) -> NDArray[np.int64]:
        return (offset // shard - rank) % n * shard + offset % shard

    return replace(
        schedule,
        src_offset=moved(schedule.src_offset, schedule.src),
        dst_offset=moved(schedule.dst_offset, schedule.dst),
    )
