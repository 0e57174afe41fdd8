"""All-gather around one ring of all ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.traffic.collectives.all_gather import AllGather, shard_bytes
from railweave.traffic.collectives.all_reduce import check_ranks
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.plan import Plan, chunk_bounds, ring_all_gather


class RingAllGather(AllGather):
    """Each rank passes on to the next what it got last, in n - 1 steps of one shard.

    A rank waits for the shard it passes on and for nothing else; all shards being equal, that is the step of
    Table I. Source: Table I of arXiv 2211.15119 ("Ring"); NCCL's ring.
    """

    summary = "one ring over all ranks, in their order; any fabric"

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        check_ranks(fabric, ranks)
        n, itemsize = len(ranks), dtype_of(dtype).itemsize
        count = shard_bytes(size_bytes, dtype, n) // itemsize * n
        plan = Plan(n, itemsize)
        if count and n > 1:
            plan.phase("ring")
            ring_all_gather(plan, range(n), chunk_bounds(0, count, n), [[]] * n)
        return plan.schedule("ring-all-gather", count, dtype, redop)

    def item_times(self, fabric: Fabric) -> int:
        """How many shards have to be waited for one after another."""
        return fabric.n_gpus - 1

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """(n - 1) x (a shard at the slowest link + its latency), if every hop of the ring has links of its own;
        that is known for ring fabrics alone, and None elsewhere."""
        if fabric.kind != "ring" or schedule.n_ranks != fabric.n_gpus:
            return None
        if schedule.n_transfers == 0:
            return 0.0
        step_bytes = packet.wire_bytes(int(np.max(schedule.size)))
        step_s = step_bytes * 8 / float(fabric.capacity_bps.min()) + float(fabric.latency_s.max())
        return (schedule.n_ranks - 1) * step_s
