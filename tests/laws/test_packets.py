"""Packets of pairs that take turns in queues share links as flows do: with messages of a MiB and more,
windows that never hold a sender up and no marks, an iteration takes as long on the engine `packet` as on
`fluid`, and what a packet needs to be there whole at every switch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model import PacketFormat
from tests.laws.blocks import Block, Case, Drawing
from tests.laws.experiments import (
    KINDS,
    LARGEST,
    QUIET,
    fabric_of,
    pick,
    routers_for,
    some_collective,
    some_element,
    some_topology,
    way_of,
)
from tests.laws.runs import Outcome, plan_of

SHARES = {"packets_in_turn_are_as_fast_as_flows": 6}
WITHIN = 0.01
LEAST_PACKETS = 256
LEAST_BYTES, MOST_BYTES = LEAST_PACKETS * PacketFormat().path_mtu, 2 << 30
"""Of a message, and of all of an iteration, which is computed packet by packet."""
PACKETS = {"name": "packet", "queue": "fair", "window": "ideal", "marks": "off"}


def drawn(drawing: Drawing) -> Case | None:
    """An iteration on the healthy fabric and one with an element slow, without latencies, over one path for
    each pair: a flow is as fast on all of its paths as on the slowest, packets in turn wait for each other in
    more places (8 % of a reduce-scatter around a sprayed torus)."""
    draw = drawing.draw
    topology = some_topology(draw, [kind for kind in KINDS if kind not in ("twisted-torus", "file")])
    topology = {name: value for name, value in topology.items() if not name.endswith("latency")}
    fabric = fabric_of(topology)
    names = routers_for(fabric, drawing.router)
    if not names or fabric.n_gpus > LARGEST:
        return None
    document = {"topology": topology, "router": pick(draw, names), **some_collective(draw, fabric), **QUIET,
                "iterations": 2}  # fmt: skip
    element = some_element(draw, fabric)
    slow = f"at=iter:1 degrade {element} to={draw.uniform(0.2, 0.9):.1%}{way_of(draw, element)}"
    try:
        plan = plan_of(document)
    except ExperimentError:
        return None
    schedule = plan.jobs[0].schedule_of(0)
    several = any(len(paths.weight) > len(paths.src) for paths in plan.first_paths)
    if several or not schedule.is_transfer.any():
        return None
    times = -(-LEAST_BYTES // int(schedule.size[schedule.is_transfer].min()))
    if times * int((schedule.size * schedule.repeat).sum()) > MOST_BYTES:
        return None
    document |= {"size": times * int(str(document["size"])), "faults": [slow]}
    hops = max(int(np.diff(paths.hop_start).max()) for paths in plan.first_paths)
    return Case(document, ({}, {"engine": PACKETS}), {"hops": hops})


def judge(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    flows, packets = (outcome.declared_s() for outcome in outcomes)
    for i, (flow, packet) in enumerate(zip(flows, packets, strict=True)):
        if abs(packet / flow - 1) > WITHIN + (case.notes["hops"] - 1) / LEAST_PACKETS:
            return f"iteration {i} takes {flow} s as flows and {packet} s as packets"
    return None


def test_packets_in_turn_are_as_fast_as_flows(block: Block) -> None:
    block.check(drawn, judge)
