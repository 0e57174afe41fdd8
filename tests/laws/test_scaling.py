"""Faster links by a factor make everything faster by that factor; how it is computed changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import pytest
import yaml

from railweave.framework.parameters.units import parse_rate, parse_time
from tests.laws.blocks import Block, Case, Drawing
from tests.laws.experiments import (
    QUIET,
    Document,
    chance,
    fabric_of,
    pick,
    registers,
    routers_for,
    some_collective,
    some_faults,
    some_topology,
)
from tests.laws.runs import Outcome

SHARES = {
    "scaling_rates_and_latencies": 20,
    "symmetry_and_clock_change_nothing": 20,
    "compiled_code_changes_nothing": 6,
}
WITHIN = 1e-9
FACTORS = (0.1, 0.5, 2.0, 3.0, 16.0)
ITERATIONS = 4


def scaled(topology: Document, factor: float) -> Document:
    """The same fabric with rates times `factor` and latencies over it."""
    if "text" in topology:
        content = yaml.safe_load(topology["text"])
        for section in content["links"]:
            section["rate"] = f"{parse_rate(section['rate']) * factor:.17g}b/s"
            section["latency"] = f"{parse_time(section.get('latency', 0)) / factor:.17g}s"
        return {**topology, "text": yaml.safe_dump(content, sort_keys=False, width=1000)}
    changed: Document = dict(topology)
    for parameter in registers()["topology"][topology["name"]].parameters:
        value: Any = topology.get(parameter.name, parameter.default)
        if parameter.unit == "rate":
            changed[parameter.name] = parse_rate(value) * factor
        elif parameter.unit == "time":
            changed[parameter.name] = parse_time(value) / factor
    return changed


def experiment(drawing: Drawing) -> Document | None:
    draw = drawing.draw
    topology = some_topology(draw)
    fabric = fabric_of(topology)
    if not (routers := routers_for(fabric, drawing.router)):
        return None
    faults = some_faults(draw, fabric, ITERATIONS) if chance(draw, 0.6) else []
    traffic = some_collective(draw, fabric)
    if chance(draw, 0.4):
        traffic["size"] += 4 * int(draw.integers(1, 2000))
    return {
        "topology": topology,
        "router": pick(draw, routers),
        **traffic,
        "iterations": ITERATIONS,
        "faults": faults,
    }


def drawn_faster(drawing: Drawing) -> Case | None:
    if (document := experiment(drawing)) is None:
        return None
    if chance(drawing.draw, 0.5):
        document |= QUIET
    factor = pick(drawing.draw, FACTORS)
    changed = {"topology": scaled(document["topology"], factor)}
    return Case(document, ({}, changed), {"factor": factor})


def drawn_otherwise(drawing: Drawing) -> Case | None:
    """The same computed without symmetries, or by a clock that runs otherwise."""
    if (document := experiment(drawing)) is None:
        return None
    document |= QUIET
    if chance(drawing.draw, 0.5):
        return Case(document, ({}, {"engine": {"name": "fluid", "symmetry": False}}))
    # timeouts and offsets are times of the run's clock
    faults = [fault for fault in document["faults"] if "+" not in fault and "down" not in fault]
    document["faults"] = [fault for fault in faults if "rate=100" not in fault]
    return Case(document, ({}, {"rate_scale": float(f"{10 ** drawing.draw.uniform(-6, 0):.3g}")}))


def drawn_compiled(drawing: Drawing) -> Case | None:
    if (document := experiment(drawing)) is None:
        return None
    numba = ({**QUIET, "engine": {"name": "fluid", "numba": on}} for on in ("off", "on"))
    return Case(document, tuple(numba))


def judge(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    factor = case.notes.get("factor", 1.0)
    one, other = outcomes
    if one.findings is None or other.findings is None:
        return None if one.failed == other.failed else f"fails: {one.failed!r} and {other.failed!r}"
    for i, (a, b) in enumerate(zip(one.declared_s(), other.declared_s(), strict=True)):
        if abs(b * factor - a) > WITHIN * a:
            return f"iteration {i} takes 1 + {b * factor / a - 1:.3g} times what it should"
    return None


def test_scaling_rates_and_latencies(block: Block) -> None:
    block.check(drawn_faster, judge)


def test_symmetry_and_clock_change_nothing(block: Block) -> None:
    block.check(drawn_otherwise, judge)


@pytest.mark.skipif(find_spec("numba") is None, reason="needs the extra `fluid`")
def test_compiled_code_changes_nothing(block: Block) -> None:
    block.check(drawn_compiled, judge)
