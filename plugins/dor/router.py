"""Dimension-order routing on tori."""

import numpy as np

from railweave.framework.hookspecs import Explanation, NodeName, Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.framework.routing.batches import whole_sources
from railweave.framework.routing.torus.lattice import REQUIRES, Lattice, letters
from railweave.framework.routing.torus.legs import (
    Displacements,
    batch_from,
    batch_of,
    dimension_legs,
    dimension_order,
    marked_before,
    signed_text,
)


class DimensionOrder(Router):
    """One static path per pair: axis by axis, the longest first, each in the shorter direction of its ring.

    Axes of equal length go in the order x, y, z. Two virtual channels with a dateline on every ring keep it
    free of deadlock. Scores do not matter; a pair whose path crosses a link that is down becomes unreachable
    (wfr avoids such links). Source: Zu et al., "Resiliency at Scale", NSDI'24.
    """

    summary = "dimension order on tori: longest axis first, shorter direction, ties by parity; two channels"
    requires = REQUIRES

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """Two channels with a dateline keep it free of deadlock; a broken path is not replaced."""
        return ("deadlock-free",)

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """A table that computes the paths of the pairs requested.

        Raises UnsupportedFabricError for other fabrics, HealthError for a snapshot of another fabric.
        """
        lattice = Lattice.of(fabric, health, "dor")
        displacements, order = Displacements(lattice), dimension_order(lattice.shape)
        dead = marked_before(lattice.rings, health.down) if health.down.any() else None

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            sources = whole_sources(fabric.n_gpus, src, dst) if dead is None and lattice.is_plain else None
            if sources is not None:
                return batch_from(lattice, displacements, order, src, dst, sources)
            legs = dimension_legs(lattice, displacements, order, src, dst)
            reachable = src != dst
            if dead is not None:
                reachable &= ~legs.crosses(dead)
            return batch_of(lattice.rings, src, dst, legs, None if reachable.all() else reachable)

        return RouteTable("dor", health.version, fabric.n_gpus, resolve)

    def explain(
        self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int, name: NodeName
    ) -> Explanation:
        """The order of the axes, the direction on each, what decided ties, and the links of the path by rule
        that are down. Raises RouteError for a GPU that is not there, otherwise as `routes` does."""
        fabric.check_gpus(src, dst)
        lattice = Lattice.of(fabric, health, "dor")
        displacements, order = Displacements(lattice), dimension_order(lattice.shape)
        a, b = np.array([src]), np.array([dst])
        by_rule = batch_of(lattice.rings, a, b, dimension_legs(lattice, displacements, order, a, b)).links
        blocked = [fabric.link_name(int(link)) for link in by_rule[health.down[by_rule]]]
        if src == dst:
            why = "same GPU"
        elif blocked:
            why = f"unreachable: the path by rule crosses {', '.join(blocked)}, which is down"
        else:
            why = f"{letters(order)}: the longest axis first, the shorter direction of each"
        return Explanation(
            why,
            {
                "order": letters(order),
                "displacement": signed_text(displacements.of(a, b)),
                "ties": displacements.ties(src, dst),
                "blocked": blocked,
            },
        )
