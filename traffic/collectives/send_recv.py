"""Send and receive between neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.parameters import Parameter, Value
from railweave.traffic.collectives.all_reduce import check_ranks, element_count
from railweave.traffic.collectives.arithmetic import dtype_of, exact_input
from railweave.traffic.collectives.plan import Plan


class SendRecv:
    """Every rank sends its buffer to the next one and receives the one before it, round the list of ranks.

    The size is one rank's buffer, rounded down to whole elements (nccl-tests, sendrecv). Every rank's memory has
    two of them: what it receives, then what it sends. `redop` is of no concern.
    """

    summary = "every rank to the next and from the one before, at once; any fabric"
    kind = "send-recv"
    parameters: tuple[Parameter, ...] = ()
    serves: tuple[str, ...] = ()
    same_result_everywhere = False

    def configured(self, options: Mapping[str, Value]) -> Self:
        return self

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        check_ranks(fabric, ranks)
        count, n = element_count(size_bytes, dtype, redop), len(ranks)
        if n == 1:
            raise ExperimentError(
                "send-recv of 1 rank: it needs 2 or more, a sender and a receiver. Add a rank."
            )
        plan = Plan(n, dtype_of(dtype).itemsize)
        if count:
            plan.phase("send-recv")
            for rank in range(n):
                plan.add(rank, (rank + 1) % n, count, 2 * count, to=0, reduce=False, after=[])
        return plan.schedule("send-recv", count, dtype, redop, buffer_count=2 * count)

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(2 count,) per rank: 0, then what it sends, without a 0."""
        kind, n = dtype_of(schedule.dtype), schedule.n_ranks
        count = schedule.size_bytes // kind.itemsize
        buffers = []
        for rank in range(n):
            sent = exact_input(schedule.dtype, "max", n, rank, count, seed)
            sent[sent == 0] = 1
            buffers.append(np.concatenate([np.zeros(count, kind), sent]))
        return buffers

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count,): what the rank before sent."""
        before = inputs[(rank - 1) % schedule.n_ranks]
        return before[len(before) // 2 :]

    def busbw_factor(self, n_ranks: int) -> float:
        """1. Source: nccl-tests doc/PERFORMANCE.md, "SendRecv" among the point-to-point operations."""
        return 1.0

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """A buffer with its headers at the slowest link and its latency, on a ring of all its GPUs; None
        elsewhere."""
        if fabric.kind != "ring" or schedule.n_ranks != fabric.n_gpus:
            return None
        if schedule.n_transfers == 0:
            return 0.0
        wire_s = packet.wire_bytes(int(schedule.size.max())) * 8 / float(fabric.capacity_bps.min())
        return wire_s + float(fabric.latency_s.max())
