"""What every all-to-all shares: slices, inputs, result and bus bandwidth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model import Schedule
from railweave.framework.parameters import Parameter, Value
from railweave.traffic.collectives.arithmetic import dtype_of, exact_input


class AllToAll:
    """Base of the all-to-all algorithms; a subclass plans the transfers.

    The size of an all-to-all is what one rank sends, its slice for itself counted (nccl-tests); slices are
    rounded down as shards are. Every rank's buffer has `regions` of that size: first what it receives, in the
    order of senders, then what it sends, in the order of receivers, then what it passes on, if it does. A rank's
    slice for itself stands in its place from the start, since it crosses no link. `redop` is of no concern.
    """

    summary = ""
    kind = "all-to-all"
    parameters: tuple[Parameter, ...] = ()
    serves: tuple[str, ...] = ()
    same_result_everywhere = False

    def configured(self, options: Mapping[str, Value]) -> Self:
        return self

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(2 count,) per rank: 0 but for its own slice, then what it sends, without a 0."""
        kind, n = dtype_of(schedule.dtype), schedule.n_ranks
        count = schedule.size_bytes // kind.itemsize
        slice_count = count // n
        buffers = []
        for rank in range(n):
            sent = exact_input(schedule.dtype, "max", n, rank, count, seed)
            sent[sent == 0] = 1
            received = np.zeros(count, kind)
            own = slice(rank * slice_count, (rank + 1) * slice_count)
            received[own] = sent[own]
            buffers.append(np.concatenate([received, sent]))
        return buffers

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count,): the slice for `rank` of every sender, in their order."""
        count = len(inputs[0]) // 2
        one = count // schedule.n_ranks
        at = count + rank * one
        return np.concatenate([held[at : at + one] for held in inputs])

    def busbw_factor(self, n_ranks: int) -> float:
        """(n - 1) / n. Source: nccl-tests doc/PERFORMANCE.md, "AlltoAll"."""
        return (n_ranks - 1) / n_ranks
