"""Two levels of a rail fabric: where ranks stand in domains and rails, and what phases on their links take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.traffic.collectives.all_reduce import check_ranks

RAIL_FABRICS = ("rail-only", "rail-optimised")
DOMAIN_PHASES = ("reduce-scatter domain", "all-gather domain")
RAIL_PHASES = ("reduce-scatter rail", "all-gather rail")
LEVELS = (("domain", "d"), ("rail", "r"))
"""Last word of a phase's name, and the kind of links that carry it."""

Grid = NDArray[np.int64]
"""(domains, rails): the rank at each place."""


def grid_of(fabric: Fabric, ranks: Sequence[int], what: str, instead: str) -> Grid:
    """(domains, rails): the rank at each place. The ranks must be every GPU of some domains on some rails.

    `what` is refused by that name otherwise, and `instead` is the collective that runs on any ranks.
    """
    check_ranks(fabric, ranks)
    if fabric.kind not in RAIL_FABRICS:
        raise UnsupportedFabricError(
            f"{what} (hierarchical) needs domains and rails ({', '.join(RAIL_FABRICS)}), not {fabric.kind}. Use "
            f"`--collective {instead}`."
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
            f"hierarchical {what} needs the same rails in every domain. Add it, or use `{instead}`."
        )
    return grid


def phases_s(fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
    """Seconds of phases one after another: in each, the messages of the busiest sender, every one as long as the
    longest with its headers, at the slowest d or r link, and for each of those that wait for each other the latency
    of the two links of its way. None on other fabrics than those with rails."""
    if fabric.kind not in RAIL_FABRICS:
        return None
    return sum(level_s(fabric, schedule, packet).values()) + _travel_s(fabric, schedule)


def _travel_s(fabric: Fabric, schedule: Schedule) -> float:
    total = 0.0
    for level, kind in LEVELS:
        late = float(fabric.latency_s[fabric.link_kind == fabric.kinds.index(kind)].max())
        for phase, name in enumerate(schedule.phase_names):
            if late > 0 and name.endswith(level):
                total += longest_chain(schedule, phase) * 2 * late
    return total


def longest_chain(schedule: Schedule, phase: int) -> int:
    """How many transfers of a phase follow one another at most: each waits for the one before."""
    length = np.zeros(schedule.n_transfers, np.int64)
    for transfer in np.flatnonzero(schedule.phase == phase):
        before = schedule.after[schedule.after_start[transfer] : schedule.after_start[transfer + 1]]
        length[transfer] = 1 + length[before].max(initial=0)
    return int(length.max(initial=0))


def level_s(fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> dict[str, float]:
    """Those seconds without latencies, by level, `domain` and `rail`."""
    total = {level: 0.0 for level, _ in LEVELS}
    for level, kind in LEVELS:
        rate = float(fabric.capacity_bps[fabric.link_kind == fabric.kinds.index(kind)].min())
        for phase, name in enumerate(schedule.phase_names):
            mine = np.flatnonzero(schedule.phase == phase)
            if name.endswith(level) and mine.size:
                messages = int(np.max(np.bincount(schedule.src[mine])))
                total[level] += messages * packet.wire_bytes(int(schedule.size[mine].max())) * 8 / rate
    return total


def one_hop(
    fabric: Fabric, src: NDArray[np.int32], dst: NDArray[np.int32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(n,) bit/s and (n,) s: the rate of the slowest d link and the latency of two for pairs inside a domain, of r
    links for pairs on a rail; 0 bit/s for pairs that must change rails on their way."""
    a, b = fabric.gpu_coordinates[src], fabric.gpu_coordinates[dst]
    rates, latencies = np.zeros(len(src)), np.zeros(len(src))
    for axis, kind in ((0, "d"), (1, "r")):
        of_kind, here = fabric.link_kind == fabric.kinds.index(kind), a[:, axis] == b[:, axis]
        rates[here] = fabric.capacity_bps[of_kind].min()
        latencies[here] = 2 * fabric.latency_s[of_kind].max()
    return rates, latencies
