"""Items about the ring and the schedules that are carried out on it."""

import numpy as np

from railweave.framework.model.arrays import spread
from railweave.framework.papers.items.item import Claim, Claims
from railweave.framework.papers.items.pictures import lightpaths
from railweave.framework.papers.items.workbench import Workbench
from railweave.framework.papers.optical.algorithms import plan_of
from railweave.framework.papers.optical.all_gather_costs import compare
from railweave.framework.papers.optical.closed_forms import (
    RATE_BPS,
    time_s,
)
from railweave.framework.papers.optical.lightpath_plan import LightpathPlan
from railweave.framework.papers.optical.optree import integer_steps, optree_plan


def o01(workbench: Workbench, *, nodes: int = 16, wavelengths: int = 64, rate: str = "40Gb/s") -> Claims:
    """The node of the source's ring in the fabric here."""
    fabric = workbench.fabric("ring", nodes=nodes, wavelengths=wavelengths, rate=rate)
    up = np.flatnonzero((fabric.link_src == 0) & (fabric.link_dst == 1))
    ways = {int(end) for end in fabric.link_dst[fabric.link_src == 0]}
    return Claims(
        (
            Claim("wavelengths per fibre", 64, len(np.unique(fabric.wavelength[up]))),
            Claim("rate of a wavelength", RATE_BPS, float(fabric.capacity_bps[up].min()), "bit/s"),
            Claim("directions", 2, len(ways)),
            Claim("fibre rings", 4, len(ways) * len(up) // wavelengths),
        )
    )


def o04(workbench: Workbench, *, nodes: int = 16, wavelengths: int = 2, arity: int = 4) -> Claims:
    """The lightpaths by stage and position: complete, and without a wavelength used twice on a link."""
    plan = optree_plan(nodes, wavelengths, arity)
    return Claims(
        (
            Claim("items that reach a node, of N - 1", nodes - 1, min(received(plan))),
            Claim("lightpaths that share wavelength, link and step", 0, shared(plan)),
            Claim("stages", len(integer_steps(nodes, wavelengths, arity)), len(plan.stage_names)),
        ),
        lightpaths(plan, 0, f"where node 0 sends, {arity}-ary tree of {nodes} nodes"),
    )


def received(plan: LightpathPlan) -> list[int]:
    """How many different items of others reach each node."""
    reached = np.zeros((plan.nodes, plan.nodes), bool)
    reached[plan.dst, plan.item] = True
    np.fill_diagonal(reached, False)
    return [int(count) for count in reached.sum(axis=1)]


def shared(plan: LightpathPlan) -> int:
    """Uses of a (step, direction, cable, wavelength) beyond the first, of all lightpaths."""
    paths = np.unique(plan.lightpath_keys(), return_index=True)[1]
    hops = plan.hops[paths]
    row = np.repeat(paths, hops)
    nth = spread(np.zeros_like(hops), hops)
    low = np.where(plan.up[row], plan.src[row] + nth, plan.src[row] - nth - 1) % plan.nodes
    places = np.stack((plan.step[row], plan.up[row], low, plan.wavelength[row]), axis=1)
    return len(places) - len(np.unique(places, axis=0))


COLLECTIVES = {
    "ring": "ring-all-gather", "neighbor-exchange": "neighbor-exchange", "wrht": "wrht",
    "one-stage": "one-stage", "optree": "optree",
}  # fmt: skip
"""The collective that runs each algorithm."""


def o07(workbench: Workbench, *, nodes: int = 16, wavelengths: int = 2, item_bytes: int = 1 << 20) -> Claims:
    """All five all-gathers as runs, and the steps and item-times of what is run."""
    figures = []
    best = min(
        (row for row in compare(nodes, wavelengths, item_bytes) if row.algorithm == "optree"),
        key=lambda row: row.schedule_steps,
    )
    for name, collective in COLLECTIVES.items():
        row = best if name == "optree" else next(
            cost for cost in compare(nodes, wavelengths, item_bytes) if cost.algorithm == name
        )  # fmt: skip
        result = workbench.run(
            topology={"name": "ring", "nodes": nodes, "wavelengths": wavelengths},
            router={"name": "optree", "algorithm": name}, collective=collective,
            size=nodes * item_bytes, iterations=1,
        )  # fmt: skip
        assert result.summary is not None
        formula = time_s(row.steps, row.steps, item_bytes, step_s=0.0)
        plan = plan_of(name, nodes, wavelengths)
        figures += [
            Claim(f"{name}: time of a run", 1e6 * formula, result.summary.declared_time_us, "us"),
            Claim(f"{name}: steps of the schedule", row.steps, plan.n_steps),
            Claim(f"{name}: item-times of the schedule", row.steps, plan.item_times),
        ]
    return Claims(tuple(figures))
