"""Steps and times of all five all-gathers side by side, by formula and as real schedules."""

from __future__ import annotations

from dataclasses import dataclass

from railweave.framework.errors import FabricError
from railweave.framework.optical.closed_forms import (
    RATE_BPS,
    RECONFIGURATION_S,
    arity_for,
    deepest,
    neighbor_exchange_item_times,
    neighbor_exchange_steps,
    ring_steps,
    steps,
    time_s,
    wrht_steps,
)
from railweave.framework.optical.optree import wavelengths_needed
from railweave.framework.optical.wrht import stage_needs


@dataclass(frozen=True, slots=True)
class Costs:
    """`depth`, `arity` of OpTree's tree, None for the others. By formula (Table I, Theorem 1): `steps`, `time_s`
    by equation 3, with the two items that neighbor-exchange sends a step counted. As the schedule that a run carries out: `schedule_steps`, `item_times`, `wavelengths` in use
    and `schedule_s`."""

    algorithm: str
    depth: int | None
    arity: int | None
    steps: int
    time_s: float
    schedule_steps: int
    item_times: int
    wavelengths: int
    schedule_s: float


def compare(
    nodes: int, wavelengths: int, item_bytes: float, rate_bps: float = RATE_BPS, step_s: float = RECONFIGURATION_S
) -> tuple[Costs, ...]:  # fmt: skip
    """A row for each algorithm, OpTree with one for each depth; neighbor-exchange is left out where N is odd.

    Raises FabricError for numbers that cannot be.
    """
    if nodes < 2 or wavelengths < 1:
        raise FabricError(
            f"a ring of {nodes} nodes and {wavelengths} wavelengths: it needs 2 nodes and 1 wavelength or more. "
            "Raise `--nodes` or `--wavelengths`."
        )

    def costs(
        algorithm: str,
        formula: tuple[int, int],
        schedule: tuple[int, int],
        used: int,
        depth: int | None = None,
        arity: int | None = None,
    ) -> Costs:
        (n_steps, items), (real_steps, real_items) = formula, schedule
        return Costs(
            algorithm, depth, arity, n_steps, time_s(items, n_steps, item_bytes, rate_bps, step_s),
            real_steps, real_items, used, time_s(real_items, real_steps, item_bytes, rate_bps, step_s),
        )  # fmt: skip

    ring = (ring_steps(nodes),) * 2
    rows = [costs("ring", ring, ring, 1)]
    if nodes % 2 == 0:
        swaps = neighbor_exchange_steps(nodes), neighbor_exchange_item_times(nodes)
        rows.append(costs("neighbor-exchange", swaps, swaps, 1))
    stages = stage_needs(nodes, wavelengths)
    total = sum(count for _, count, _ in stages)
    used = max(need for _, _, need in stages)
    rows.append(costs("wrht", (wrht_steps(nodes, wavelengths),) * 2, (total,) * 2, used))
    for algorithm, depth in [("one-stage", 1), *(("optree", k) for k in range(1, deepest(nodes) + 1))]:
        arity = arity_for(nodes, depth)
        needs = wavelengths_needed(nodes, arity)
        total = sum(-(-need // wavelengths) for need in needs)
        used = min(wavelengths, max(needs))
        formula = steps(nodes, wavelengths, depth)
        tree = (depth, arity) if algorithm == "optree" else (None, None)
        rows.append(costs(algorithm, (formula,) * 2, (total,) * 2, used, *tree))
    return tuple(rows)
