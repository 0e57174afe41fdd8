"""Fewest hops on any fabric."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from railweave.framework.errors import HealthError
from railweave.framework.hookspecs import Configurable
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Value
from railweave.plugins.shortest.search import Search

UNUSED = "unused"
"""Kind of links that exist but carry nothing: the way back on rings of one direction."""


class Shortest(Configurable):
    """One path of fewest hops for every pair, around links that are down; scores do not matter.

    Among equal next hops each node takes the link of lowest id, so all traffic of a node to one destination
    leaves by one link.
    """

    summary = "fewest hops on any fabric, around what is down; ignores scores"
    serves: tuple[str, ...] = ("*",)
    damped: bool = False

    def configured(self, options: Mapping[str, Value]) -> Shortest:
        return self

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """Whoever the fabric still joins is reached. It knows no virtual channels."""
        return ("reroutes",)

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """A table that searches from the destinations it is asked about, from each once.

        Raises HealthError for a snapshot of another fabric.
        """
        if len(health.down) != fabric.n_links:
            raise HealthError(
                f"health of {len(health.down)} links does not belong to this {fabric.kind} of {fabric.n_links}."
            )
        idle = np.array([kind == UNUSED for kind in fabric.kinds])[fabric.link_kind]
        search = Search(fabric, health.down | idle)

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            hop_start, links = search.paths(src, dst)
            reachable = np.diff(hop_start) > 0
            return PathBatch.in_row(
                src, dst, hop_start, links, reachable=None if reachable.all() else reachable
            )

        return RouteTable("shortest", health.version, fabric.n_gpus, resolve)
