"""Packets of pairs that take turns in queues share links as flows do: with messages of a MiB and more,
windows that never hold a sender up and no marks, an iteration takes as long on the engine `packet` as on
`fluid`, and what a packet needs to be there whole at every switch. Of smaller ones `fluid` states what that
adds."""

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

SHARES = {"packets_in_turn_are_as_fast_as_flows": 6, "what_packets_add_is_stated": 6}
WITHIN = 0.01
STATED_WITHIN, OF_STATED, PACKETS_A_LINK = 0.02, 0.5, 2
"""Of the time, as an acknowledgement of a message of one packet takes 1.6 % of it, of what is stated, and
packets for which one may wait at a link for others that it would share it with as a flow."""
LEAST_PACKETS = 256
LEAST_BYTES, MOST_BYTES = LEAST_PACKETS * PacketFormat().path_mtu, 2 << 30
"""Of a message, and of all of an iteration, which is computed packet by packet."""
PACKETS = {"name": "packet", "queue": "fair", "window": "ideal", "marks": "off"}


def drawn(drawing: Drawing) -> Case | None:
    """An iteration on the healthy fabric and one with an element slow, without latencies, over one path for
    each pair: a flow is as fast on all of its paths as on the slowest, packets in turn wait for each other in
    more places (8 % of a reduce-scatter around a sprayed torus)."""
    return _of_messages(drawing, LEAST_BYTES)


def drawn_small(drawing: Drawing) -> Case | None:
    """The same of messages of 1 to 64 packets."""
    return _of_messages(drawing, PacketFormat().path_mtu << int(drawing.draw.integers(7)))


def _of_messages(drawing: Drawing, least_bytes: int) -> Case | None:
    """With messages of that many bytes at least."""
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
    times = -(-least_bytes // int(schedule.size[schedule.is_transfer].min()))
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


def judge_stated(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    """What is stated of an iteration, within half of it, 2 % of the time, and two packets for every link of
    the longest path. Senders whose timer ends before an acknowledgement comes send more. Of 300 draws of
    another seed six are outside: the order of many messages in queues decides (docs/fidelity.md), or which of
    several chains of flows that end together has most links."""
    flows, packets = outcomes
    rates = flows.plan.fabric.capacity_bps
    packet_s = 8 * flows.plan.packet.full_packet_bytes / float(rates[flows.plan.fabric.usable].min())
    for flow, row in zip(flows.result.rows, packets.result.rows, strict=True):
        if row.retransmitted or flow.iteration is None:
            continue
        assert flow.packet_delay_us is not None
        stated_us = flow.packet_delay_us * flows.found.rate_scale
        apart_us = row.declared_time_us - flow.declared_time_us - stated_us
        most_us = STATED_WITHIN * flow.declared_time_us + OF_STATED * stated_us
        if abs(apart_us) > most_us + PACKETS_A_LINK * case.notes["hops"] * packet_s * 1e6:
            return (
                f"iteration {flow.iteration} takes {flow.declared_time_us:.4g} us as flows and "
                f"{row.declared_time_us:.4g} us as packets, and {stated_us:.4g} us between them are stated"
            )
    return None


def test_what_packets_add_is_stated(block: Block) -> None:
    block.check(drawn_small, judge_stated)
