"""All-reduce in two levels: inside the HB domains, and along the rails."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.traffic.collectives.all_reduce import AllReduce, check_ranks, element_count
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.plan import Plan, chunk_bounds, ring_all_gather, ring_reduce_scatter

DOMAIN_PHASES = ("reduce-scatter domain", "all-gather domain")
RAIL_PHASES = ("reduce-scatter rail", "all-gather rail")


class HierarchicalAllReduce(AllReduce):
    """Reduce-scatter in the domain, reduce-scatter and all-gather of each shard along its rail, all-gather in
    the domain: rings throughout, nothing pipelined; a rank enters a phase when its part of the last is complete.

    Source: rail-only paper, section 3.2 and equation 1 (a reduce-scatter is an all-gather in reverse).
    """

    summary = (
        "reduce-scatter and all-gather in the domains and along the rails (rail-only paper, equation 1 twice)"
    )
    serves: tuple[str, ...] = ("rail-only", "rail-optimised")

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        check_ranks(fabric, ranks)
        count = element_count(size_bytes, dtype, redop)
        grid = _grid(fabric, ranks)
        domains, rails = grid.shape
        plan = Plan(len(ranks), dtype_of(dtype).itemsize)
        if count and len(ranks) > 1:
            shards = chunk_bounds(0, count, rails)
            pieces = [chunk_bounds(shards[k], shards[k + 1] - shards[k], domains) for k in range(rails)]
            ready: list[list[int]] = [[] for _ in ranks]
            for name, rings in (
                (DOMAIN_PHASES[0], [(row, shards) for row in grid]),
                (RAIL_PHASES[0], list(zip(grid.T, pieces, strict=True))),
                (RAIL_PHASES[1], list(zip(grid.T, pieces, strict=True))),
                (DOMAIN_PHASES[1], [(row, shards) for row in grid]),
            ):
                if len(rings[0][0]) == 1:
                    continue
                plan.phase(name)
                ring = ring_reduce_scatter if name.startswith("reduce") else ring_all_gather
                for row, bounds in rings:
                    members = [int(rank) for rank in row]
                    done = ring(plan, members, bounds, [ready[rank] for rank in members])
                    for rank, after in zip(members, done, strict=True):
                        ready[rank] = after
        return plan.schedule("all-reduce", count, dtype, redop)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """Twice equation 1, (K - 1) shards at the slowest d link and (D - 1) pieces at the slowest r link,
        with every message's headers; D domains and K rails as the schedule used them."""
        if fabric.kind not in self.serves:
            return None
        total = 0.0
        for names, kind in ((DOMAIN_PHASES, "d"), (RAIL_PHASES, "r")):
            rate = float(fabric.capacity_bps[fabric.link_kind == fabric.kinds.index(kind)].min())
            for name in names:
                if name not in schedule.phase_names:
                    continue
                mine = np.flatnonzero(schedule.phase == schedule.phase_names.index(name))
                steps = int(np.max(np.bincount(schedule.src[mine])))
                total += steps * packet.wire_bytes(int(schedule.size[mine].max())) * 8 / rate
        return total


def _grid(fabric: Fabric, ranks: Sequence[int]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """(domains, rails): the rank at each place. The ranks must be every GPU of some domains on some rails."""
    if fabric.kind not in HierarchicalAllReduce.serves:
        raise UnsupportedFabricError(
            f"all-reduce (hierarchical) needs domains and rails ({', '.join(HierarchicalAllReduce.serves)}), not "
            f"{fabric.kind}. Use `--collective ring-all-reduce`."
        )
    where = fabric.gpu_coordinates[np.asarray(ranks)]
    domains, row = np.unique(where[:, 0], return_inverse=True)
    rails, column = np.unique(where[:, 1], return_inverse=True)
    grid = np.full((len(domains), len(rails)), -1, np.int64)
    grid[row, column] = np.arange(len(ranks))
    if np.any(grid < 0):
        d, k = np.argwhere(grid < 0)[0]
        raise ExperimentError(
            f"the ranks use rail {rails[k]} and domain {domains[d]} but not the GPU where they meet; a "
            "hierarchical all-reduce needs the same rails in every domain. Add it, or use `ring-all-reduce`."
        )
    return grid
