"""Collectives over the transport's own executor, in memory and with lossy links: it counts no element as
wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from railweave.framework.hookspecs import Collective
from railweave.framework.parameters import resolve
from railweave.framework.registry import Registers
from railweave.topologies.rail_only import RailOnly
from railweave.traffic import plugin
from railweave.traffic.rocev2.buffers import RankBuffers
from tests.traffic.memory_fabric import Harm, MemoryFabric, count_wrong

REGISTER = Registers([("traffic", plugin)])["collective"]
FILE = str(Path(__file__).with_name("algorithms") / "doubling_all_gather_4.xml")
NAMES = (
    "halving-doubling-all-reduce", "tree-all-reduce", "pipelined-all-reduce", "all-gather", "reduce-scatter",
    "ring-reduce-scatter", "all-to-all", "direct-all-to-all", "broadcast", "send-recv", "msccl",
    "permutation", "moe-all-to-all",
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wrong_and_a_lost_result_is(name: str, dtype: str) -> None:
    fabric = RailOnly().build({"domains": 2, "rails": 2})
    thing: Collective = REGISTER[name]
    options = {"file": FILE} if name == "msccl" else {"chunks": 3} if name.endswith("all-reduce") else {}
    known = {p.name for p in thing.parameters}
    given = {k: v for k, v in options.items() if k in known}
    algorithm = thing.configured(resolve(name, thing.parameters, given))
    schedule = algorithm.schedule(fabric, range(4), 5000, dtype, "sum").expand()
    buffers = RankBuffers(schedule)
    inputs = algorithm.inputs(schedule, 1)
    buffers.fill(inputs)
    assert count_wrong(algorithm, buffers, inputs) > 0
    MemoryFabric(4, harm=Harm(loss=0.03, late=0.05), seed=1).run(schedule, buffers)
    assert count_wrong(algorithm, buffers, inputs) == 0
