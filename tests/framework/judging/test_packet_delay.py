"""What packets would add to flows, against a grid of packets and links and against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import railweave as rw
from railweave.framework.judging.packet_delay import packet_delay_s
from railweave.framework.model import PacketFormat, PathBatch
from railweave.framework.model.findings import CriticalPath

PACKET = PacketFormat()
PACKET_BITS = 8 * PACKET.full_packet_bytes


def pipeline_s(rates_bps: list[float], packets: int) -> float:
    """Packet k begins on a link once it is there and packet k - 1 has left."""
    left = [0.0] * len(rates_bps)
    for _ in range(packets):
        there = 0.0
        for link, rate in enumerate(rates_bps):
            there = left[link] = max(there, left[link]) + PACKET_BITS / rate
    return left[-1]


@given(
    rates_gbps=st.lists(st.integers(1, 800), min_size=1, max_size=6),
    packets=st.integers(1, 20),
    steps=st.integers(0, 5),
)
def test_a_message_lands_later_by_a_packet_on_every_link_but_the_slowest(
    rates_gbps: list[int], packets: int, steps: int
) -> None:
    rates = [rate * 1e9 for rate in rates_gbps]
    path = PathBatch.single(np.array([0]), np.array([1]), np.arange(len(rates))[None])
    critical = CriticalPath(
        np.zeros(1), np.ones(1), path, np.empty(0), np.array([steps]), np.array([packets * PACKET.path_mtu])
    )
    later_s = pipeline_s(rates, packets) - packets * PACKET_BITS / min(rates)
    assert packet_delay_s(critical, np.array(rates), np.zeros(len(rates)), PACKET) == pytest.approx(
        steps * later_s, abs=1e-15
    )


def test_every_step_of_a_hierarchical_all_reduce_adds_a_packet() -> None:
    """2 (R - 1) steps in a domain and 2 (D - 1) on a rail, each over two equal links."""
    row = rw.run(
        engine="fluid", domains=4, rails=8, size="1M", domain_rate="1.6Tb/s", rail_rate="400Gb/s",
        iterations=1, faults=[], rate_scale=1,
    ).summary  # fmt: skip
    assert row.packet_delay_us == pytest.approx(1e6 * PACKET_BITS * (14 / 1.6e12 + 6 / 400e9))


def test_a_message_of_less_than_a_packet_adds_its_own_time() -> None:
    row = rw.run(
        engine="fluid", domains=4, rails=4, size=16000, domain_rate="1.6Tb/s", rail_rate="400Gb/s",
        iterations=1, faults=[], rate_scale=1,
    ).summary  # fmt: skip
    in_domain, on_rail = (8 * PACKET.wire_bytes(size) for size in (4000, 1000))
    assert row.packet_delay_us == pytest.approx(1e6 * 6 * (in_domain / 1.6e12 + on_rail / 400e9))


@pytest.mark.parametrize("engine", ["packet", {"name": "fluid", "packet_latency": "1ms"}])
def test_where_there_are_packets_or_token_buckets_nothing_is_added(engine: object) -> None:
    """A lab's token buckets, which `packet_latency` stands for, store nothing."""
    row = rw.run(engine=engine, size="16K", iterations=1, faults=[]).summary
    assert row.packet_delay_us is None
