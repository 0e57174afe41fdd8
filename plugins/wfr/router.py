"""Wild-first routing: dimension order, and around dead links by a wild hop or two before it."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.hookspecs import Explanation, NodeName, Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Parameter, Value
from railweave.framework.routing.torus.lattice import REQUIRES, Lattice
from railweave.framework.routing.torus.legs import (
    Displacements,
    Legs,
    batch_of,
    dimension_order,
    marked_before,
    signed_text,
)
from railweave.framework.routing.torus.placement import CanonicalFault
from railweave.framework.routing.torus.wild_first import (
    Sequence,
    WildFirst,
    choices,
    default_sequence,
    order_around,
    parse_sequence,
    wild_text,
)
from railweave.plugins.wfr.balance import Detours, detours

AUTO = "auto"


class WildFirstRouting(Router):
    """Pairs whose dimension-order path lives keep it; the others take one of the shortest wild-first paths,
    chosen so that the busiest links of an all-to-all carry little.

    With nothing down its table is that of `dor`. With `sequence` auto, a fault on the last axis of the order
    puts another axis last, and of the orders of the others the one that loads links least is used, for all
    pairs, because one order must hold for all to stay free of deadlock. Links count as equally fast. Wild
    hops have a virtual channel of their own. Source: Zu et al., "Resiliency at Scale", NSDI'24.
    """

    summary = "dimension order on tori, and wild-first paths around dead links and optical switches"
    parameters: tuple[Parameter, ...] = (
        Parameter(
            "sequence",
            AUTO,
            "text",
            "wild hops in lower case, then the dimension order, such as zyXYZ; auto fits it to the fault",
        ),
    )
    requires = REQUIRES

    def __init__(self, sequence: Sequence | None = None) -> None:
        self._sequence = sequence
        self._solved: dict[tuple[object, ...], Detours] = {}

    def configured(self, options: Mapping[str, Value]) -> "WildFirstRouting":
        """Raises ExperimentError for a sequence that cannot be read or that breaks the order rule."""
        text = str(options["sequence"])
        sequence = None if text == AUTO else parse_sequence(text)
        if sequence and not sequence.is_ordered:
            right = replace(sequence, wild=tuple(a for a in reversed(sequence.order) if a in sequence.wild))
            raise ExperimentError(
                f"sequence {sequence}: wild hops must come in the reverse of the dimension order, or "
                f"packets may "
                f"wait for each other in a cycle. Use {right}."
            )
        return WildFirstRouting(sequence)

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """Free of deadlock; with several axes, one failure makes no pair unreachable that the fabric still
        joins."""
        return ("deadlock-free", "reroutes") if len(fabric.groups[0].shape) > 1 else ("deadlock-free",)

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """A table that computes the paths of the pairs requested.

        Raises UnsupportedFabricError for other fabrics, HealthError for a snapshot of another fabric,
        ExperimentError for a sequence that does not name this fabric's axes.
        """
        search, around = self._search(fabric, health)
        signs = np.array(choices(search.sequence), np.int64)

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            legs = search.dimension_order(src, dst)
            reachable = src != dst
            if around:
                broken = np.flatnonzero(legs.crosses(search.dead_before))
                choice = around.of(src[broken], dst[broken])
                legs = _merged(legs, broken, search.candidate(signs[choice], src[broken], dst[broken]))
                reachable[broken[choice < 0]] = False
            return batch_of(search.lattice.rings, src, dst, legs, None if reachable.all() else reachable)

        return RouteTable("wfr", health.version, fabric.n_gpus, resolve)

    def explain(
        self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int, name: NodeName
    ) -> Explanation:
        """The sequence, wild hops, ties, blocked links and the candidates compared; none where the
        dimension-order path lives. Raises RouteError for a GPU that is not there, otherwise as `routes`
        does."""
        fabric.check_gpus(src, dst)
        search, around = self._search(fabric, health)
        a, b, sequence = np.array([src]), np.array([dst]), search.sequence

        def dead(legs: Legs) -> list[str]:
            links = batch_of(search.lattice.rings, a, b, legs).links
            return [fabric.link_name(int(link)) for link in links[health.down[links]]]

        def verdict(signs: tuple[int, ...], legs: Legs) -> str:
            live, simple = search.fits(signs, legs)
            if not live[0]:
                return f"crosses {', '.join(dead(legs))}, which is down"
            return "live" if simple[0] else "comes back to a node it has left"

        blocked = dead(search.dimension_order(a, b))
        wild, candidates = "none", list[str]()
        why = "same GPU" if src == dst else f"the dimension-order path of {sequence} lives"
        if blocked and around:
            for signs in choices(sequence):
                legs = search.candidate(signs, a, b)
                candidates.append(
                    f"{wild_text(sequence, signs)}: {legs.length()[0]} hops, {verdict(signs, legs)}"
                )
            choice, down = int(around.of(a, b)[0]), ", ".join(blocked)
            if choice < 0:
                why = f"unreachable: {down} down, and no path by {sequence} avoids it"
            else:
                wild = wild_text(sequence, choices(sequence)[choice])
                live = sum(text.endswith(", live") for text in candidates)
                why = (
                    f"{down} down: of {live} live paths by {sequence} one with the fewest hops, whose "
                    "busiest links carry least, given the choices of all other pairs"
                )
        return Explanation(
            why,
            {
                "sequence": str(sequence),
                "displacement": signed_text(search.displacements.of(a, b)),
                "wild_hops": wild,
                "ties": search.displacements.ties(src, dst),
                "blocked": blocked,
                "candidates": candidates,
                **({"busiest_link": around.busiest} if around else {}),
            },
        )

    def _search(self, fabric: Fabric, health: HealthSnapshot) -> tuple[WildFirst, Detours | None]:
        """The paths, and the detours of the broken ones, where any link in use is down."""
        lattice = Lattice.of(fabric, health, "wfr")
        displacements, dead = Displacements(lattice), marked_before(lattice.rings, health.down)
        sequences = self._sequences(fabric, lattice, health)
        if not dead[-1]:
            return WildFirst(lattice, displacements, sequences[0], dead), None
        place = CanonicalFault.among(lattice, health.down, displacements.neutral)
        key = (lattice.shape, lattice.twist.tobytes(), lattice.steps.tobytes(), place.fault.tobytes())
        if key not in self._solved:
            solved = (detours(displacements, sequence, place) for sequence in sequences)
            self._solved[key] = min(solved, key=lambda one: (one.unreachable, one.busiest))
        around = replace(self._solved[key], place=place)
        return WildFirst(lattice, displacements, around.sequence, dead), around

    def _sequences(self, fabric: Fabric, lattice: Lattice, health: HealthSnapshot) -> list[Sequence]:
        """Those to compare: the one given, or with every order of the axes but the last."""
        if self._sequence is None:
            *first, last = order_around(dimension_order(lattice.shape), lattice.links_down(health.down))
            return [default_sequence((*order, last)) for order in permutations(first)]
        if set(self._sequence.order) != set(range(len(lattice.shape))):
            raise ExperimentError(
                f"sequence {self._sequence}: this {fabric.kind} has {len(lattice.shape)} axes, and each must "
                "stand in upper case once."
            )
        return [self._sequence]


def _merged(legs: Legs, rows: Int64, around: Legs) -> Legs:
    """The dimension-order legs with some rows replaced; the others get wild legs of no hops."""
    wild = [np.zeros(len(legs.first[0]), np.int64)] * (len(around.first) - len(legs.first))
    first, hops = np.stack(wild + legs.first), np.stack(wild + legs.hops)
    first[:, rows], hops[:, rows] = around.first, around.hops
    return Legs(list(first), list(hops), around.channel)
