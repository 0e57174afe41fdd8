"""What engines are compared on: fabrics of 16 GPUs with every router that serves them, under a degraded
element, a link that is down, and two jobs; and scenarios drawn from seeds that make routers choose."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from railweave.framework.experiment.plan import build_fabric
from railweave.framework.model.capabilities import why_unserved
from railweave.framework.registry import Registers
from railweave.framework.studies.shared_rails import jobs_sharing

DEGRADED, DOWN, JOBS = "degraded", "link down", "two jobs"
SCENARIOS = (DEGRADED, DOWN, JOBS)
HALVES = ["name=first ranks=all/2 collective=ring-all-reduce",
          "name=second ranks=all/2+1 collective=ring-all-reduce"]  # fmt: skip
"""Two jobs on every second GPU each: their paths share links."""
SLOW_RAIL, SLOW_CABLE = "degrade rail:1 to=20%", "degrade link:{} to=50%"
FABRICS: dict[str, tuple[dict[str, object], str]] = {
    "rail-only": ({}, "g0.1->r1"),
    "rail-optimised": ({}, "g0.1->r1"),
    "ring": ({}, "g0->g1"),
    "torus": ({"topology.shape": "4x4"}, "g0.0->g1.0"),
    "fat-tree": ({}, "e0.0->a0.0"),
}
"""Options of every fabric of 16 GPUs, and the link that fails."""
OTHER_LINKS = {("fat-tree", "ecmp"): "e0.0->a0.1"}
"""Where a router does not use that one."""
BEFORE, ITERATIONS, TOGETHER = 3, 8, 4
"""Iterations before the fault and in all; and of each of two jobs."""
SEEDS, FIRST_SLOW, LAST_SLOW, CHOICE_ITERATIONS = 10, 1, 4, 8
"""Scenarios in which routers choose; the iterations before which rails become slow; iterations in all."""
QUICK = (
    ("rail-only", "hscore", DEGRADED), ("rail-only", "spray", DEGRADED), ("rail-only", "shortest", DOWN),
    ("rail-only", "hscore", JOBS), ("rail-optimised", "ecmp", DEGRADED), ("ring", "shortest", DEGRADED),
    ("torus", "wfr", DOWN), ("fat-tree", "ecmp", DEGRADED),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """`scenario`: one of SCENARIOS, or the faults that a seed drew, joined by ` and `."""

    fabric: str
    router: str
    scenario: str

    @property
    def drawn(self) -> bool:
        return self.scenario not in SCENARIOS

    @property
    def name(self) -> str:
        return f"{self.fabric} {self.router} {self.scenario}"


def cases(registers: Registers, quick: bool) -> Iterator[Case]:
    """Every fabric, router and scenario, then the drawn ones; or eight of them. A router that does not leave
    links that are down meets none."""
    if quick:
        yield from (Case(*words) for words in QUICK)
        return
    for kind, (options, _) in FABRICS.items():
        fabric = build_fabric(kind, {k.partition(".")[2]: v for k, v in options.items()}, {}, registers)
        for router, plugin in registers["router"].items():
            if not why_unserved(plugin, fabric):
                reroutes = "reroutes" in plugin.promises(fabric)
                fitting = [scenario for scenario in SCENARIOS if scenario != DOWN or reroutes]
                yield from (Case(kind, router, scenario) for scenario in fitting)
    yield from (Case("rail-only", "hscore", " and ".join(drawn(seed))) for seed in range(1, SEEDS + 1))


def drawn(seed: int) -> list[str]:
    """Faults of two or three of four rails: the slowest has to be left, and the lowest of the others is no
    right choice, because it is slow, too."""
    rng = np.random.default_rng(seed)
    while True:
        left, *others = (int(rail) for rail in rng.permutation(4))
        slow = others[: int(rng.integers(1, 3))]
        if min(others) in slow:
            break
    rates = [int(rng.integers(low, low + 15)) for low in (55, 70)]
    before = [
        f"at=iter:{FIRST_SLOW} degrade rail:{rail} to={rate}%"
        for rail, rate in zip(slow, rates, strict=False)
    ]
    return [*before, f"at=iter:{LAST_SLOW} degrade rail:{left} to={int(rng.integers(15, 26))}%"]


def keys_of(case: Case, registers: Registers) -> dict[str, object]:
    """The experiment of a case."""
    options, link = FABRICS[case.fabric]
    link = OTHER_LINKS.get((case.fabric, case.router), link)
    keys: dict[str, object] = {"topology": case.fabric, **options, "router": case.router}
    rails = case.fabric.startswith("rail")
    if case.drawn:
        return {**keys, "iterations": CHOICE_ITERATIONS, "faults": case.scenario.split(" and ")}
    if case.scenario == JOBS:
        fabric = build_fabric(case.fabric, {}, {}, registers) if rails else None
        jobs = HALVES if fabric is None else jobs_sharing(fabric, 50)
        return {**keys, "jobs": jobs, "iterations": TOGETHER, "faults": "none"}
    slow = SLOW_RAIL if rails else SLOW_CABLE.format(link)
    fault = slow if case.scenario == DEGRADED else f"down link:{link}"
    return {**keys, "iterations": ITERATIONS, "faults": [f"at=iter:{BEFORE} {fault}"]}
