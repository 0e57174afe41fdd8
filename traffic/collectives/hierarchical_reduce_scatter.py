"""Reduce-scatter in two levels: inside the HB domains, then along the rails."""

from __future__ import annotations

from collections.abc import Sequence

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.traffic.collectives.all_gather import shard_bytes
from railweave.traffic.collectives.all_reduce import element_count
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.levels import DOMAIN_PHASES, RAIL_FABRICS, RAIL_PHASES, grid_of, phases_s
from railweave.traffic.collectives.plan import Plan, ring_reduce_scatter_of
from railweave.traffic.collectives.reduce_scatter import ReduceScatter, own_shard_first


class HierarchicalReduceScatter(ReduceScatter):
    """Each domain reduces to every GPU the shards of its rail, then each rail to every GPU its own shard: the
    hierarchical all-gather backwards; rings throughout.

    Nothing is pipelined: a rank enters the second phase when its part of the first is complete. No byte leaves
    its rail in the second phase. Source: rail-only paper, section 3.2 and equation 1.
    """

    summary = "reduce-scatter in the domains, then along the rails (rail-only paper, equation 1)"
    serves: tuple[str, ...] = RAIL_FABRICS

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        grid = grid_of(fabric, ranks, "reduce-scatter", "ring-reduce-scatter")
        element_count(size_bytes, dtype, redop)
        n, itemsize = len(ranks), dtype_of(dtype).itemsize
        count = shard_bytes(size_bytes, dtype, n) // itemsize
        plan = Plan(n, itemsize)
        if count and n > 1:
            shards = [(rank * count, (rank + 1) * count) for rank in range(n)]
            ready: list[list[int]] = [[] for _ in range(n)]
            domains, rails = grid.shape
            if rails > 1:
                plan.phase(DOMAIN_PHASES[0])
                of_rail = [[shards[int(rank)] for rank in column] for column in grid.T]
                for row in grid:
                    members = [int(rank) for rank in row]
                    done = ring_reduce_scatter_of(plan, members, of_rail, [[]] * rails)
                    for rank, after in zip(members, done, strict=True):
                        ready[rank] = after
            if domains > 1:
                plan.phase(RAIL_PHASES[0])
                for column in grid.T:
                    members = [int(rank) for rank in column]
                    own = [[shards[rank]] for rank in members]
                    ring_reduce_scatter_of(plan, members, own, [ready[rank] for rank in members])
        return own_shard_first(plan.schedule("reduce-scatter", count * n, dtype, redop))

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """Equation 1, as for the hierarchical all-gather."""
        return phases_s(fabric, schedule, packet)
