"""What every all-reduce shares: its inputs, its result and its bus bandwidth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, Schedule
from railweave.framework.parameters import Parameter, Value
from railweave.traffic.collectives.arithmetic import dtype_of, exact_input, redop_of, reduced


class AllReduce:
    """Base of the all-reduce algorithms; a subclass plans the transfers.

    The size of an all-reduce is one rank's buffer, rounded down to whole elements (nccl-tests).
    """

    summary = ""
    kind = "all-reduce"
    parameters: tuple[Parameter, ...] = ()
    serves: tuple[str, ...] = ()
    same_result_everywhere = True
    """Lets the transport compute `expected` once for all ranks."""

    def configured(self, options: Mapping[str, Value]) -> Self:
        return self

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(count,) per rank, in rank order."""
        count = schedule.size_bytes // dtype_of(schedule.dtype).itemsize
        return [
            exact_input(schedule.dtype, schedule.redop, schedule.n_ranks, rank, count, seed)
            for rank in range(schedule.n_ranks)
        ]

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count,): the reduction of all inputs, the same for every rank."""
        return reduced(schedule.redop, inputs)

    def busbw_factor(self, n_ranks: int) -> float:
        """2 (n - 1) / n. Source: nccl-tests doc/PERFORMANCE.md, "AllReduce"."""
        return 2 * (n_ranks - 1) / n_ranks


def element_count(size_bytes: int, dtype: str, redop: str) -> int:
    """Whole elements in `size_bytes`; ExperimentError for a negative size or an unknown type or reduction."""
    redop_of(redop)
    if size_bytes < 0:
        raise ExperimentError(f"size {size_bytes} bytes: a collective moves 0 bytes or more.")
    return size_bytes // dtype_of(dtype).itemsize


def check_ranks(fabric: Fabric, ranks: Sequence[int]) -> None:
    """Refuse an empty list, a GPU that is not there, and one that is named twice."""
    if not ranks:
        raise ExperimentError("a collective needs 1 rank or more; the list of ranks is empty.")
    outside = [gpu for gpu in ranks if not 0 <= gpu < fabric.n_gpus]
    if outside:
        raise ExperimentError(f"there is no GPU {outside[0]}; {fabric.kind} has 0 to {fabric.n_gpus - 1}.")
    if len(set(ranks)) != len(ranks):
        counts = np.bincount(np.asarray(ranks))
        raise ExperimentError(
            f"GPU {fabric.node_name(int(counts.argmax()))} stands in the list of ranks {counts.max()} times; "
            "name each once."
        )
