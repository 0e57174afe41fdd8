"""All-reduce around one ring of all ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.traffic.collectives.all_reduce import AllReduce, check_ranks, element_count
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.plan import Plan, chunk_bounds, ring_all_gather, ring_reduce_scatter


class RingAllReduce(AllReduce):
    """Reduce-scatter, then all-gather, around the ranks in their order: 2 (n - 1) steps of size / n.

    Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009; NCCL's ring.
    """

    summary = "one ring over all ranks, in their order; any fabric"

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        check_ranks(fabric, ranks)
        count = element_count(size_bytes, dtype, redop)
        n = len(ranks)
        plan = Plan(n, dtype_of(dtype).itemsize)
        if count and n > 1:
            bounds = chunk_bounds(0, count, n)
            members = range(n)
            plan.phase("reduce-scatter")
            done = ring_reduce_scatter(plan, members, bounds, [[]] * n)
            plan.phase("all-gather")
            ring_all_gather(plan, members, bounds, done)
        return plan.schedule("ring-all-reduce", count, dtype, redop)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """2 (n - 1) x (the largest chunk at the slowest link + its latency), if every hop of the ring has links of
        its own; that is known for ring fabrics alone, and None elsewhere."""
        if fabric.kind != "ring" or schedule.n_ranks != fabric.n_gpus:
            return None
        if schedule.n_transfers == 0:
            return 0.0
        step_bytes = packet.wire_bytes(int(np.max(schedule.size)))
        step_s = step_bytes * 8 / float(fabric.capacity_bps.min()) + float(fabric.latency_s.max())
        return 2 * (schedule.n_ranks - 1) * step_s
