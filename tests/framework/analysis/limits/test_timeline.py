"""The time of schedules over token buckets: by hand, by closed forms, and packet by packet."""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from typing import Any

import pytest

from railweave.framework.analysis.limits.timeline import Timeline
from railweave.framework.experiment.plan import Plan, load_plan
from railweave.framework.model import HealthSnapshot, RouteTable
from railweave.framework.registry import Registers, load_plugins
from tests.fakes.transfers import transfer_of
from tests.strangers import every_path

FABRICS: dict[str, dict[str, Any]] = {
    "rail-only": {"topology.domains": 3, "topology.rails": 2},
    "sprayed": {"router": "spray"},
    "ring": {"topology": "ring", "topology.nodes": 6, "router": "optree"},
    "torus": {"topology": "torus", "topology.shape": "4x4", "router": "dor"},
    "merging": {"topology": "fat-tree", "topology.k": 4, "router": "every-path"},
}


@pytest.fixture(scope="module")
def registers() -> Registers:
    return Registers([*load_plugins().manager.list_name_plugin(), ("every-path (strange)", every_path)])


def planned(registers: Registers, fabric: str, **keys: Any) -> tuple[Plan, RouteTable, Timeline]:
    plan = load_plan(None, {"fault": "none", **FABRICS[fabric], **keys}, registers)
    table = plan.router.routes(plan.fabric, HealthSnapshot.healthy(plan.fabric))
    return plan, table, Timeline(plan.fabric, plan.schedule, table, plan.packet)


def by_packets(plan: Plan, table: RouteTable, latency_s: float) -> float:
    """The same, an event per packet and link. A link lets a packet go when it has paid for those before."""
    fabric, schedule, packet = plan.fabric, plan.schedule, plan.packet
    rates, free = fabric.capacity_bps, defaultdict(float)
    waits, left, end = {}, {}, 0.0
    followers, queues = defaultdict(list), defaultdict(list)
    order, events, turns = itertools.count(), [], defaultdict(int)
    for i in range(schedule.n_transfers):
        one = transfer_of(schedule, i)
        waits[i] = set(one.after)
        for before in one.after:
            followers[before].append(i)
        queues[one.src, one.dst].append(i)

    def send(now: float, pair: tuple[int, int]) -> None:
        while queues[pair] and not waits[queues[pair][0]]:
            i = queues[pair].pop(0)
            paths = table.path(*pair)
            packets = max(1, -(-int(schedule.size[i]) // packet.path_mtu))
            left[i], rest = packets, -(-int(schedule.size[i]) // 4) * 4
            for number in range(packets):
                payload = min(rest, packet.path_mtu)
                rest -= payload
                bits = 8 * (payload + packet.HEADERS + packet.RETH * (number == 0))
                links = paths[turns[pair] % len(paths)].links
                turns[pair] += 1
                heapq.heappush(events, (now, next(order), i, bits, links))

    for pair in list(queues):
        send(0.0, pair)
    while events:
        now, _, i, bits, links = heapq.heappop(events)
        if not links:
            end = max(end, now)
            left[i] -= 1
            if left[i] == 0:
                for follower in followers[i]:
                    waits[follower].discard(i)
                for follower in followers[i]:
                    send(now, (int(schedule.src[follower]), int(schedule.dst[follower])))
            continue
        leaves = max(now, free[links[0]])
        free[links[0]] = leaves + bits / rates[links[0]]
        lands = leaves + (latency_s if len(links) == 1 else 0.0)
        heapq.heappush(events, (lands, next(order), i, bits, links[1:]))
    return end


def test_a_step_takes_its_packets_less_one_and_the_latency(registers: Registers) -> None:
    """A ring of 6, one packet a step, 5 steps over the same link: it pays for 4 before the last one leaves. A
    latency of less than a packet is hidden but for that of the last one; a longer one counts in each step."""
    plan, _, timeline = planned(registers, "ring", collective="ring-all-gather", size=6 * 4096)
    packet_s = plan.packet.wire_bytes(4096) * 8 / float(plan.fabric.capacity_bps.min())
    assert timeline.seconds() == pytest.approx(4 * packet_s)
    assert timeline.seconds(0.5 * packet_s) == pytest.approx(4.5 * packet_s)
    assert timeline.seconds(3 * packet_s) == pytest.approx(15 * packet_s)
    assert timeline.latency_share(3 * packet_s) == pytest.approx(11 / 15)
    assert timeline.shortest_step_s() == pytest.approx(packet_s)


def test_a_chain_of_chunks_fills_like_a_pipeline(registers: Registers) -> None:
    """Broadcast around a ring of 6, 8 chunks of 4 packets: each of 5 hops holds the first chunk for 3 packet
    times, and the last hop then still carries 7 chunks. The links are busy for 8 chunks; 5 wait in turn."""
    plan, _, timeline = planned(registers, "ring", collective="broadcast", size=8 * 4 * 4096)
    message_s = plan.packet.wire_bytes(4 * 4096) * 8 / float(plan.fabric.capacity_bps.min())
    last_s = plan.packet.full_packet_bytes * 8 / float(plan.fabric.capacity_bps.min())
    assert timeline.seconds() == pytest.approx(5 * (message_s - last_s) + 7 * message_s)
    assert timeline.shortest_step_s() == pytest.approx(8 * message_s / 5)


@pytest.mark.parametrize("size", ["64K", "100004", "1M"])
@pytest.mark.parametrize(
    ("fabric", "collective"),
    [
        ("rail-only", "all-reduce"), ("rail-only", "all-gather"), ("rail-only", "all-to-all"),
        ("rail-only", "broadcast"), ("rail-only", "ring-all-reduce"), ("rail-only", "tree-all-reduce"),
        ("sprayed", "all-reduce"), ("sprayed", "all-gather"),
        ("torus", "multi-ring-all-reduce"), ("torus", "broadcast"), ("ring", "optree"),
        ("merging", "permutation"), ("merging", "ring-all-reduce"),
    ],
)  # fmt: skip
def test_it_is_what_the_packets_take(fabric: str, collective: str, size: str, registers: Registers) -> None:
    """Where messages meet at a link their packets may take turns, which only an event per packet shows."""
    plan, table, timeline = planned(registers, fabric, collective=collective, size=size)
    for latency_s in (0.0, timeline.shortest_step_s() / 10, timeline.shortest_step_s()):
        assert timeline.seconds(latency_s) == pytest.approx(by_packets(plan, table, latency_s), rel=0.05)


@pytest.mark.parametrize(
    ("fabric", "collective", "idle"),
    [
        ("rail-only", "all-reduce", 3), ("rail-only", "all-gather", 2), ("rail-only", "all-to-all", 2),
        ("torus", "multi-ring-all-reduce", 4), ("ring", "ring-all-reduce", 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", ["64K", "1M"])
def test_it_is_the_closed_form_less_a_packet_after_every_idle_time(
    fabric: str, collective: str, idle: int, size: str, registers: Registers
) -> None:
    plan, _, timeline = planned(registers, fabric, collective=collective, size=size)
    closed = plan.collective.closed_form_s(plan.fabric, plan.schedule, plan.packet)
    packet_s = 8 * (plan.packet.full_packet_bytes + 16) / float(plan.fabric.capacity_bps.min())
    assert closed is not None
    assert closed - idle * packet_s * 1.001 <= timeline.seconds() < closed


@pytest.mark.parametrize("size", ["1M", "8M"])
@pytest.mark.parametrize("collective", ["direct-all-to-all", "tree-all-reduce", "send-recv", "broadcast"])
def test_paths_that_join_again_pass_their_packets_in_turn(
    collective: str, size: str, registers: Registers
) -> None:
    """Where messages have many packets: with few, which of those that come at once goes first decides."""
    plan, table, timeline = planned(registers, "merging", collective=collective, size=size)
    assert timeline.seconds() == pytest.approx(by_packets(plan, table, 0.0), rel=0.05)


def test_nothing_to_send_takes_no_time(registers: Registers) -> None:
    _, _, timeline = planned(registers, "rail-only", size="0")
    assert timeline.seconds(1.0) == timeline.latency_share(1.0) == 0.0
    assert timeline.shortest_step_s() == float("inf")
