"""Items of the offline optimiser, and all-to-all with an optical switch down."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from railweave.framework.drawing.plots import Axis, Curve, curves
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.papers.items.item import Claim, Claims
from railweave.framework.papers.items.pictures import marked
from railweave.framework.papers.items.tpuv4.routes import OCS_OF_X, PLAIN, TWISTED, torus
from railweave.framework.papers.items.workbench import Workbench
from railweave.framework.routing.torus.lattice import Lattice
from railweave.framework.routing.torus.legs import shortest_vectors

SHAPES = ((PLAIN, "4x4x4"), (PLAIN, "4x4x8"), (PLAIN, "4x8x8"), (PLAIN, "8x8x8"),
          (TWISTED, "4x4x8"), (TWISTED, "4x8x8"))  # fmt: skip


def t03(workbench: Workbench, *, shape: str = "4x4x8", faults: Sequence[str] = ()) -> Claims:
    """Destinations with tied displacements on a twisted torus, and what the optimiser makes of them."""
    fabric, _, _, resolved = workbench.routed(
        topology=torus(TWISTED, shape), router="dor", faults=list(faults)
    )
    start, _ = shortest_vectors(Lattice.of(fabric, HealthSnapshot.healthy(fabric), "dor"))
    load, bound = optimum(workbench, torus(TWISTED, shape), faults)
    wraps = [link for link in range(0, fabric.n_links, 2) if _is_twisted_wrap(fabric, link)]
    lost = {int(link) for fault in resolved for link in fault.links}
    shown = [link for link in wraps if link not in lost]
    return Claims(
        (
            Claim("destinations with tied displacements", None, int((np.diff(start) > 1).sum())),
            Claim("busiest link over the bound of the LP", None, load / bound),
            Claim("busiest link, one unit a pair", None, load, "units"),
        ),
        marked(fabric, shown, f"twisted torus {shape}, its twisted wraps", dash="2 3"),
    )


def _is_twisted_wrap(fabric: Fabric, link: int) -> bool:
    """Whether the cable changes more than one coordinate."""
    ends = (fabric.coordinates(int(end[link])) for end in (fabric.link_src, fabric.link_dst))
    return sum(int(a != b) for a, b in zip(*ends, strict=True)) > 1


def optimum(workbench: Workbench, topology: dict[str, object], faults: Sequence[str]) -> tuple[float, float]:
    """(busiest link, bound of the LP) of the offline optimiser, in units when every ordered pair sends one.

    Raises MachineError without a solver.
    """
    fabric = workbench.routed(topology=topology, router="dor").fabric
    names = fabric.node_name(0), fabric.node_name(1)
    pair = workbench.explained(fabric, names, router="ilp", faults=list(faults))
    load, bound = pair.facts["busiest_link"], pair.facts["lp_bound"]
    assert isinstance(load, float | int) and isinstance(bound, float | int)
    return float(load), float(bound)


def t06(workbench: Workbench, *, shape: str = "8x8x8", fault: str = OCS_OF_X) -> Claims:
    """Maximum concurrent flow: the bound of the linear program with and without a fault."""
    _, healthy = optimum(workbench, torus(PLAIN, shape), [])
    load, bound = optimum(workbench, torus(PLAIN, shape), [fault])
    return Claims(
        (
            Claim("throughput with one OCS down, bound of the LP, in %", 93.4, 100 * healthy / bound, "%"),
            Claim("the same against 15/16", 15 / 16, healthy / bound),
            Claim("single paths, throughput", None, healthy / load),
            Claim("busiest link when healthy", None, healthy, "units"),
        )
    )


def t07(
    workbench: Workbench,
    *,
    shapes: Sequence[tuple[str, str]] = SHAPES,
    routers: Sequence[str] = ("dor", "wfr", "ilp"),
    axes: str = "XYZ",
) -> Claims:
    """All-to-all with one optical switch down, relative to the same router on the healthy fabric."""
    figures: list[Claim] = []
    ratios: dict[str, list[float]] = {router: [] for router in routers}
    busiest: dict[tuple[str, str], float] = {}
    labels = [f"{'tw. ' * (kind == TWISTED)}{shape} {axis}" for (kind, shape), axis in product(shapes, axes)]
    for (kind, shape), axis in product(shapes, axes):
        name = f"{kind} {shape}, OCS {axis}:0,0"
        for router in routers:
            report = workbench.loads(
                "all-to-all", topology=torus(kind, shape), router=router, faults=[f"down ocs:{axis}:0,0"]
            )
            ratios[router].append(report.ratio)
            printed = 15 / 16 if (kind, shape, router) == (PLAIN, "8x8x8", "ilp") else None
            figures.append(Claim(f"{name}: {router}", printed, report.ratio))
    last = routers[-1]
    for kind, shape in shapes:
        report = workbench.loads("all-to-all", topology=torus(kind, shape), router=last)
        busiest[kind, shape] = float(report.load.max())
    for (kind, shape), load in busiest.items():
        if kind == TWISTED and (PLAIN, shape) in busiest:
            gain = busiest[PLAIN, shape] / load
            figures.append(Claim(f"healthy {shape}, twisted over plain: {last}", 1.0, gain, bound=">"))
    places = [*map(float, range(len(labels)))]
    drawn = [Curve(router, places, values) for router, values in ratios.items()]
    title = "all-to-all with one OCS down"
    return Claims(tuple(figures), curves(title, Axis("torus, lost OCS", labels), Axis("of healthy"), drawn))
