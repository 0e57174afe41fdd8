"""Jobs that share no link do not see each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railweave.framework.model import Fabric
from railweave.framework.solver.simulation import BATCH
from tests.laws.blocks import Block, Case, Drawing
from tests.laws.experiments import (
    KINDS,
    QUIET,
    Document,
    Draw,
    chance,
    fabric_of,
    pick,
    place_of,
    routers_for,
    some_collective,
    some_faults,
    some_topology,
)
from tests.laws.runs import Outcome

SHARES = {"jobs_that_share_nothing": 16}
WITHIN = BATCH
"""Relative to a time: an end of a flow is noticed up to so much later, so at another one's that is close."""
ITERATIONS = 3
STEPS = 10
"""Of a job, roughly: what a latency counts for in the rate scale, by which its iterations take about 1 s."""


def some_ranks(draw: Draw, fabric: Fabric) -> tuple[str, str] | None:
    """Two selectors of GPUs that have nothing in common, halves along an axis or any; None for single
    GPUs."""
    axis = int(draw.integers(fabric.gpu_coordinates.shape[1]))
    place = fabric.gpu_coordinates[:, axis]
    values = np.unique(place)
    half = draw.permutation(values)[: max(1, len(values) // 2)]
    first = np.isin(place, half)
    if chance(draw, 0.2):
        first = draw.random(fabric.n_gpus) < 0.5
    if min(first.sum(), (~first).sum()) < 2:
        return None
    texts = [
        "gpu:" + ",".join(place_of(fabric, int(gpu)) for gpu in np.flatnonzero(chosen))
        for chosen in (first, ~first)
    ]
    return texts[0], texts[1]


def drawn(drawing: Drawing) -> Case | None:
    draw = drawing.draw
    topology = some_topology(draw, [kind for kind in KINDS if kind != "twisted-torus"])  # large
    fabric = fabric_of(topology)
    if not (routers := routers_for(fabric, drawing.router)):
        return None
    jobs: list[Document] = []
    if (halves := some_ranks(draw, fabric)) is None:
        return None
    for number, ranks in enumerate(halves):
        traffic = {**some_collective(draw, fabric), "ranks": ranks}
        jobs.append({"name": f"job{number}", **traffic, "iterations": ITERATIONS, "start": 0.3 * number})
    document = {"topology": topology, "router": pick(draw, routers), "alone": 0}
    size_bits = 8 * max(job["size"] for job in jobs)
    time_s = size_bits / fabric.capacity_bps.min() + STEPS * fabric.latency_s.max()
    document["rate_scale"] = float(f"{time_s:.2g}")
    if chance(draw, 0.7):
        document |= QUIET
    if chance(draw, 0.5):
        document["faults"] = some_faults(draw, fabric, ITERATIONS, by_time=True)
    return Case(document, ({"jobs": jobs}, {"jobs": jobs[:1]}, {"jobs": jobs[1:]}))


def links_used(outcome: Outcome) -> set[int]:
    return {int(link) for paths in outcome.paths for link in paths.links}


def judge(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    together, *alone = outcomes
    if any(outcome.findings is None for outcome in outcomes):
        return None
    if links_used(alone[0]) & links_used(alone[1]):
        return None
    router = together.plan.router
    whole = not router.damped or "deadlock-free" in router.promises(together.plan.fabric)
    if whole and together.rerouted:  # a table is replaced for all jobs or for none, and rests for both
        return None
    for number, one in enumerate(alone):
        pairs = zip(together.seconds(number), one.seconds(), strict=True)
        for i, (beside, by_itself) in enumerate(pairs):
            if abs(beside - by_itself) > WITHIN * by_itself:
                return f"iteration {i} of job {number} takes 1 + {beside / by_itself - 1:.3g} times as alone"
    return None


def test_jobs_that_share_nothing(block: Block) -> None:
    block.check(drawn, judge)
