"""Items about static routes: dimension order, wild-first sequences, lost links."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.analysis.link_loads import Pattern
from railweave.framework.experiment.fault_targets import links_and_node
from railweave.framework.model import Fabric, all_pairs
from railweave.framework.papers.items.item import Claim, Claims
from railweave.framework.papers.items.pictures import marked
from railweave.framework.papers.items.workbench import Workbench
from railweave.framework.routing.dependencies import channel_cycle
from railweave.framework.routing.torus.lattice import letters
from railweave.framework.routing.torus.legs import dimension_order
from railweave.framework.routing.torus.wild_first import parse_sequence

OCS_OF_X = "down ocs:X:0,0"


PLAIN, TWISTED = "torus", "twisted-torus"


def torus(kind: str, shape: str) -> dict[str, object]:
    """The topology as a key of an experiment."""
    return {"name": kind, "shape": shape}


def t01(workbench: Workbench, *, shape: str = "4x4x4", router: str = "wfr", fault: str = OCS_OF_X) -> Claims:
    """Paths of every pair by the static tables, healthy and with an optical switch down."""
    figures = []
    for words, faults in (("healthy", []), ("one OCS down", [fault])):
        fabric, _, table = workbench.table(topology=torus(PLAIN, shape), router=router, faults=faults)
        batch = table.paths(*all_pairs(fabric.n_gpus))
        count = np.diff(batch.pair_start)
        figures += [
            Claim(f"{words}: most paths of a pair", 1, int(count.max())),
            Claim(f"{words}: pairs without a path", 0, int((count == 0).sum())),
            Claim(f"{words}: hops of all pairs", None, len(batch.links)),
        ]
    return Claims(tuple(figures))


def t02(
    workbench: Workbench,
    *,
    shape: str = "8x8x8",
    src: str = "1,0,0",
    dst: str = "5,0,0",
    long_shape: str = "4x4x8",
) -> Claims:
    """The order of axes, a tie by parity, the virtual channels and their dependencies."""
    fabric = workbench.fabric(PLAIN, shape=shape)
    pair = workbench.explained(fabric, (src, dst), router="dor")
    along = [hop.end.split()[-1].split(",")[0] for hop in pair.paths[0].hops]
    small, _, table = workbench.table(topology=torus(PLAIN, long_shape), router="dor")
    batch = table.paths(*all_pairs(small.n_gpus))
    assert batch.vc is not None
    order = dimension_order(small.groups[0].shape)
    return Claims(
        (
            Claim("x of (1,0,0) to (5,0,0) in 8x8x8, odd source: X-", "0 7 6 5", " ".join(along)),
            Claim("axes of 4x4x8, the longest first", "ZXY", letters(order)),
            Claim("virtual channels", 2, int(batch.vc.max()) + 1),
            Claim("free of cycles", True, channel_cycle(small, table) is None),
        )
    )


def t04(
    workbench: Workbench, *, shape: str = "4x4x8", fault: str = "down ocs:X:0,0", router: str = "wfr"
) -> Claims:
    """The links that an optical switch takes with it, and how the others carry an all-to-all."""
    report = workbench.loads("all-to-all", topology=torus(PLAIN, shape), router=router, faults=[fault])
    kind, _, name = fault.split()[1].partition(":")
    lost, _ = links_and_node(report.fabric, kind, name)
    cables = [report.fabric.link_name(int(link)) for link in lost[::2]]
    return Claims(
        (
            Claim("cables lost", 2, len(cables)),
            Claim("which", "g3.0.0->g0.0.0, g3.0.4->g0.0.4", ", ".join(cables)),
            Claim("pairs without a path", 0, len(report.unreachable)),
            Claim("throughput of an all-to-all", None, report.ratio),
        ),
        marked(report.fabric, lost.tolist(), f"{shape} after {fault}", dash="1 4"),
    )


SEQUENCES = (("yXY", "4x4", "X"), ("xYX", "4x4", "Y"), ("xyZYX", "4x4x4", "YZ"), ("yxZYX", "4x4x4", "YZ"))
"""A sequence, a torus, and the axes whose faults it avoids by the sandwich rule."""


ORDERED = {"yXY": True, "xYX": True, "xyZYX": True, "yxZYX": False}
"""What the order rule allows."""


def t05(workbench: Workbench, *, cases: Sequence[tuple[str, str, str]] = SEQUENCES) -> Claims:
    """The order rule, and the axes whose lost links each sequence avoids."""
    figures = []
    for text, shape, avoided in cases:
        ordered = parse_sequence(text).is_ordered
        figures.append(Claim(f"{text}: order rule", ORDERED.get(text), ordered))
        if not ordered:  # the router refuses it
            continue
        fabric = workbench.fabric(PLAIN, shape=shape)
        axes = [
            axis.upper()
            for axis in fabric.axis_names[: len(fabric.groups[0].shape)]
            if not any(_cut(workbench, fabric, text, link) for link in ring_along(fabric, axis))
        ]
        figures.append(Claim(f"{text}: axes with lost links avoided", ", ".join(avoided), ", ".join(axes)))
    return Claims(tuple(figures))


def ring_along(fabric: Fabric, axis: str) -> list[int]:
    """The links of the ring through the first GPU along an axis, upwards; other rings lie alike."""
    kind, number = fabric.kinds.index(f"{axis}+"), fabric.axis_names.index(axis)
    links = np.flatnonzero(fabric.link_kind == kind).tolist()
    others = [i for i in range(len(fabric.groups[0].shape)) if i != number]
    return [
        link for link in links if not any(fabric.coordinates(int(fabric.link_src[link]))[i] for i in others)
    ]


def _cut(workbench: Workbench, fabric: Fabric, sequence: str, link: int) -> bool:
    """Whether a pair has no path by the sequence with this cable down."""
    router = {"name": "wfr", "sequence": sequence}
    faults = [f"down link:{fabric.link_name(link)}"]
    return bool(len(workbench.loads("all-to-all", topology=fabric, router=router, faults=faults).unreachable))


def t08(workbench: Workbench, *, shape: str = "8x8x8", router: str = "wfr", fault: str = OCS_OF_X) -> Claims:
    """Nearest neighbours along every axis, both directions, with one optical switch down."""
    fabric = workbench.fabric(PLAIN, shape=shape)
    usable = np.flatnonzero(fabric.usable)
    src, dst = (end[usable].astype(np.int64) for end in (fabric.link_src, fabric.link_dst))
    pattern = Pattern("nearest neighbours", "units", src, dst, np.ones(len(src)))
    report = workbench.loads(pattern, topology=fabric, router=router, faults=[fault])
    return Claims(
        (
            Claim("throughput of nearest neighbours", 0.5, report.ratio),
            Claim("pairs without a path", 0, len(report.unreachable)),
        )
    )
