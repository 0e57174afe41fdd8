"""The five all-gathers by name."""

from railweave.framework.errors import FabricError
from railweave.framework.optical.baselines import neighbor_exchange_plan, ring_plan
from railweave.framework.optical.closed_forms import arity_for
from railweave.framework.optical.optree import best_depth, optree_plan
from railweave.framework.optical.plan import LightpathPlan
from railweave.framework.optical.wrht import wrht_plan

ALGORITHMS = ("optree", "one-stage", "neighbor-exchange", "ring", "wrht")
ONE_WAY = ("ring",)
"""Algorithms that use only one direction of the ring."""


def plan_of(algorithm: str, nodes: int, wavelengths: int, depth: int = 0) -> LightpathPlan:
    """The lightpaths of an algorithm; `depth` is OpTree's, 0 selects the one of fewest steps. Pure and
    repeatable.

    Raises FabricError for an unknown algorithm and for impossible numbers.
    """
    match algorithm:
        case "optree":
            return optree_plan(nodes, wavelengths, arity_for(nodes, depth or best_depth(nodes, wavelengths)))
        case "one-stage":
            return optree_plan(nodes, wavelengths, nodes, algorithm=algorithm)
        case "neighbor-exchange":
            return neighbor_exchange_plan(nodes, wavelengths)
        case "ring":
            return ring_plan(nodes, wavelengths)
        case "wrht":
            return wrht_plan(nodes, wavelengths)
        case _:
            raise FabricError(
                f"there is no optical all-gather {algorithm!r}; known are: {', '.join(ALGORITHMS)}."
            )
