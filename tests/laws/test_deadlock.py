"""Where a router promises no deadlock, no tables in use make channels wait for each other in a cycle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railweave.framework.routing.dependencies import dependency_edges, find_cycle
from tests.laws.blocks import Block, Case, Drawing
from tests.laws.experiments import (
    chance,
    fabric_of,
    pick,
    registers,
    routers_for,
    some_collective,
    some_faults,
    some_topology,
)
from tests.laws.runs import Outcome

SHARES = {"no_deadlock": 15}
ITERATIONS = 4
LATTICES = ("torus", "torus", "torus", "twisted-torus")


def drawn(drawing: Drawing) -> Case | None:
    draw = drawing.draw
    topology = some_topology(draw, LATTICES)
    fabric = fabric_of(topology)
    promising = [
        name
        for name in routers_for(fabric, drawing.router)
        if "deadlock-free" in registers()["router"][name].promises(fabric)
    ]
    if not promising:
        return None
    collective = "direct-all-to-all" if chance(draw, 0.7) else ""
    document = {
        "topology": topology,
        "router": pick(draw, promising),
        **some_collective(draw, fabric, collective),
        "iterations": ITERATIONS,
        "faults": some_faults(draw, fabric, ITERATIONS),
        "oracle": chance(draw, 0.7),
    }
    return Case(document)


def judge(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    fabric = outcomes[0].plan.fabric
    for number, paths in enumerate(outcomes[0].paths):
        cycle = find_cycle(np.unique(dependency_edges(fabric, paths), axis=0))
        if cycle is not None:
            names = [f"{fabric.link_name(c % fabric.n_links)} vc{c // fabric.n_links}" for c in cycle]
            return (
                f"after {number} reroutes {len(cycle)} channels wait for each other: {', '.join(names[:6])}"
            )
    return None


def test_no_deadlock(block: Block) -> None:
    block.check(drawn, judge)
