"""All-to-all by one message for every pair of ranks."""

from __future__ import annotations

from collections.abc import Sequence

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.traffic.collectives.all_gather import shard_bytes
from railweave.traffic.collectives.all_reduce import check_ranks
from railweave.traffic.collectives.all_to_all import AllToAll
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.plan import Plan


class DirectAllToAll(AllToAll):
    """Every rank sends every other its slice at once, beginning with the rank after it; the routes do the rest.

    Source: NCCL's all-to-all, one group of sends and receives.
    """

    summary = "one message for every pair of ranks, all at once; any fabric"

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        check_ranks(fabric, ranks)
        n, itemsize = len(ranks), dtype_of(dtype).itemsize
        one = shard_bytes(size_bytes, dtype, n) // itemsize
        plan = Plan(n, itemsize)
        if one and n > 1:
            plan.phase("all-to-all")
            for distance in range(1, n):
                for src in range(n):
                    dst = (src + distance) % n
                    first = (n + dst) * one
                    plan.add(src, dst, first, first + one, to=src * one, reduce=False, after=[])
        return plan.schedule("direct-all-to-all", one * n, dtype, redop, buffer_count=2 * one * n)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """None: which links are shared is for the routes to say."""
        return None
