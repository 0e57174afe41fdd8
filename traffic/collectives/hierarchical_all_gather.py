"""All-gather in two levels: along the rails, then inside the HB domains."""

from __future__ import annotations

from collections.abc import Sequence

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.traffic.collectives.all_gather import AllGather, shard_bytes
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.levels import DOMAIN_PHASES, RAIL_FABRICS, RAIL_PHASES, grid_of, phases_s
from railweave.traffic.collectives.plan import Plan, ring_all_gather_of


class HierarchicalAllGather(AllGather):
    """Each rail gathers the shards of its GPUs, then each domain the shards of all rails; rings throughout.

    In the domain a message is one shard: those of a rail lie apart in the array, which is in the order of ranks.
    Nothing is pipelined: a rank enters the second phase when its part of the first is complete. No byte leaves
    its rail in the first phase. Source: rail-only paper, section 3.2 and equation 1.
    """

    summary = "all-gather along the rails, then in the domains (rail-only paper, equation 1)"
    serves: tuple[str, ...] = RAIL_FABRICS

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        grid = grid_of(fabric, ranks, "all-gather", "ring-all-gather")
        n, itemsize = len(ranks), dtype_of(dtype).itemsize
        count = shard_bytes(size_bytes, dtype, n) // itemsize
        plan = Plan(n, itemsize)
        if count and n > 1:
            shards = [(rank * count, (rank + 1) * count) for rank in range(n)]
            ready: list[list[int]] = [[] for _ in range(n)]
            domains, rails = grid.shape
            if domains > 1:
                plan.phase(RAIL_PHASES[1])
                for column in grid.T:
                    members = [int(rank) for rank in column]
                    done = ring_all_gather_of(plan, members, [[shards[r]] for r in members], [[]] * domains)
                    for rank, after in zip(members, done, strict=True):
                        ready[rank] = after
            if rails > 1:
                plan.phase(DOMAIN_PHASES[1])
                of_rail = [[shards[int(rank)] for rank in column] for column in grid.T]
                for row in grid:
                    members = [int(rank) for rank in row]
                    ring_all_gather_of(plan, members, of_rail, [ready[rank] for rank in members])
        return plan.schedule("all-gather", count * n, dtype, redop)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """Equation 1: (D - 1) shards at the slowest r link, then (K - 1) D shards at the slowest d link, with
        every message's headers; D domains and K rails as the schedule used them."""
        return phases_s(fabric, schedule, packet)
