"""Runs in which something is replaced: iterations before, in and after, and the swap between two of them."""

from dataclasses import dataclass
from statistics import median

from railweave.framework.papers.items.item import Claim
from railweave.framework.papers.items.workbench import Workbench
from railweave.framework.parameters.units import parse_time
from railweave.framework.results.figures import CircuitFigures

FAILS, SWAPPED, ITERATIONS = 2, 4, 6
"""The iteration from which on a unit is slow, the one before which it is replaced, and how many there are."""


@dataclass(frozen=True, slots=True)
class Swap:
    """`before_us`, `during_us`, `after_us`: declared medians of iterations; `between_us`: declared, from the
    end of the last one with what was replaced to the beginning of the first one without; `circuits`: of each
    replacement."""

    before_us: float
    during_us: float
    after_us: float
    between_us: float
    circuits: tuple[CircuitFigures, ...]

    def claims(self, what: str, connect: str, n_circuits: int) -> tuple[Claim, ...]:
        """`connect`: the declared time of the switches; `n_circuits`: how many the unit has."""
        gap_us = 1e6 * parse_time(connect)
        return (
            Claim(f"{what}: iteration while it is slow, over before", None, self.during_us / self.before_us),
            Claim(f"{what}: from one iteration to the next", gap_us, self.between_us, "us"),
            Claim(f"{what}: circuits set", n_circuits, sum(made.circuits for made in self.circuits)),
            Claim(f"{what}: iteration after, over before", 1.0, self.after_us / self.before_us),
        )


def swap(workbench: Workbench, units: tuple[str, ...], slow: str, **keys: object) -> Swap:
    """A run in which `slow` falls to a tenth of its rate, and spares take the place of `units` later."""
    faults = [f"at=iter:{FAILS} degrade {slow} to=10%"]
    faults += [f"at=iter:{SWAPPED} replace {unit}" for unit in units]
    result = workbench.run(faults=faults, iterations=ITERATIONS, feedback=False, **keys)
    rows = [row for row in result.rows if row.iteration is not None]
    times = [row.declared_time_us for row in rows]
    scale = result.fabric.rate_scale
    gap_s = rows[SWAPPED].t_s - (rows[SWAPPED - 1].t_s + 1e-6 * rows[SWAPPED - 1].time_us)
    return Swap(
        median(times[:FAILS]),
        median(times[FAILS:SWAPPED]),
        median(times[SWAPPED:]),
        1e6 * gap_s * scale,
        tuple(fault.circuits for fault in result.faults if fault.circuits is not None),
    )
