"""Dimension-order routing on tori."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from railweave.framework.errors import HealthError
from railweave.framework.hookspecs import Configurable, Explanation, NodeName
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Value
from railweave.framework.routing.batches import whole_sources
from railweave.plugins.dor.decision import Decision, explained, signed
from railweave.plugins.dor.displacement import Displacements
from railweave.plugins.dor.lattice import SERVES, Lattice
from railweave.plugins.dor.paths import batch_from, batch_of, dimension_ways, marked_before


class DimensionOrder(Configurable):
    """One static path per pair: axis by axis, the longest first, each the shorter way round its ring.

    Axes of equal length go in the order x, y, z. Two virtual channels with a dateline on every ring keep it free
    of deadlock. Scores do not matter; a pair whose path crosses a link that is down is cut off (wfr goes around).
    Source: Zu et al., "Resiliency at Scale", NSDI'24.
    """

    summary = "dimension order on tori: longest axis first, shorter way round, ties by parity; two channels"
    serves: tuple[str, ...] = SERVES
    damped: bool = False

    def configured(self, options: Mapping[str, Value]) -> DimensionOrder:
        return self

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """Two channels with a dateline keep it free of deadlock; a broken path is not replaced."""
        return ("deadlock-free",)

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """A table that computes the paths of the pairs it is asked about.

        Raises UnsupportedFabricError for other fabrics, HealthError for a snapshot of another fabric.
        """
        lattice = Lattice.of(fabric, "dor")
        check_health(fabric, health)
        displacements, order = Displacements(lattice), dimension_order(lattice.shape)
        dead = marked_before(lattice.rings, health.down) if health.down.any() else None

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            sources = whole_sources(fabric.n_gpus, src, dst) if dead is None and lattice.is_plain else None
            if sources is not None:
                return batch_from(lattice, displacements, order, src, dst, sources)
            ways = dimension_ways(lattice, displacements, order, src, dst)
            reachable = None if dead is None else ~ways.crosses(dead)
            if (src == dst).any():
                reachable = (src != dst) if reachable is None else reachable & (src != dst)
            return batch_of(lattice.rings, src, dst, ways, reachable)

        return RouteTable("dor", health.version, fabric.n_gpus, resolve)

    def decide(self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int) -> Decision:
        """What `routes` answers for one pair, with its reasons. Raises RouteError for a GPU that is not there."""
        lattice = Lattice.of(fabric, "dor")
        table = self.routes(fabric, health)
        return explained(fabric, health, lattice, dimension_order(lattice.shape), table, src, dst)

    def explain(
        self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int, name: NodeName
    ) -> Explanation:
        """The order of the axes, the way round each, and what decided ties. Raises as `decide` does."""
        found = self.decide(fabric, health, src, dst)
        return Explanation(
            found.why,
            {"order": found.order, "displacement": signed(found.displacement), "ties": found.ties,
             "blocked": found.blocked},
        )  # fmt: skip


def dimension_order(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes from the longest to the shortest; equal ones in the order x, y, z."""
    return tuple(int(axis) for axis in np.argsort([-length for length in shape], kind="stable"))


def check_health(fabric: Fabric, health: HealthSnapshot) -> None:
    """Raises HealthError for a snapshot of another fabric."""
    if len(health.down) != fabric.n_links:
        raise HealthError(
            f"health of {len(health.down)} links does not belong to this {fabric.kind} of {fabric.n_links}."
        )
