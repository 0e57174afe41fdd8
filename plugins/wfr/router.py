"""Wild-first routing: dimension order, and around dead links by a wild hop or two before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.hookspecs import Explanation, NodeName
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Parameter, Value
from railweave.plugins.dor.decision import signed
from railweave.plugins.dor.displacement import Displacements
from railweave.plugins.dor.lattice import SERVES, Lattice
from railweave.plugins.dor.paths import Ways, batch_of, marked_before
from railweave.plugins.dor.router import check_health, dimension_order
from railweave.plugins.wfr.decision import Decision, explained
from railweave.plugins.wfr.search import WildFirst
from railweave.plugins.wfr.sequences import Sequence, default_sequence, order_around, parse_sequence

AUTO = "auto"


class WildFirstRouting:
    """Pairs whose dimension-order path lives keep it; the others take the best wild-first path, if there is one.

    With nothing down its table is that of `dor`. With `sequence` auto, a fault on the last axis of the order puts
    another axis last, for all pairs, because one order must hold for all to stay free of deadlock. Wild hops have
    a virtual channel of their own. Source: Zu et al., "Resiliency at Scale", NSDI'24.
    """

    summary = "dimension order on tori, and wild-first paths around dead links and optical switches"
    parameters: tuple[Parameter, ...] = (
        Parameter(
            "sequence", AUTO, "text",
            "wild hops in lower case, then the dimension order, such as zyXYZ; auto fits it to the fault",
        ),
    )  # fmt: skip
    serves: tuple[str, ...] = SERVES
    damped: bool = False

    def __init__(self, sequence: Sequence | None = None) -> None:
        self._sequence = sequence

    def configured(self, options: Mapping[str, Value]) -> WildFirstRouting:
        """Raises ExperimentError for a sequence that cannot be read or that breaks the order rule."""
        text = str(options["sequence"])
        if text == AUTO:
            return WildFirstRouting()
        sequence = parse_sequence(text)
        if not sequence.is_ordered:
            right = replace(sequence, wild=tuple(a for a in reversed(sequence.order) if a in sequence.wild))
            raise ExperimentError(
                f"sequence {sequence}: wild hops must come in the reverse of the dimension order, or packets may wait "
                f"for each other in a circle. Use {right}."
            )
        return WildFirstRouting(sequence)

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """Free of deadlock; and one failure cuts off nobody the fabric joins, unless one axis is all there is."""
        return ("deadlock-free", "reroutes") if len(fabric.groups[0].shape) > 1 else ("deadlock-free",)

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """A table that computes the paths of the pairs it is asked about.

        Raises UnsupportedFabricError for other fabrics, HealthError for a snapshot of another fabric,
        ExperimentError for a sequence that does not name this fabric's axes.
        """
        search = self._search(fabric, health)
        rings, damaged = search.lattice.rings, bool(health.down.any())

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            ways = search.dimension_order(src, dst)
            reachable = src != dst
            if damaged:
                broken = np.flatnonzero(ways.crosses(search.dead_before))
                choice, around = search.best(src[broken], dst[broken])
                ways = _merged(ways, broken, around)
                reachable[broken[choice < 0]] = False
            return batch_of(rings, src, dst, ways, None if reachable.all() else reachable)

        return RouteTable("wfr", health.version, fabric.n_gpus, resolve)

    def decide(self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int) -> Decision:
        """What `routes` answers for one pair, with its reasons. Raises RouteError for a GPU that is not there."""
        return explained(fabric, health, self._search(fabric, health), self.routes(fabric, health), src, dst)

    def explain(
        self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int, name: NodeName
    ) -> Explanation:
        """The sequence, wild hops, ties, links in the way and the candidates compared. Raises as `decide` does."""
        found = self.decide(fabric, health, src, dst)
        tried = [f"{one.wild}: {one.hops} hops, {one.verdict}" for one in found.candidates]
        return Explanation(
            found.why,
            {"sequence": found.sequence, "displacement": signed(found.displacement), "wild_hops": found.wild,
             "ties": found.ties, "blocked": found.blocked, "candidates": tried},
        )  # fmt: skip

    def sequence_for(self, fabric: Fabric, health: HealthSnapshot) -> Sequence:
        """The sequence that `routes` uses under these faults."""
        return self._search(fabric, health).sequence

    def _search(self, fabric: Fabric, health: HealthSnapshot) -> WildFirst:
        lattice = Lattice.of(fabric, "wfr")
        check_health(fabric, health)
        axes = len(lattice.shape)
        sequence = self._sequence
        if sequence is None:
            down = [int(health.down[np.unique(lattice.steps[2 * a : 2 * a + 2])].sum()) for a in range(axes)]
            sequence = default_sequence(order_around(dimension_order(lattice.shape), down))
        elif set(sequence.order) != set(range(axes)):
            raise ExperimentError(
                f"sequence {sequence}: this {fabric.kind} has {axes} axes, and each must stand in upper case once."
            )
        dead = marked_before(lattice.rings, health.down)
        return WildFirst(lattice, Displacements(lattice), sequence, dead)


def _merged(ways: Ways, rows: Int64, around: Ways) -> Ways:
    """The dimension-order ways with some rows replaced; the others get wild legs of no hops."""
    n_wild = len(around.first) - len(ways.first)
    size = len(ways.first[0])
    first = [np.zeros(size, np.int64) for _ in range(n_wild)] + ways.first
    hops = [np.zeros(size, np.int64) for _ in range(n_wild)] + ways.hops
    for leg in range(len(first)):
        first[leg][rows], hops[leg][rows] = around.first[leg], around.hops[leg]
    return Ways(first, hops, around.channel)
