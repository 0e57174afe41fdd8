"""What loss costs, against the transport itself in virtual time."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pytest

from railweave.framework.health.loss import speed_at_loss
from railweave.traffic.rocev2.buffers import Buffers
from tests.traffic.memory_fabric import Harm, MemoryFabric
from tests.traffic.rocev2.test_delivery import COLLECTIVE, all_reduce, table

RANKS, MTU = 4, 4096


def seconds(loss: float, seed: int, packets: int, rate_bps: float) -> float:
    """A ring of 4 with steps of so many packets."""
    schedule = all_reduce(RANKS, RANKS * packets * MTU)
    fabric = MemoryFabric(RANKS, mtu=MTU, harm=Harm(loss=loss), seed=seed)
    fabric.rate_bps = lambda src, dst, udp_src: rate_bps
    fabric.executor.use_entropies(table(RANKS, {}, rate_bps=rate_bps), 0.0)
    buffers = Buffers(schedule)
    buffers.fill(COLLECTIVE.inputs(schedule, 0))
    return fabric.run(schedule, buffers)


def test_without_loss_a_link_keeps_its_speed_and_with_nothing_but_loss_none() -> None:
    assert speed_at_loss(np.array([0.0, 1.0])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("loss", [0.01, 0.03, 0.1, 0.2])
def test_the_transport_keeps_about_the_speed_that_the_score_says(loss: float) -> None:
    """Steps of 16 packets at 4 Mb/s, as in a run with the defaults; 20 seeds."""
    measured = seconds(0.0, 0, 16, 4e6) / fmean(seconds(loss, seed, 16, 4e6) for seed in range(20))
    assert float(speed_at_loss(np.array(loss))) == pytest.approx(measured, abs=0.1)
