"""Broadcast along a chain or down a binomial tree, in chunks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives import closed_forms
from railweave.traffic.collectives.arithmetic import dtype_of, nonzero_input
from railweave.traffic.collectives.operations import Operation, check_ranks
from railweave.traffic.collectives.schedule_builder import ScheduleBuilder, chunk_spans
from railweave.traffic.collectives.trees import binomial_parent, depths_of

CHAIN, TREE = "chain", "tree"
CHUNKS = 8


class Broadcast(Operation):
    """One rank's buffer to all: `chain` passes it from rank to rank in the cycle of ranks, beginning at the
    root (NCCL's ring); `tree` is the binomial tree over the same order. Chunks follow one another.

    The size is one rank's buffer, rounded down to whole elements (nccl-tests). `redop` does not matter.
    """

    summary = "one rank's buffer to all, along a chain or down a binomial tree; any fabric"
    kind = name = "broadcast"
    same_result_everywhere = True
    parameters: tuple[Parameter, ...] = (
        Parameter("root", 0, "count", "the rank whose buffer is sent", minimum=0),
        Parameter("shape", CHAIN, "text", "the shape of its path", choices=(CHAIN, TREE)),
        Parameter("chunks", CHUNKS, "count", "parts of the buffer that follow one another", 1, 4096),
    )

    def __init__(self, root: int = 0, shape: str = CHAIN, chunks: int = CHUNKS) -> None:
        self._root, self._shape, self._chunks = root, shape, chunks

    def check(self, fabric: Fabric, ranks: Sequence[int]) -> None:
        check_ranks(fabric, ranks)
        if self._root >= len(ranks):
            raise ExperimentError(
                f"broadcast has no rank {self._root} to start from; root is 0 to {len(ranks) - 1}."
            )

    def add_transfers(
        self, builder: ScheduleBuilder, fabric: Fabric, ranks: Sequence[int], count: int
    ) -> None:
        builder.phase("broadcast")
        n = len(ranks)
        parents = [(place - 1 if self._shape == CHAIN else binomial_parent(place)) for place in range(n)]
        depths = depths_of(parents)
        by_depth = sorted(range(1, n), key=depths.__getitem__)
        rank_at = [(self._root + place) % n for place in range(n)]
        for chunk, span in enumerate(chunk_spans(0, count, min(self._chunks, count))):
            arrival: dict[int, int] = {}
            for place in by_depth:
                builder.slot(chunk + depths[place])
                parent = parents[place]
                after = [arrival[parent]] if parent in arrival else []
                arrival[place] = builder.transfer(
                    rank_at[parent], rank_at[place], span, reduce=False, after=after
                )

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(count,) per rank: numbers without a 0 at the root, 0 at all others."""
        kind, n = dtype_of(schedule.dtype), schedule.n_ranks
        count = schedule.size_bytes // kind.itemsize
        buffers = np.zeros((n, count), kind)
        buffers[self._root] = nonzero_input(schedule.dtype, n, self._root, count, seed)
        return list(buffers)

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count,): what the root holds, the same for every rank."""
        return inputs[self._root]

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """That of the chain, on rings; None for the tree."""
        return closed_forms.chain_s(fabric, schedule, packet) if self._shape == CHAIN else None
