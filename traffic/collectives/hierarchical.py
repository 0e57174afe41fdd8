"""All-reduce in two levels: inside the HB domains, and along the rails."""

from __future__ import annotations

from collections.abc import Sequence

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.traffic.collectives.all_reduce import AllReduce, element_count
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.levels import (
    DOMAIN_PHASES,
    RAIL_FABRICS,
    RAIL_PHASES,
    Grid,
    grid_of,
    phases_s,
)
from railweave.traffic.collectives.plan import Plan, chunk_bounds, ring_all_gather, ring_reduce_scatter


class HierarchicalAllReduce(AllReduce):
    """Reduce-scatter in the domain, reduce-scatter and all-gather of each shard along its rail, all-gather in
    the domain: rings throughout, nothing pipelined; a rank enters a phase when its part of the last is complete.

    Source: rail-only paper, section 3.2 and equation 1 (a reduce-scatter is an all-gather in reverse).
    """

    summary = (
        "reduce-scatter and all-gather in the domains and along the rails (rail-only paper, equation 1 twice)"
    )
    serves: tuple[str, ...] = RAIL_FABRICS

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        grid = grid_of(fabric, ranks, "all-reduce", "ring-all-reduce")
        count = element_count(size_bytes, dtype, redop)
        plan = Plan(len(ranks), dtype_of(dtype).itemsize)
        if count and len(ranks) > 1:
            plan_levels(plan, grid, 0, count)
        return plan.schedule("all-reduce", count, dtype, redop)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """Twice equation 1, (K - 1) shards at the slowest d link and (D - 1) pieces at the slowest r link,
        with every message's headers; D domains and K rails as the schedule used them."""
        return phases_s(fabric, schedule, packet)


def plan_levels(plan: Plan, grid: Grid, start: int, count: int, first_slot: int | None = None) -> None:
    """Add the phases for elements start..start + count; phase i in time slot `first_slot` + i, if slots are used."""
    domains, rails = grid.shape
    shards = chunk_bounds(start, count, rails)
    pieces = [chunk_bounds(shards[k], shards[k + 1] - shards[k], domains) for k in range(rails)]
    ready: list[list[int]] = [[] for _ in range(grid.size)]
    phases = (
        (DOMAIN_PHASES[0], [(row, shards) for row in grid]),
        (RAIL_PHASES[0], list(zip(grid.T, pieces, strict=True))),
        (RAIL_PHASES[1], list(zip(grid.T, pieces, strict=True))),
        (DOMAIN_PHASES[1], [(row, shards) for row in grid]),
    )
    for slot, (name, rings) in enumerate(phases):
        if len(rings[0][0]) == 1:
            continue
        plan.phase(name)
        if first_slot is not None:
            plan.at(first_slot + slot)
        ring = ring_reduce_scatter if name.startswith("reduce") else ring_all_gather
        for row, bounds in rings:
            members = [int(rank) for rank in row]
            done = ring(plan, members, bounds, [ready[rank] for rank in members])
            for rank, after in zip(members, done, strict=True):
                ready[rank] = after
