"""Taking a cable away makes nothing faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean

import numpy as np
import pytest

from railweave.framework.model import Fabric
from tests.laws.blocks import Block, Case, Drawing
from tests.laws.experiments import (
    EXAMPLES,
    Document,
    fabric_of,
    pick,
    registers,
    routers_for,
    some_collective,
    some_topology,
)
from tests.laws.relabelling import HIERARCHICAL
from tests.laws.runs import Outcome

SHARES = {"cutting_a_cable_makes_nothing_faster": 22}
LEAST = 0.97
"""Time with the cable down over the time with it."""
SEEDS = 10
"""Of a router that hashes; its mean over so many counts."""
HASHED, LARGEST_HASHED = 0.2, 16
"""Share of the draws in which it is such a router, and on how many GPUs at most: they take ten runs each."""
BASE: Document = {"iterations": 3, "oracle": True, "health": {"interval": 1.0}}
"""The cable is seen to be down after a second; what else is measured does not matter."""
CUT = "at=iter:1 down link:"


@dataclass(frozen=True)
class KnownCase:
    """A document that breaks the law, and its ratio; a mean over routers `hashed` by SEEDS seeds."""

    document: Document
    ratio: float
    hashed: str = ""


FASTER = {
    "ecmp-on-links-of-different-rates": KnownCase(
        {
            "topology": {"name": "rail-optimised", "domains": 2, "rails": 2, "oversubscription": 4.0},
            "router": "ecmp",
            "collective": "ring-all-gather",
            "faults": [f"{CUT}g0.0->r0"],
        },
        0.714,
        hashed="ecmp",
    ),
    "shortest-takes-the-first-of-equal-paths": KnownCase(
        {
            "topology": {"name": "file", "text": (EXAMPLES / "dual-plane.yaml").read_text()},
            "router": "shortest",
            "collective": "direct-all-to-all",
            "size": 1 << 24,
            "faults": [f"{CUT}g0.0->l0.0"],
        },
        0.875,
    ),
    "hscore-takes-one-of-two-equal-paths": KnownCase(
        {
            "topology": {"name": "rail-only", "domains": 3, "rails": 3},
            "router": "hscore",
            "collective": "halving-doubling-all-reduce",
            "size": 147456,
            "faults": [f"{CUT}g1.2->d1"],
        },
        0.964,
    ),
    "spray-takes-one-of-two-equal-paths": KnownCase(
        {
            "topology": {"name": "file", "text": (EXAMPLES / "unequal-domains.yaml").read_text()},
            "router": "spray",
            "collective": "permutation",
            "size": 1 << 19,
            "faults": [f"{CUT}g2.0->d2"],
        },
        0.5,
    ),
    "optree-of-sixteen-pairs": KnownCase(
        {
            "topology": {"name": "ring", "nodes": 16, "wavelengths": 2},
            "router": "optree",
            "collective": "permutation",
            "size": 1 << 20,
            "faults": [f"{CUT}g1->g0#0"],
        },
        0.667,
    ),
    "optree-of-seven-that-halve-and-double": KnownCase(
        {
            "topology": {"name": "ring", "nodes": 7},
            "router": "optree",
            "collective": "halving-doubling-all-reduce",
            "size": 526260,
            "faults": [f"{CUT}g4->g3"],
        },
        0.914,
    ),
    "ecmp-of-eight-pairs": KnownCase(
        {
            "topology": {"name": "torus", "shape": "2x2x2", "link_rate": 4e11, "link_latency": 1.06e-07},
            "router": "ecmp",
            "collective": "ring-all-reduce",
            "size": 604668,
            "faults": [f"{CUT}g0.1.1->g1.1.1"],
        },
        0.903,
        hashed="ecmp",
    ),
}
"""Cases that break the law, and the ratio, for a known reason. Hashes count hops: from g1.1 to g0.0 there
are four over a domain and four over a spine, whose trunks have a quarter of the rate of a GPU's cable.
Without the cable from g0.0 to its leaf only the path over g0.1 and the domain is left. `shortest` puts all
pairs on the first plane; the other one is idle until a GPU loses its port. Between GPUs that differ in
domain and rail, dr and rd score the same; a pair takes one of them whatever else is sent, and a cut moves it
to the other one, where there may be more room. So may it one of the few pairs of a pattern that a hash has
put together, or that `optree` has given the same links, as if all pairs sent. The law therefore asks no
permutation, `optree` only where every pair sends, hashes only there and where all links are alike, `shortest`
not at all, and on rails asks what keeps to a rail or a domain, or uses all pairs alike."""
EVERY_PAIR = ("all-to-all", "direct-all-to-all")


def spreads(router: str, fabric: Fabric) -> bool:
    """Whether a router gives each pair equal shares of all its paths, or on rail-only fabrics is the
    default."""
    default = router == "hscore" and fabric.kind == "rail-only"
    return default or "equal-split" in registers()["router"][router].promises(fabric)


def hashes(router: str) -> bool:
    return any(parameter.name == "seed" for parameter in registers()["router"][router].parameters)


def drawn(drawing: Drawing) -> Case | None:
    draw, hashed = drawing.draw, drawing.draw.random() < HASHED
    topology = some_topology(draw)
    fabric = fabric_of(topology)
    names = routers_for(fabric, drawing.router)
    alike = fabric.capacity_bps.min() == fabric.capacity_bps.max() and fabric.n_gpus <= LARGEST_HASHED
    if hashed and not alike:
        return None
    if not (routers := [name for name in names if (hashes(name) if hashed else spreads(name, fabric))]):
        return None
    router, cable = pick(draw, routers), pick(draw, np.flatnonzero(fabric.usable))
    traffic = some_collective(draw, fabric)
    on_rails = not hashed and fabric.group("rail") is not None
    if traffic["collective"]["name"] == "permutation":
        return None
    by_all_pairs = hashed or router == "optree"
    if by_all_pairs or on_rails:
        fair = EVERY_PAIR if by_all_pairs else (*EVERY_PAIR, *HIERARCHICAL)
        if traffic["collective"]["name"] not in fair or "ranks" in traffic:
            return None
    document = {
        "topology": topology,
        "router": router,
        **traffic,
        **BASE,
        "faults": [f"{CUT}{fabric.link_name(int(cable))}"],
    }
    return Case(document, seeded(router if hashed else ""))


def seeded(router: str) -> list[Document]:
    """What is changed in each run of a case: the seed of a router that hashes, nothing where there is
    none."""
    return [{"router": {"name": router, "seed": seed}} for seed in range(SEEDS)] if router else [{}]


def ratio(outcomes: Sequence[Outcome]) -> float:
    """The mean time without the cable over that with it; infinite where a run fails."""
    if any(outcome.findings is None for outcome in outcomes):
        return inf
    whole_s, cut_s = (fmean(outcome.declared_s()[i] for outcome in outcomes) for i in (0, -1))
    return cut_s / whole_s if whole_s else 1.0  # nothing is sent


def judge(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    if (times := ratio(outcomes)) >= LEAST:
        return None
    return f"{case.document['faults'][0]!r} takes {times:.3f} times as long as before"


def test_cutting_a_cable_makes_nothing_faster(block: Block) -> None:
    block.check(drawn, judge)


@pytest.mark.parametrize("name", FASTER)
def test_the_known_cases_break_the_law_of_cutting(name: str) -> None:
    known = FASTER[name]
    case = Case({**BASE, **known.document}, seeded(known.hashed))
    assert ratio(case.outcomes()) == pytest.approx(known.ratio, abs=0.002)
