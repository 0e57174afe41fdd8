"""Broadcast along a chain or down a binomial tree, in chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.parameters import Parameter, Value
from railweave.traffic.collectives.all_reduce import check_ranks, element_count
from railweave.traffic.collectives.arithmetic import dtype_of, exact_input
from railweave.traffic.collectives.plan import Plan, chunk_bounds
from railweave.traffic.collectives.trees import binomial_parent, depths_of

CHAIN, TREE = "chain", "tree"
CHUNKS = 8


class Broadcast:
    """One rank's buffer to all: `chain` passes it from rank to rank in their order, beginning after the root and
    going round (NCCL's ring); `tree` is the binomial tree over the same order. Chunks follow one another.

    The size is one rank's buffer, rounded down to whole elements (nccl-tests). `redop` is of no concern.
    """

    summary = "one rank's buffer to all, along a chain or down a binomial tree; any fabric"
    kind = "broadcast"
    serves: tuple[str, ...] = ()
    same_result_everywhere = True
    """Lets the transport compute `expected` once for all ranks."""
    parameters: tuple[Parameter, ...] = (
        Parameter("root", 0, "count", "the rank whose buffer it is", minimum=0),
        Parameter("shape", CHAIN, "text", "the way it takes", choices=(CHAIN, TREE)),
        Parameter("chunks", CHUNKS, "count", "parts of the buffer that follow one another", minimum=1, maximum=4096),
    )  # fmt: skip

    def __init__(self, root: int = 0, shape: str = CHAIN, chunks: int = CHUNKS) -> None:
        self._root, self._shape, self._chunks = root, shape, chunks

    def configured(self, options: Mapping[str, Value]) -> Self:
        return type(self)(int(options["root"]), str(options["shape"]), int(options["chunks"]))

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        check_ranks(fabric, ranks)
        count, n = element_count(size_bytes, dtype, redop), len(ranks)
        if self._root >= n:
            raise ExperimentError(f"broadcast has no rank {self._root} to start from; root is 0 to {n - 1}.")
        plan = Plan(n, dtype_of(dtype).itemsize)
        if count and n > 1:
            plan.phase("broadcast")
            parents = [(place - 1 if self._shape == CHAIN else binomial_parent(place)) for place in range(n)]
            depths = depths_of(parents)
            order = sorted(range(1, n), key=depths.__getitem__)
            rank = [(self._root + place) % n for place in range(n)]
            chunks = chunk_bounds(0, count, min(self._chunks, count))
            for chunk, (first, last) in enumerate(pairwise(chunks)):
                came: dict[int, int] = {}
                for place in order:
                    plan.at(chunk + depths[place])
                    above = parents[place]
                    after = [came[above]] if above in came else []
                    came[place] = plan.add(
                        rank[above], rank[place], first, last, reduce=False, after=after
                    )  # fmt: skip
        return plan.schedule("broadcast", count, dtype, redop)

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(count,) per rank: numbers without a 0 at the root, 0 at all others."""
        kind = dtype_of(schedule.dtype)
        count = schedule.size_bytes // kind.itemsize
        buffers = [np.zeros(count, kind) for _ in range(schedule.n_ranks)]
        buffers[self._root] = exact_input(schedule.dtype, "max", schedule.n_ranks, self._root, count, seed)
        buffers[self._root][buffers[self._root] == 0] = 1
        return buffers

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count,): what the root holds, the same for every rank."""
        return inputs[self._root]

    def busbw_factor(self, n_ranks: int) -> float:
        """1. Source: nccl-tests doc/PERFORMANCE.md, "Broadcast"."""
        return 1.0

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """Chain on a ring of all its GPUs: (n - 2 + chunks) x (a chunk at the slowest link) + (n - 1) x latency;
        None elsewhere."""
        if fabric.kind != "ring" or self._shape != CHAIN or schedule.n_ranks != fabric.n_gpus:
            return None
        if schedule.n_transfers == 0:
            return 0.0
        n = schedule.n_ranks
        chunks = schedule.n_transfers // (n - 1)
        step_s = packet.wire_bytes(int(schedule.size.max())) * 8 / float(fabric.capacity_bps.min())
        return (n - 2 + chunks) * step_s + (n - 1) * float(fabric.latency_s.max())
