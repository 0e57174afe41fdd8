"""A router that follows health never makes a run slower: not by measured scores, not by the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from tests.laws.blocks import Block, Case, Drawing, Judge
from tests.laws.experiments import (
    ALL_KINDS,
    QUIET,
    chance,
    fabric_of,
    pick,
    routers_for,
    some_collective,
    some_element,
    some_router,
    some_slowness,
    some_topology,
)
from tests.laws.runs import Outcome

SHARES = {"never_worse": 34}
ITERATIONS, FIRST = 6, 1
"""How many, and the one before which the fault comes."""
MOST = {"feedback": 1.03, "oracle": 1.01}
"""Time since the fault over that without feedback."""
LONG, SETTLED = 30, 15
"""Iterations of a run in which all faults are known at last, and the one from which that is so."""


def drawn(drawing: Drawing) -> Case | None:
    draw = drawing.draw
    topology = some_topology(draw, (*["rail-only"] * 9, *ALL_KINDS))
    fabric = fabric_of(topology)
    if not (routers := routers_for(fabric, drawing.router)):
        return None
    document = {
        "topology": topology,
        "router": some_router(draw, routers),
        **some_collective(draw, fabric),
        "estimator": "rate" if chance(draw, 0.25) else "delay",
        "iterations": ITERATIONS,
        "faults": [
            f"at=iter:{FIRST} {some_slowness(draw, some_element(draw, fabric))}"
            for _ in range(pick(draw, (1, 1, 2, 3)))
        ],
    }
    known = {"feedback": {}, "oracle": {"oracle": True}}
    mode = "oracle" if chance(draw, 0.3) else "feedback"
    return Case(document, (QUIET, known[mode]), {"mode": mode, "since": FIRST})


def judge(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    without_s, with_s = (sum(outcome.seconds()[case.notes["since"] :]) for outcome in outcomes)
    mode = case.notes["mode"]
    if with_s <= MOST[mode] * without_s:
        return None
    if with_s == inf:
        return f"with {mode} the run fails ({outcomes[1].failed}), without it takes {without_s:.4g} s"
    return f"since the fault {with_s:.4g} s with {mode}, {with_s / without_s:.3f} times as without"


def unless_once(judge: Judge) -> Judge:
    """Of several faults, one may be on links that nothing was sent on until pairs left the links of another
    for them: no packet had met it, so health could not know it. That costs some timeouts, once."""

    def judged(case: Case, outcomes: Sequence[Outcome]) -> str | None:
        complaint = judge(case, outcomes)
        if complaint is None or case.notes["mode"] == "oracle" or len(case.document["faults"]) == 1:
            return complaint
        document, notes = {**case.document, "iterations": LONG}, {**case.notes, "since": SETTLED}
        longer = replace(case, document=document, notes=notes)
        return judge(longer, longer.outcomes())

    return judged


def test_never_worse(block: Block) -> None:
    block.check(drawn, unless_once(judge))
