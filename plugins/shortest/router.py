"""Fewest hops on any fabric."""

from railweave.framework.hookspecs import Router
from railweave.framework.model import Fabric, HealthSnapshot, RouteTable
from railweave.framework.routing.search import Search


class Shortest(Router):
    """One path of fewest hops for every pair, around links that are down; scores do not matter.

    Among equal next hops each node takes the link of lowest id, so all traffic of a node to one destination
    leaves by one link. Among GPUs alone, as on rings, it is the link to the next GPU in the cycle of numbers,
    and GPUs of odd number take the second of two, so that pairs which are as far apart both ways round are
    split.
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
        return RouteTable("shortest", health.version, fabric.n_gpus, search.paths)
