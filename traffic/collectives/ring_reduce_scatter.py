"""Reduce-scatter around one ring of all ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.traffic.collectives.all_gather import shard_bytes
from railweave.traffic.collectives.all_reduce import check_ranks, element_count
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.plan import Plan, chunk_bounds, ring_reduce_scatter
from railweave.traffic.collectives.reduce_scatter import ReduceScatter, own_shard_first


class RingReduceScatter(ReduceScatter):
    """Each rank adds its version to what it got last and passes it on, in n - 1 steps of one shard.

    Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009; NCCL's ring.
    """

    summary = "one ring over all ranks, in their order; any fabric"

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        check_ranks(fabric, ranks)
        element_count(size_bytes, dtype, redop)
        n, itemsize = len(ranks), dtype_of(dtype).itemsize
        count = shard_bytes(size_bytes, dtype, n) // itemsize * n
        plan = Plan(n, itemsize)
        if count and n > 1:
            plan.phase("ring")
            ring_reduce_scatter(plan, range(n), chunk_bounds(0, count, n), [[]] * n)
        return own_shard_first(plan.schedule("ring-reduce-scatter", count, dtype, redop))

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
