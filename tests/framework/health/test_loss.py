"""What loss costs, against the transport itself in virtual time."""

from __future__ import annotations

from random import Random
from statistics import fmean

import numpy as np
import pytest

from railweave.framework.health.loss import passes_at_loss, speed_at_loss
from railweave.traffic.rocev2.buffers import RankBuffers
from tests.traffic.memory_fabric import Harm, MemoryFabric
from tests.traffic.rocev2.test_delivery import COLLECTIVE, all_reduce, table

RANKS, MTU = 4, 4096


def seconds(loss: float, seed: int, packets: int, rate_bps: float, data_of: tuple[int, ...] = ()) -> float:
    """A ring of 4 with steps of so many packets. `data_of`: the ranks whose data is lost, and nothing else;
    all packets by default, acknowledgements too."""
    schedule = all_reduce(RANKS, RANKS * packets * MTU)
    draw = Random(seed)
    fabric = MemoryFabric(RANKS, mtu=MTU, harm=Harm(loss=0.0 if data_of else loss), seed=seed)
    if data_of:
        fabric.alive = lambda src, dst, *_: (
            not (src in data_of and dst == (src + 1) % RANKS and draw.random() < loss)
        )
    fabric.rate_bps = lambda src, dst, udp_src: rate_bps
    fabric.executor.use_entropies(table(RANKS, {}, rate_bps=rate_bps), 0.0)
    buffers = RankBuffers(schedule)
    buffers.fill(COLLECTIVE.inputs(schedule, 0))
    return fabric.run(schedule, buffers)


def test_without_loss_a_link_keeps_its_speed_and_with_nothing_but_loss_none() -> None:
    assert speed_at_loss(np.array([0.0, 1.0])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("loss", [0.01, 0.03, 0.1, 0.2])
def test_the_transport_keeps_about_the_speed_that_the_score_says(loss: float) -> None:
    """Steps of 16 packets at 4 Mb/s, as in a run with the defaults; 20 seeds."""
    measured = seconds(0.0, 0, 16, 4e6) / fmean(seconds(loss, seed, 16, 4e6) for seed in range(20))
    assert float(speed_at_loss(np.array(loss))) == pytest.approx(measured, abs=0.1)


@pytest.mark.parametrize("packets", [4, 16, 64])
@pytest.mark.parametrize("loss", [0.01, 0.03, 0.1])
def test_a_message_waits_for_what_is_lost_whatever_its_length(packets: int, loss: float) -> None:
    """All links of the ring lose data, so each of its steps waits once."""
    seeds = range(20 if packets < 64 else 8)
    healthy_s = seconds(0.0, 0, packets, 4e6)
    measured = fmean(seconds(loss, seed, packets, 4e6, (0, 1, 2, 3)) for seed in seeds) / healthy_s
    rate, wait_s = passes_at_loss(np.array([1.0]), np.array([loss]), 1.0)
    assert measured == pytest.approx(1 / rate[0] + wait_s[0] / packets, rel=0.2)


@pytest.mark.parametrize("loss", [0.03, 0.1, 0.2])
def test_one_link_that_loses_packets_holds_up_a_ring_by_little(loss: float) -> None:
    """A chain of 6 steps passes it twice. What is sent again may pass during a wait, so this is a bound."""
    healthy_s = seconds(0.0, 0, 16, 4e6)
    measured = fmean(seconds(loss, seed, 16, 4e6, (0,)) for seed in range(20)) / healthy_s
    rate, wait_s = passes_at_loss(np.array([1.0]), np.array([loss]), 1.0)
    chain = (4 * 16 + 2 * (16 / rate[0] + wait_s[0])) / (6 * 16)
    assert 0.9 * chain < measured < 1.05 * chain
