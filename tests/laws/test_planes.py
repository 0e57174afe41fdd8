"""A network cut into equal planes, with packets sprayed over all of them, is as fast as in one piece."""

from __future__ import annotations

from collections.abc import Sequence

from tests.laws.blocks import Block, Case, Drawing
from tests.laws.experiments import (
    QUIET,
    RATES_BPS,
    Document,
    chance,
    fabric_of,
    pick,
    some_collective,
    some_slowness,
)
from tests.laws.runs import Outcome

SHARES = {"planes_are_as_fast_as_one": 12}
WITHIN = 1e-9
ROUTER = "spray"
"""The only router that promises to use every plane, in equal shares before anything is known."""
SIZES = ({"t0": 2, "t1": 2}, {"t0": 4, "t1": 3}, {"t0": 4, "t1": 2, "dual_tor": True})
THREE_TIERS = {"tiers": 3, "pods": 2, "t0": 2, "t1": 2, "t2": 4}
PLANES = (2, 3, 4, 8)
ITERATIONS = 3


def topology(drawing: Drawing) -> Document:
    """A Clos of one plane with at most eight paths a pair: eight planes have 64, which spray takes."""
    draw = drawing.draw
    sizes = THREE_TIERS if chance(draw, 0.25) else pick(draw, SIZES)
    servers = {"servers": 4, "gpus": 2, "rail_optimised": chance(draw, 0.3)}
    rates = {"oversubscription": pick(draw, (0.5, 1.0, 1.0, 3.0)), "gpu_rate": pick(draw, RATES_BPS)}
    return {"name": "clos", **sizes, **servers, **rates}


def drawn(drawing: Drawing) -> Case | None:
    """In one plane and in several; a fault of a cable is one of its copy in every plane."""
    draw = drawing.draw
    if drawing.router not in (None, ROUTER):
        return None
    one = topology(drawing)
    fabric, planes = fabric_of(one), pick(draw, PLANES)
    several = {**one, "planes": planes}
    faults: list[str] = []
    for _ in range(int(draw.integers(3))):
        link = int(draw.integers(fabric.n_links))
        a, b = (in_planes(fabric.node_name(int(end[link])), planes)
                for end in (fabric.link_src, fabric.link_dst))  # fmt: skip
        slow = some_slowness(draw, "link:HERE")
        at = f"at=iter:{draw.integers(1, ITERATIONS)}"
        faults += [f"{at} {slow.replace('HERE', f'{x}->{y}')}" for x, y in zip(a, b, strict=True)]
    document = {"topology": one, "router": ROUTER, **some_collective(draw, fabric), **QUIET,
                "iterations": ITERATIONS}  # fmt: skip
    variants = ({"faults": faults[::planes]}, {"topology": several, "faults": faults})
    return Case(document, variants, {"planes": planes})


def in_planes(name: str, planes: int) -> list[str]:
    """A switch of plane 0 in each plane; a GPU is in all of them."""
    return [name if name[0] == "g" else name[0] + str(plane) + name[2:] for plane in range(planes)]


def judge(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    """Where packets are lost, not slower by more than planes are: a packet takes as many times longer in one,
    and so does the wait for a lost one."""
    one, several = outcomes
    most = case.notes["planes"] if " loss " in "".join(case.variants[0]["faults"]) else 1
    if one.findings is None or several.findings is None:
        both = one.findings is None and several.findings is None  # how long they wait is another matter
        return None if both else f"fails: {one.failed!r} and {several.failed!r}"
    for i, (a, b) in enumerate(zip(one.declared_s(), several.declared_s(), strict=True)):
        if not a * (1 - WITHIN) <= b <= most * a * (1 + WITHIN):
            return f"iteration {i} takes {a} s in one plane and {b} s in {case.notes['planes']}"
    return None


def test_planes_are_as_fast_as_one(block: Block) -> None:
    block.check(drawn, judge)
