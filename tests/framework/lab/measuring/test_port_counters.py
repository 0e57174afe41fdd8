"""The arithmetic of port counters, against a queue that is simulated packet by packet."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from railweave.framework.lab.measuring.port_counters import AGE_MS, RX_BYTES, PortCounters, Round
from railweave.framework.lab.switching.controller_link import Train
from railweave.framework.model import Fabric, PacketFormat
from tests.framework.lab.scenes import rail_fabric

PACKET = PacketFormat(4096)
SIZE = PACKET.full_packet_bytes
DOMAIN_BPS, RAIL_BPS = 36e6, 4e6
ROUND_S = 0.05


@dataclass
class Simulated:
    """GPU 0's NIC switch: packets from its host wait for its rail link, which serves `rate_bps`; the other
    ports stand still. Counters count a packet as sent when it leaves the queue, as veth's do."""

    fabric: Fabric = field(default_factory=lambda: rail_fabric(2, 2, DOMAIN_BPS, RAIL_BPS))
    rate_bps: float = RAIL_BPS
    now: float = 0.0
    free_at: float = 0.0
    queue: int = 0
    received: int = 0
    sent: int = 0
    dropped: int = 0

    @property
    def link(self) -> int:
        nic = self.fabric.out_links(0)
        return int(nic[self.fabric.kinds.index("r") == self.fabric.link_kind[nic]][0])

    def arrive(self, packets: int, drop: int = 0) -> None:
        self.received += packets
        self.queue += packets - drop
        self.free_at = max(self.free_at, self.now)

    def run(self, seconds: float) -> None:
        self.now += seconds
        while self.queue and self.free_at <= self.now:
            self.queue -= 1
            self.sent += 1
            self.free_at += SIZE * 8 / self.rate_bps

    def rows(self, skew_ms: int = 0) -> NDArray[np.int64]:
        """What the switches answer. `skew_ms`: how much later than the others the host's port was read."""
        found = []
        for node in range(self.fabric.n_nodes):
            ports = [1, *self.fabric.link_port[self.fabric.out_links(node)]]
            found += [[node + 1, port, 0, 0, 0, int(self.now * 1000)] for port in dict.fromkeys(ports)]
        rows = np.array(found, np.int64)
        own = self.fabric.link_port[self.link]
        rows[(rows[:, 0] == 1) & (rows[:, 1] == 1), RX_BYTES] = self.received * SIZE
        rows[(rows[:, 0] == 1) & (rows[:, 1] == 1), AGE_MS] += skew_ms
        rows[(rows[:, 0] == 1) & (rows[:, 1] == own), 3] = self.sent * SIZE
        rows[(rows[:, 0] == 1) & (rows[:, 1] == own), 4] = self.sent
        far = int(self.fabric.link_dst[self.link])
        arrived = (rows[:, 0] == far + 1) & (rows[:, 1] == self.fabric.link_port[self.link ^ 1])
        rows[arrived, RX_BYTES] = self.sent * SIZE
        return rows


def rounds(sim: Simulated, counters: PortCounters, count: int) -> list[Round]:
    found = []
    for _ in range(count):
        sim.run(ROUND_S)
        found.append(counters.count(sim.rows(), sim.now))
    return found


def started(rate_bps: float = RAIL_BPS) -> tuple[Simulated, PortCounters]:
    """A fabric at rest that was sampled a few times."""
    sim = Simulated(rate_bps=rate_bps)
    counters = PortCounters(sim.fabric, PACKET)
    rounds(sim, counters, 4)
    return sim, counters


def rates(seen: list[Round], link: int) -> list[float]:
    return [float(c.service_bps[link]) for c in seen if np.isfinite(c.service_bps[link])]


@pytest.mark.parametrize("share", [1.0, 0.5, 0.2, 0.1])
def test_the_rate_of_a_backlogged_link_is_right_to_a_twentieth_of_the_line_rate(share: float) -> None:
    sim, counters = started(RAIL_BPS * share)
    sim.arrive(60)
    found = rates(rounds(sim, counters, 40), sim.link)
    assert found
    assert all(abs(rate / RAIL_BPS - share) <= 0.05 for rate in found)


def test_a_machine_that_is_late_for_a_while_makes_no_link_slow() -> None:
    sim, counters = started()
    sim.arrive(200)
    seen = rounds(sim, counters, 10)
    sim.rate_bps = RAIL_BPS / 4
    seen += rounds(sim, counters, 4)
    sim.rate_bps = RAIL_BPS
    found = rates(seen + rounds(sim, counters, 20), sim.link)
    assert len(found) > 3
    assert min(found) > 0.9 * RAIL_BPS


def test_the_queue_is_what_was_received_and_not_sent() -> None:
    sim, counters = started()
    sim.arrive(40)
    rounds(sim, counters, 1)
    for _ in range(6):
        waited = sim.queue * SIZE  # a round reports the queue of the previous one
        seen = rounds(sim, counters, 1)[0]
        assert seen.queue_bytes[sim.link] == waited
        assert seen.queue_bytes.sum() == seen.queue_bytes[sim.link]


def test_a_link_that_runs_dry_between_rounds_shows_no_rate() -> None:
    sim, counters = started()
    seen = []
    for _ in range(40):
        sim.arrive(3)  # half of what the link could send in a round
        seen += rounds(sim, counters, 1)
    assert rates(seen, sim.link) == []


def test_bursts_add_up_to_a_rate() -> None:
    rate = RAIL_BPS / 5
    sim, counters = started(rate)
    seen = []
    chance = np.random.default_rng(1)
    for _ in range(60):  # seven packets of 41 ms each, and a pause
        between = chance.uniform(0, ROUND_S)
        sim.run(between)
        sim.arrive(7)
        sim.run(ROUND_S - between)
        seen.append(counters.count(sim.rows(), sim.now))
        seen += rounds(sim, counters, 8)
    found = rates(seen, sim.link)
    assert found
    assert abs(np.mean(found) / rate - 1) <= 0.1


def test_dropped_bytes_are_forgotten_at_rest() -> None:
    sim, counters = started()
    sim.arrive(20, drop=10)
    seen = rounds(sim, counters, 8)
    assert sim.queue == 0
    assert seen[-1].queue_bytes.max() == 0


def test_what_is_dropped_all_the_time_is_no_backlog() -> None:
    sim, counters = started()
    seen = []
    for _ in range(200):
        sim.arrive(3, drop=int(_ % 10 == 0))  # 3 %
        seen += rounds(sim, counters, 1)
    assert rates(seen, sim.link) == []


def test_counters_read_apart_tell_nothing_of_what_waits() -> None:
    sim, counters = started()
    sim.arrive(40)
    sim.run(ROUND_S)
    counters.count(sim.rows(skew_ms=9), sim.now)
    assert rounds(sim, counters, 1)[0].queue_bytes.max() == 0


def test_a_train_of_ours_shows_the_rate_of_an_idle_link() -> None:
    sim, counters = started(RAIL_BPS / 4)
    counters.sent_train(Train.over(sim.fabric, sim.link, 40, SIZE), sim.now)
    sim.queue, sim.free_at = 40, sim.now  # put there by the controller: no port received it
    seen = rounds(sim, counters, 40)
    found = rates(seen, sim.link)
    assert found
    assert all(abs(rate / RAIL_BPS - 0.25) <= 0.05 for rate in found)
    assert seen[-1].queue_bytes.max() == 0
    sim.arrive(40)  # the train is over, so what traffic leaves in the switch counts again
    assert rounds(sim, counters, 3)[-1].queue_bytes[sim.link] > 0


def test_a_switch_that_comes_back_begins_anew() -> None:
    sim, counters = started()
    sim.arrive(40)
    rounds(sim, counters, 2)
    reborn = Simulated(now=0.01)
    seen = counters.count(reborn.rows(), sim.now)
    assert seen.sent_bytes.min() >= 0
    assert np.isnan(seen.service_bps).all()
    assert rates(rounds(reborn, counters, 4), sim.link) == []
