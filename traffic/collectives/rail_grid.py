"""Where ranks lie in the domains and rails of a rail fabric."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.model import Fabric
from railweave.traffic.collectives.operations import check_ranks

RAIL_FABRICS = ("rail-only", "rail-optimised")
"""Kinds of fabrics for which the closed forms over domains and rails hold."""
REQUIRES = ("domains", "rails")
"""Capabilities of a fabric whose ranks can form a grid."""
DOMAIN_PHASES = ("reduce-scatter domain", "all-gather domain")
RAIL_PHASES = ("reduce-scatter rail", "all-gather rail")
LEVELS = (("domain", "d"), ("rail", "r"))
"""Last word of a phase's name, and the kind of links that carry its transfers."""

Grid = NDArray[np.int64]
"""(domains, rails): the rank at each place."""


def grid_of(fabric: Fabric, ranks: Sequence[int], collective: str, alternative: str) -> Grid:
    """(domains, rails): the rank at each place. The ranks must be every GPU of some domains on some rails.

    Anything else is refused in the name of `collective`; `alternative` is the collective that runs on any
    ranks.
    """
    check_ranks(fabric, ranks)
    if not fabric.capabilities.issuperset(REQUIRES):
        raise UnsupportedFabricError(
            f"{collective} (hierarchical) needs a fabric with domains and rails, not {fabric.kind}. "
            f"Use `--collective {alternative}`."
        )
    coordinates = fabric.gpu_coordinates[np.asarray(ranks)]
    domains, row = np.unique(coordinates[:, 0], return_inverse=True)
    rails, column = np.unique(coordinates[:, 1], return_inverse=True)
    grid = np.full((len(domains), len(rails)), -1, np.int64)
    grid[row, column] = np.arange(len(ranks))
    if np.any(grid < 0):
        d, k = np.argwhere(grid < 0)[0]
        raise ExperimentError(
            f"the ranks use rail {rails[k]} and domain {domains[d]} but not the GPU where they meet; a "
            f"hierarchical {collective} needs the same rails in every domain. Add it, or use `{alternative}`."
        )
    return grid
