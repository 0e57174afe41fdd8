"""Once the routes answer it, an element that is slow costs no more than one that is down."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from railweave.framework.model import Fabric
from tests.laws.blocks import Block, Case, Drawing
from tests.laws.experiments import (
    ALL_KINDS,
    chance,
    fabric_of,
    registers,
    routers_for,
    some_collective,
    some_element,
    some_router,
    some_slowness,
    some_topology,
)
from tests.laws.runs import Outcome

SHARES = {"slow_is_not_worse_than_cut": 34}
ITERATIONS = 6
MOST = 1.03
"""Time of the last iteration over that of the last iteration with the element down."""


def reroutes(router: str, fabric: Fabric) -> bool:
    return "reroutes" in registers()["router"][router].promises(fabric)


def drawn(drawing: Drawing) -> Case | None:
    draw = drawing.draw
    topology = some_topology(draw, (*["rail-only"] * 9, *ALL_KINDS))
    fabric = fabric_of(topology)
    routers = [name for name in routers_for(fabric, drawing.router) if reroutes(name, fabric)]
    if not routers:
        return None
    element = some_element(draw, fabric)
    document = {
        "topology": topology,
        "router": some_router(draw, routers),
        **some_collective(draw, fabric),
        "estimator": "rate" if chance(draw, 0.25) else "delay",
        "oracle": chance(draw, 0.3),
        "iterations": ITERATIONS,
    }
    slow = f"at=iter:1 {some_slowness(draw, element)}"
    return Case(document, ({"faults": [slow]}, {"faults": [f"at=iter:1 down {element}"]}))


def _mistaken(case: Case, slow: Outcome) -> float:
    """How many times the truth the last score is, of the link that it is most wrong about. Routes are as good
    as what was measured, and few packets show little; where no loss was seen at all, nothing can follow."""
    score, truth = slow.found.link_score, slow.found.truth[-1].link_score
    if case.document["oracle"]:
        return 1.0
    if "loss" in case.variants[0]["faults"][0] and not (score < 1).any():
        return inf
    return float((score[truth > 0] / truth[truth > 0]).max(initial=1.0))


def _still_answering(slow: Outcome) -> bool:
    found = slow.found
    return any(change.t_s > found.iterations[-1].begin_s for change in found.reroutes)


def judge(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    slow, (slow_s, cut_s) = outcomes[0], (outcome.seconds()[-1] for outcome in outcomes)
    # A fault that costs nothing is not answered, whatever the routes of a fabric that is cut may gain.
    if slow_s <= MOST * max(cut_s, slow.seconds()[0]):
        return None
    fault, how = case.variants[0]["faults"][0], "the truth" if case.document["oracle"] else "feedback"
    if slow_s == inf:
        return f"with {how} the run fails after {fault!r} ({slow.failed}); down it takes {cut_s:.4g} s"
    if slow_s <= MOST * cut_s * _mistaken(case, slow) or _still_answering(slow):
        return None
    return f"the last iteration after {fault!r}, with {how}: {slow_s / cut_s:.3f} times as with it down"


def test_slow_is_not_worse_than_cut(block: Block) -> None:
    block.check(drawn, judge)
