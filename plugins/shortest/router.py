"""Fewest hops on any fabric."""

import numpy as np

from railweave.framework.hookspecs import Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.plugins.shortest.search import Search


class Shortest(Router):
    """One path of fewest hops for every pair, around links that are down; scores do not matter.

    Among equal next hops each node takes the link of lowest id, so all traffic of a node to one destination
    leaves by one link.
    """

    summary = "fewest hops on any fabric, around what is down; ignores scores"

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """Every pair that the fabric still joins is reached. It knows no virtual channels."""
        return ("reroutes",)

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """A table that searches from the destinations of the pairs requested, from each once.

        Raises HealthError for a snapshot of another fabric.
        """
        health.check_fits(fabric)
        search = Search(fabric, health.down | ~fabric.usable)

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            hop_start, links = search.paths(src, dst)
            reachable = np.diff(hop_start) > 0
            return PathBatch.in_row(
                src, dst, hop_start, links, reachable=None if reachable.all() else reachable
            )

        return RouteTable("shortest", health.version, fabric.n_gpus, resolve)
