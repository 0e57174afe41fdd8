"""What routes are decided by, the predicted end of the demand, is what then happens."""

from __future__ import annotations

from collections.abc import Sequence

from railweave.framework.routing.demand import JobDemand
from railweave.framework.routing.forecast import Forecast
from tests.laws.blocks import Block, Case, Drawing
from tests.laws.experiments import (
    QUIET,
    fabric_of,
    routers_for,
    some_collective,
    some_element,
    some_router,
    some_topology,
    way_of,
)
from tests.laws.runs import Outcome

SHARES = {"prediction": 30}
WITHIN = 0.05
"""Of the time of an iteration, as the margin of a decision is (TIME_MARGIN)."""


def drawn(drawing: Drawing) -> Case | None:
    draw = drawing.draw
    topology = some_topology(draw)
    fabric = fabric_of(topology)
    if not (routers := routers_for(fabric, drawing.router)):
        return None
    element = some_element(draw, fabric)
    slow = f"degrade {element} to={draw.uniform(0.05, 0.9):.1%}{way_of(draw, element)}"
    document = {
        "topology": topology,
        "router": some_router(draw, routers),
        **some_collective(draw, fabric),
        "iterations": 2,
        "faults": [f"at=iter:1 {slow}"],
    }
    return Case(document, (QUIET,))


def judge(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    (outcome,) = outcomes
    plan = outcome.plan
    demand = JobDemand([job.on_gpus(job.compact[-1]) for job in plan.jobs], plan.packet)
    forecast = Forecast(plan.fabric, demand, list(plan.first_paths))
    for took_s, health in zip(outcome.declared_s(), (outcome.healthy, outcome.found.truth[-1]), strict=True):
        (predicted_s,) = forecast.seconds(list(plan.first_paths), [(1.0, health)])
        if abs(predicted_s - took_s) > WITHIN * took_s:
            return f"predicted {predicted_s:.4g} s, took {took_s:.4g} s ({predicted_s / took_s - 1:+.1%})"
    return None


def test_prediction(block: Block) -> None:
    block.check(drawn, judge)
