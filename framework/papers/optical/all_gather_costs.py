"""Steps and times of all five all-gathers side by side, by formula and as complete schedules."""

from dataclasses import dataclass

from railweave.framework.papers.optical.closed_forms import (
    RATE_BPS,
    RECONFIGURATION_S,
    arity_for,
    check_ring,
    deepest,
    neighbor_exchange_item_times,
    neighbor_exchange_steps,
    ring_steps,
    steps,
    time_s,
    wrht_steps,
)
from railweave.framework.papers.optical.optree import wavelengths_needed
from railweave.framework.papers.optical.wrht import stage_needs


@dataclass(frozen=True, slots=True)
class Costs:
    """One all-gather. `depth`, `arity`: OpTree's tree, None for the others.

    By formula: `steps` (Table I, Theorem 1) and `time_s` = steps x (d/B + a) (equation 3), which charges
    every step one item, also those of neighbor-exchange that carry two. As the schedule of a run:
    `schedule_steps`, `item_times` (2 for a step that carries two items), `wavelengths` in use, and
    `schedule_s` with the item-times.
    """

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
    nodes: int,
    wavelengths: int,
    item_bytes: float,
    rate_bps: float = RATE_BPS,
    step_s: float = RECONFIGURATION_S,
) -> tuple[Costs, ...]:
    """A row for each algorithm, and for each depth of OpTree; neighbor-exchange is left out where N is odd.

    Raises FabricError for fewer than 2 nodes or 1 wavelength, and for impossible rates and times.
    """
    check_ring(nodes, wavelengths)
    rows: list[Costs] = []

    def add(
        algorithm: str,
        formula: int,
        real: int,
        items: int,
        used: int,
        depth: int | None = None,
        arity: int | None = None,
    ) -> None:
        by_formula = time_s(formula, formula, item_bytes, rate_bps, step_s)
        scheduled = time_s(items, real, item_bytes, rate_bps, step_s)
        rows.append(Costs(algorithm, depth, arity, formula, by_formula, real, items, used, scheduled))

    around = ring_steps(nodes)
    add("ring", around, around, around, 1)
    if nodes % 2 == 0:
        swaps = neighbor_exchange_steps(nodes)
        add("neighbor-exchange", swaps, swaps, neighbor_exchange_item_times(nodes), 1)
    stages = stage_needs(nodes, wavelengths)
    total = sum(count for _, count, _ in stages)
    add("wrht", wrht_steps(nodes, wavelengths), total, total, max(need for _, _, need in stages))
    for algorithm, depth in [("one-stage", 1), *(("optree", k) for k in range(1, deepest(nodes) + 1))]:
        arity = arity_for(nodes, depth)
        needs = wavelengths_needed(nodes, arity)
        total = sum(-(-need // wavelengths) for need in needs)
        used = min(wavelengths, max(needs))
        tree = (depth, arity) if algorithm == "optree" else (None, None)
        add(algorithm, steps(nodes, wavelengths, depth), total, total, used, *tree)
    return tuple(rows)
