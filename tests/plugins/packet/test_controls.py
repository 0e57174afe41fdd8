"""Congestion controls, called as they are. Expected times: packets over the rate or window that a control
sets; of DCQCN what SIGCOMM 2015 says of incast: the port stays busy, queues shrink, rates end near C / N."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import railweave as rw
from railweave.framework.hookspecs import CongestionControl
from railweave.framework.hookspecs.congestion import NEVER, TRIMMED
from railweave.framework.registry import Registers, load_plugins
from railweave.plugins.packet.model import Model
from railweave.plugins.packet.settings import Settings, Waits
from railweave.plugins.packet.simulation import Simulation
from railweave.plugins.packet.windows import links_of
from tests.plugins.packet.cases import LONG, PACKET, Case, Message, between, packet_sizes, ps
from tests.plugins.packet.test_closed_forms import MTU, line, star

FIELDS = [("window", np.float64), ("rate", np.float64), ("wake", np.int64), ("count", np.int64)]


class Quarter(CongestionControl):
    """A quarter of the line."""

    summary = "a quarter of the line"
    state = np.dtype(FIELDS)

    def sender_record(self) -> NDArray[np.void]:
        return np.zeros(1, self.state)

    @staticmethod
    def start(s: Any, now: int, line_rate: float, base_rtt: int, hops: int, mtu: int) -> None:
        s["window"] = np.inf
        s["rate"] = line_rate / 4
        s["wake"] = NEVER


class OnePacket(Quarter):
    """A packet in flight, and a count of what is heard, lost and notified; every packet brings a CNP."""

    receiver = np.dtype([("count", np.int64)])

    def receiver_record(self) -> NDArray[np.void]:
        return np.zeros(1, self.receiver)

    @staticmethod
    def start(s: Any, now: int, line_rate: float, base_rtt: int, hops: int, mtu: int) -> None:
        s["window"] = 1.0
        s["rate"] = line_rate
        s["wake"] = NEVER

    @staticmethod
    def notified(s: Any, now: int) -> None:
        s["count"] += 1

    @staticmethod
    def received(r: Any, now: int, nbytes: int, marked: bool) -> bool:
        r["count"] += 1
        return True


class Ticks(Quarter):
    """Woken every microsecond."""

    @staticmethod
    def start(s: Any, now: int, line_rate: float, base_rtt: int, hops: int, mtu: int) -> None:
        s["window"] = np.inf
        s["rate"] = line_rate
        s["wake"] = now + 1_000_000

    @staticmethod
    def woke(s: Any, now: int) -> None:
        s["count"] += 1
        s["wake"] = now + 1_000_000


class CountsTrims(Quarter):
    """The line, and a count of packets that lost their payload."""

    @staticmethod
    def start(s: Any, now: int, line_rate: float, base_rtt: int, hops: int, mtu: int) -> None:
        s["window"] = np.inf
        s["rate"] = line_rate
        s["wake"] = NEVER

    @staticmethod
    def lost(s: Any, now: int, nbytes: int, why: int) -> None:
        if why == TRIMMED:
            s["count"] += 1


def controlled(control: CongestionControl, hops: int, packets: int) -> tuple[Simulation, int]:
    """A message of so many packets over a line; when it has arrived."""
    fabric, links = line(hops)
    case = Case(fabric, between(fabric, {(0, hops): [links]}), [Message(0, hops, packets * MTU)])
    _, messages = case.simulation()
    sim = Simulation(fabric, PACKET, [case.pairs()], [[messages]], case.settings, control=control)
    sim.use_paths(0, case.paths)
    sim.allow(0, np.ones(1), Waits(*(np.full(1, LONG) for _ in range(4))))
    sim.control(0, links_of(fabric, case.paths, PACKET))
    sim.begin(0, messages)
    while not sim.over(0):
        assert not sim.advance(NEVER - 1)
    return sim, int(sim.entries(0, 1)["end"][0])


def test_a_rate_paces_packets() -> None:
    """Each packet leaves the bytes of the one before over the rate after it."""
    fabric, links = line(2)
    sizes = packet_sizes(20 * MTU)
    rate = fabric.capacity_bps[links[0]] / 8 / 4
    left = sum(int(size / rate * 1e12) for size in sizes[:-1])
    _, end = controlled(Quarter(), 2, 20)
    assert end == left + 2 * ps(fabric, links[0], sizes[-1]) + 2_000_000


def test_a_window_of_a_packet_takes_a_round_trip_each_and_every_cnp_is_told() -> None:
    """The CNP goes first, and the acknowledgement behind it, over each link."""
    fabric, links = line(2)
    sizes = packet_sizes(10 * MTU)
    answers = [PACKET.HEADERS + 16, PACKET.acknowledgement_bytes]
    back = sum(ps(fabric, links[0], size) for size in answers) + ps(fabric, links[0], max(answers))
    there = [2 * ps(fabric, links[0], size) + 2_000_000 for size in sizes]
    sim, end = controlled(OnePacket(), 2, 10)
    assert end == sum(there) + 9 * (back + 2_000_000)
    sim.advance(end + 10_000_000)
    assert sim.controlled["count"][0] == sim.of_job(0)["notified"][0] == 10


def test_a_control_hears_of_every_trimmed_packet() -> None:
    """Four at line rate into a port with room for eight packets; each header is answered before its packet
    can be sent again, so all are known by the end."""
    fabric, paths = star(4)
    messages = [Message(g, 0, 50 * MTU) for g in range(1, 5)]
    settings = Settings(room=8 * 4170, trimming=True)
    case = Case(fabric, between(fabric, paths), messages, settings)
    _, listed = case.simulation()
    sim = Simulation(fabric, PACKET, [case.pairs()], [[listed]], settings, control=CountsTrims())
    sim.use_paths(0, case.paths)
    sim.allow(0, np.ones(4), Waits(*(np.full(4, LONG) for _ in range(4))))
    sim.control(0, links_of(fabric, case.paths, PACKET))
    sim.begin(0, listed)
    while not sim.over(0):
        assert not sim.advance(NEVER - 1)
    pair = sim.of_job(0)
    assert sim.controlled["count"].tolist() == pair["trimmed"].tolist() == pair["again"].tolist()
    assert pair["trimmed"].sum() > 100 and sim.s.link["drops"].sum() == 0


def test_a_control_is_woken_when_it_wants() -> None:
    sim, end = controlled(Ticks(), 1, 500)
    assert sim.controlled["count"][0] == end // 1_000_000 > 30


@pytest.fixture(scope="module")
def registers() -> Registers:
    return load_plugins()


def incast(registers: Registers, control: str, iterations: int) -> list[tuple[float, int, Model]]:
    """Iterations of 15 GPUs that send 8 MiB each to one: time relative to that of the bytes over the port,
    marked packets, and the model then."""
    keys = {"topology": "fat-tree", "k": 4, "router": "ecmp", "collective": "incast", "size": "8M"}
    plan = rw.load(registers=registers, engine="packet", control=control, **keys)
    model, rows = Model(plan, plan.healthy_table, 1e-6), []
    port_s = 15 * 8 * plan.packet.wire_bytes(8 << 20) / plan.fabric.capacity_bps.min()
    for _ in range(iterations):
        began_s = model.now_s
        model.sim.begin(0, model.messages(plan.schedule))
        while not model.sim.over(0):
            model.advance(np.inf)
        took = (model.now_s - began_s) * model.rate_scale / port_s
        rows.append((took, int(model.sim.of_job(0)["marked"].sum()), model))
    return rows


def test_dcqcn_keeps_the_port_busy_and_its_queue_short(registers: Registers) -> None:
    rows = incast(registers, "dcqcn", 4)
    model = rows[-1][2]
    assert rows[0][1] > 0.9 * 15 * 2048 * 0.3  # all begin at line rate, and the queue is long
    for took, _, _ in rows[1:]:  # rates are those of before; the slowest of 15 flows ends last
        assert 1 <= took < 1.4
    assert np.mean([marked for _, marked, _ in rows[1:]]) < 0.02 * 15 * 2048
    rate = model.sim.of_job(0)["rate"]
    share = model.plan.fabric.capacity_bps.min() / 8 / 15
    assert rate.max() < 2 * share and rate.min() > share / 2  # and they rise as the first ones end


def test_controls_are_equal_in_another_run(registers: Registers) -> None:
    first, second = (incast(registers, "dcqcn", 2)[-1] for _ in range(2))
    assert first[:2] == second[:2]
    assert np.array_equal(first[2].sim.controlled, second[2].sim.controlled)
