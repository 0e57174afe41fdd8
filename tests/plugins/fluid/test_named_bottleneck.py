"""The bottleneck that a computed run names: the element or link that the fault slows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from railweave.framework.model.names import element_name
from tests.laws.experiments import fabric_of, links_of
from tests.laws.runs import run

SLOWED, MOST_TARGETS, RIGHT = 1.1, 12, 0.95
SPINES = """fabric: 1
name: two-tier
axes: [leaf, gpu]
nodes:
  gpu: {prefix: g, shape: 3x3}
  leaf: {prefix: l, shape: 3}
  spine: {prefix: s, shape: 3}
links:
  - kind: host
    rate: 100Gb/s
    cables: |
      g0.* l0
      g1.* l1
      g2.* l2
  - kind: up
    rate: 100Gb/s
    cables: l* s*
"""


def runs_of(name: str, router: str, collective: str, **options: object) -> dict[str, Any]:
    return {"topology": {"name": name, **options}, "router": router, "collective": collective}


CASES = (
    runs_of("rail-only", "hscore", "all-reduce", domains=2, rails=3) | {"size": "3M"},
    runs_of("rail-only", "hscore", "pipelined-all-reduce", domains=3, rails=4),
    runs_of("rail-only", "spray", "all-to-all", domains=3, rails=3),
    runs_of("rail-only", "hscore", "ring-all-reduce", domains=3, rails=2) | {"size": 1_000_004},
    runs_of("rail-optimised", "ecmp", "all-reduce", domains=3, rails=4, spines=2),
    runs_of("fat-tree", "ecmp", "direct-all-to-all", k=4),
    runs_of("torus", "dor", "multi-ring-all-reduce", shape="3x3"),
    runs_of("ring", "shortest", "ring-all-reduce", nodes=6),
    runs_of("file", "ecmp", "direct-all-to-all", text=SPINES),
)


def test_what_slows_an_iteration_by_a_tenth_is_named() -> None:
    """Of elements and links at a quarter of their rate, in at least 95 % of the runs."""
    wrong, right = [], 0
    for number, document in enumerate(CASES):
        fabric, draw = fabric_of(document["topology"]), np.random.default_rng(number)
        targets = [element_name(fabric, node) for node in range(fabric.n_gpus, fabric.n_nodes)]
        links = [f"link:{fabric.link_name(link)}" for link in range(fabric.n_links)]
        for target in [*targets, *draw.permutation(links).tolist()][:MOST_TARGETS]:
            fault = f"at=iter:1 degrade {target} to=25%"
            keys = {"size": "1M", "iterations": 3, "feedback": False, "faults": [fault]}
            outcome = run(keys | document | {"faults": [fault]})
            first, _, last = outcome.seconds()
            if last < SLOWED * first:
                continue
            held = next(one for one in outcome.result.bottlenecks if one.iteration == 2)
            of_target = {fabric.link_name(int(link)) for link in links_of(fabric, target)}
            if not held.balanced and (held.element == target or (held.link in of_target)):
                right += 1
            else:
                wrong.append((number, target, held.name))
    assert right > 50 and right >= RIGHT * (right + len(wrong)), wrong


@pytest.mark.parametrize("rail", range(3))
def test_a_slow_rail_holds_nearly_all_of_an_all_reduce(rail: int) -> None:
    """By hand: in the reduce-scatter and all-gather of domains of 3 a rank sends 2 x 2/3 x 3 MiB at 450 GB/s,
    over its rail 2 x 1/2 x 1 MiB at a quarter of 50 GB/s: 9.5 and 85.1 us, so 90 %."""
    fault = f"at=iter:1 degrade rail:{rail} to=25%"
    outcome = run(CASES[0] | {"iterations": 4, "feedback": False, "faults": [fault]})
    held = next(one for one in outcome.result.bottlenecks if one.iteration == 1)
    assert held.element == f"rail:{rail}" and held.share == pytest.approx(0.9, abs=0.001)


def test_one_of_several_equal_paths_that_carries_all_is_named() -> None:
    """The router `shortest` takes the first of three spines for every pair, and leaves the others idle."""
    outcome = run(CASES[-1] | {"router": "shortest", "size": "1M", "iterations": 1})
    held = outcome.result.bottlenecks[0]
    assert (held.element, held.balanced, held.spared) == ("spine:0", False, 2)


def test_one_of_several_parallel_cables_that_carries_all_is_named() -> None:
    """Two leaves joined by three cables, and every GPU sends to all on the other: `shortest` takes the first
    cable both ways, a hash of 18 pairs uses all of them."""
    text = SPINES.replace("3x3", "2x3").replace("spine: {prefix: s, shape: 3}", "").replace("l* s*", "|")
    text = text.replace("shape: 3}", "shape: 2}").replace("      g2.* l2\n", "") + "      l0 l1\n" * 3
    document = runs_of("file", "shortest", "direct-all-to-all", text=text) | {"size": "1M", "iterations": 1}
    first, hashed = (run(document | {"router": name}).result.bottlenecks[0] for name in ("shortest", "ecmp"))
    assert first.link in ("l0->l1#0", "l1->l0#0") and (first.balanced, first.spared) == (False, 2)
    assert hashed.spared == 0


def test_an_idle_switch_that_serves_other_gpus_is_no_equal_way() -> None:
    """A ring leaves every domain from its last rail and enters the next at its first. The rails between idle:
    they join the same spines, and none of these GPUs."""
    document = runs_of("rail-optimised", "spray", "ring-all-gather", domains=3, rails=3, spines=2)
    held = run(document | {"size": "9M", "iterations": 1}).result.bottlenecks[0]
    assert (held.balanced, held.spared) == (True, 0)
