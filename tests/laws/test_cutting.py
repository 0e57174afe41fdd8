"""Taking a cable away makes nothing faster."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from railweave.framework.model import Fabric
from tests.laws.blocks import Block, Case, Drawing
from tests.laws.experiments import fabric_of, pick, registers, routers_for, some_collective, some_topology
from tests.laws.runs import Outcome

SHARES = {"cutting_a_cable_makes_nothing_faster": 30}
LEAST = 0.97
"""Time with the cable down over the time with it."""
SEEDS = 10
"""Of a router that hashes; its mean over so many counts."""
HASHED = 0.2
"""Share of the draws in which it is such a router, where it serves: they take ten runs each."""


def spreads(router: str, fabric: Fabric) -> bool:
    """Whether a router gives each pair equal shares of all its paths, or on rail-only fabrics is the
    default."""
    default = router == "hscore" and fabric.kind == "rail-only"
    return default or "equal-split" in registers()["router"][router].promises(fabric)


def hashes(router: str) -> bool:
    return any(parameter.name == "seed" for parameter in registers()["router"][router].parameters)


def drawn(drawing: Drawing) -> Case | None:
    draw, hashed = drawing.draw, drawing.draw.random() < HASHED
    topology = some_topology(draw)
    fabric = fabric_of(topology)
    names = routers_for(fabric, drawing.router)
    if not (routers := [name for name in names if (hashes(name) if hashed else spreads(name, fabric))]):
        return None
    router, cable = pick(draw, routers), pick(draw, np.flatnonzero(fabric.usable))
    document = {
        "topology": topology,
        "router": router,
        **some_collective(draw, fabric),
        "iterations": 3,
        "faults": [f"at=iter:1 down link:{fabric.link_name(int(cable))}"],
        "oracle": True,
        "health": {"interval": 1.0},  # what is measured does not matter
    }
    seeds = [{"router": {"name": router, "seed": seed}} for seed in range(SEEDS)] if hashed else [{}]
    return Case(document, seeds)


def judge(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    if any(outcome.findings is None for outcome in outcomes):
        return None
    whole_s, cut_s = (fmean(outcome.declared_s()[i] for outcome in outcomes) for i in (0, -1))
    if cut_s >= LEAST * whole_s:
        return None
    return f"{case.document['faults'][0]!r} takes {cut_s / whole_s:.3f} times as long as before"


def test_cutting_a_cable_makes_nothing_faster(block: Block) -> None:
    block.check(drawn, judge)
