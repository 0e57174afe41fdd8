"""All-to-all in two levels: inside the HB domains, then along the rails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.parameters import Parameter, Value
from railweave.traffic.collectives.all_gather import shard_bytes
from railweave.traffic.collectives.all_to_all import AllToAll
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.levels import RAIL_FABRICS, Grid, grid_of, phases_s
from railweave.traffic.collectives.plan import Plan

PHASES = ("all-to-all domain", "all-to-all rail")
MOST_WAITS = 1 << 22
"""Dependencies of a schedule at most; unpipelined, every message of a rail waits for all of its sender's."""


class HierarchicalAllToAll(AllToAll):
    """Every rank hands each GPU of its domain the slices for that GPU's whole rail (D slices), then each GPU sends
    along its rail what it holds for every other domain (K slices each, its own among them).

    A message is one slice. A rank enters the second phase when its part of the first is complete; pipelined, each
    slice goes on as soon as it has come. Source: rail-only paper, appendix D and equation 21 (the text's first
    shard of xD is yD).
    """

    summary = (
        "all-to-all in the domains, then along the rails, without the spines (rail-only paper, equation 21)"
    )
    serves: tuple[str, ...] = RAIL_FABRICS
    parameters: tuple[Parameter, ...] = (
        Parameter("pipelined", False, "bool", "pass each slice on as soon as it has come"),
    )

    def __init__(self, pipelined: bool = False) -> None:
        self._pipelined = pipelined

    def configured(self, options: Mapping[str, Value]) -> Self:
        return type(self)(bool(options["pipelined"]))

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        grid = grid_of(fabric, ranks, "all-to-all", "direct-all-to-all")
        n, itemsize = len(ranks), dtype_of(dtype).itemsize
        one = shard_bytes(size_bytes, dtype, n) // itemsize
        plan = Plan(n, itemsize)
        if one and n > 1:
            self._check_waits(grid)
            self._plan(plan, grid, one)
        return plan.schedule("all-to-all", one * n, dtype, redop, buffer_count=3 * one * n)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """Equation 21: D (K - 1) slices at the slowest d link, then K (D - 1) at the slowest r link, with every
        message's headers; None if pipelined."""
        return None if self._pipelined else phases_s(fabric, schedule, packet)

    def _check_waits(self, grid: Grid) -> None:
        domains, rails = grid.shape
        waits = grid.size * (domains - 1) * rails * 2 * domains * (rails - 1)
        if waits > MOST_WAITS and not self._pipelined:
            raise ExperimentError(
                f"all-to-all over {domains} domains of {rails}: the barrier between its phases makes {waits} "
                f"dependencies, more than {MOST_WAITS}. Use fewer GPUs, pipelined=true, or `direct-all-to-all`."
            )

    def _plan(self, plan: Plan, grid: Grid, one: int) -> None:
        domains, rails = grid.shape
        n = grid.size
        came: dict[tuple[int, int, int], int] = {}
        part: list[list[int]] = [[] for _ in range(n)]
        if rails > 1:
            plan.phase(PHASES[0])
        for distance in range(1, rails):
            for d in range(domains):
                for k in range(rails):
                    via = (k + distance) % rails
                    src, dst = int(grid[d, k]), int(grid[d, via])
                    for away in range(domains):
                        to = (d + away) % domains
                        first = (n + int(grid[to, via])) * one
                        place = 2 * n + to * rails + k if to != d else src
                        sent = plan.add(src, dst, first, first + one, to=place * one, reduce=False, after=[])
                        came[dst, to, k] = sent
                        part[src].append(sent)
                        part[dst].append(sent)
        if domains > 1:
            plan.phase(PHASES[1])
        for away in range(1, domains):
            for d in range(domains):
                to = (d + away) % domains
                for k in range(rails):
                    src, dst = int(grid[d, k]), int(grid[to, k])
                    for of in range(rails):
                        place = 2 * n + to * rails + of if of != k else n + dst
                        after = part[src]
                        if self._pipelined:
                            after = [came[src, to, of]] if of != k else []
                        plan.add(
                            src, dst, place * one, (place + 1) * one,
                            to=int(grid[d, of]) * one, reduce=False, after=after,
                        )  # fmt: skip
