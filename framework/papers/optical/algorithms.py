"""The five all-gathers by name, and those between neighbours: ring, and neighbor-exchange.

Source of these two: Table I of arXiv 2211.15119.
"""

import numpy as np

from railweave.framework.papers.optical.closed_forms import arity_for, check_ring, neighbor_exchange_steps
from railweave.framework.papers.optical.lightpath_plan import LightpathPlan
from railweave.framework.papers.optical.optree import best_depth, optree_plan
from railweave.framework.papers.optical.wrht import wrht_plan


def ring_plan(nodes: int, wavelengths: int) -> LightpathPlan:
    """N - 1 steps up the ring on wavelength 0: each node forwards what it received in the step before."""
    check_ring(nodes, wavelengths)
    step, src = (x.ravel() for x in np.mgrid[: nodes - 1, :nodes])
    none = np.zeros(len(step), np.int64)
    table = np.stack((step, src, (src + 1) % nodes, (src - step) % nodes, none + 1, none, none))
    return LightpathPlan.of_table("ring", nodes, wavelengths, [("ring", nodes - 1)], table)


def neighbor_exchange_plan(nodes: int, wavelengths: int) -> LightpathPlan:
    """N / 2 steps on wavelength 0: neighbours swap, with the one on either side in turn.

    First they swap their own items, then each sends the two it received last (in the second step its own and
    the one it received). Raises FabricError for odd N.
    """
    check_ring(nodes, wavelengths)
    n_steps = neighbor_exchange_steps(nodes)
    node = np.arange(nodes)
    latest = node[:, None]
    parts = []
    for step in range(n_steps):
        # Even nodes swap upwards in even steps and downwards in odd ones; odd nodes the reverse.
        up = (node + step) % 2 == 0
        other = np.where(up, node + 1, node - 1) % nodes
        src, dst, upwards = (column.repeat(latest.shape[1]) for column in (node, other, up))
        none = np.zeros(len(src), np.int64)
        parts.append(np.stack((none + step, src, dst, latest.ravel(), upwards, none, none)))
        latest = np.concatenate((node[:, None], latest[other]), axis=1) if step == 0 else latest[other]
    table = np.concatenate(parts, axis=1)
    return LightpathPlan.of_table("neighbor-exchange", nodes, wavelengths, [("swap", n_steps)], table)


PLANS = {"neighbor-exchange": neighbor_exchange_plan, "ring": ring_plan, "wrht": wrht_plan}
"""Algorithms without a tree."""
ALGORITHMS = ("optree", "one-stage", *PLANS)
ONE_WAY = ("ring",)
"""Algorithms that use only one direction of the ring."""


def plan_of(algorithm: str, nodes: int, wavelengths: int, depth: int = 0) -> LightpathPlan:
    """The lightpaths of an algorithm; `depth` is OpTree's, 0 selects the one of fewest steps. Pure and
    repeatable.

    Raises FabricError for impossible numbers.
    """
    check_ring(nodes, wavelengths)
    if algorithm == "optree":
        return optree_plan(nodes, wavelengths, arity_for(nodes, depth or best_depth(nodes, wavelengths)))
    if algorithm == "one-stage":
        return optree_plan(nodes, wavelengths, nodes, algorithm=algorithm)
    return PLANS[algorithm](nodes, wavelengths)
