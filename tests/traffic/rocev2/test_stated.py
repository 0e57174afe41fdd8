"""What the transport states of its senders is what they do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import railweave as rw
from railweave.framework.model import HealthSnapshot
from railweave.framework.registry import load_plugins
from railweave.traffic.rocev2.timing import SLOWDOWN, Timing
from railweave.traffic.rocev2.tuning import TIMEOUTS, Tuning, acknowledge_every


@pytest.mark.parametrize("options", [{}, {"target_delay": 0.2, "min_window": 3, "max_window": 40}])
def test_senders_wait_and_send_as_stated(options: dict[str, Any]) -> None:
    """Pairs with one path and with several, of different rates and depths, and with a latency."""
    plan = rw.load(
        registers=load_plugins(), domains=4, rails=4, router="spray", engine="fluid",
        transport={"name": "rocev2", **options}, **{"topology.rail_latency": "2us"},
    )  # fmt: skip
    fabric, tuning = plan.fabric.scaled(1e-5), Tuning(**options)
    table = plan.router.routes(plan.fabric, HealthSnapshot.healthy(plan.fabric))
    batch = table.paths(np.array([0, 0, 5]), np.array([1, 9, 3]))
    senders = plan.transport.senders(fabric, batch, plan.packet)
    for i in range(3):
        paths = [list(path.links) for path in batch.paths(i)]
        rates = [float(fabric.capacity_bps[links].min()) for links in paths]
        depths = [
            rate * float((1 / fabric.capacity_bps[links]).sum())
            for rate, links in zip(rates, paths, strict=True)
        ]
        latencies = [float(fabric.latency_s[links].sum()) for links in paths]
        window = tuning.window(rates, depths, latencies, plan.packet.full_packet_bytes)
        assert senders.window_bits[i] == 8 * window * plan.packet.full_packet_bytes
        assert senders.ack_every[i] == acknowledge_every(window)
        timing = Timing()
        timing.sample(1e-6)  # before its first answer a pair waits a timeout
        timing.drain, timing.travel = senders.window_bits[i] / min(rates), 2 * max(latencies)
        assert senders.dead_after_s[i] == pytest.approx(max(tuning.dead_after, TIMEOUTS * timing.timeout))
        tries = []
        for timing.probes in range(6):
            tries.append((tries[-1] if tries else 0.0) + timing.wait)
        for silent_s in (0.0, 0.1, 0.5, 0.9, tries[2], tries[2] + 1e-6, 3.0):
            expected = next((one for one in tries if one >= silent_s), None)
            if expected is not None:
                assert senders.tries(np.full(3, silent_s))[0][i] == pytest.approx(expected)


def test_other_windows_are_waited_for_as_ours() -> None:
    """A window that the transport has by itself, stated as another's, changes nothing; of one ten times as
    large the timeout is that of its drain."""
    plan = rw.load(registers=load_plugins(), domains=4, rails=4, router="spray", engine="fluid")
    fabric = plan.fabric.scaled(1e-5)
    table = plan.router.routes(plan.fabric, HealthSnapshot.healthy(plan.fabric))
    batch = table.paths(np.array([0, 0, 5]), np.array([1, 9, 3]))
    own = plan.transport.senders(fabric, batch, plan.packet)
    same = plan.transport.senders(fabric, batch, plan.packet, own.window_bits)
    for name in ("window_bits", "ack_every", "first_s", "timeout_s", "most_s", "dead_after_s"):
        assert np.array_equal(getattr(own, name), getattr(same, name))
    large = plan.transport.senders(fabric, batch, plan.packet, 10 * own.window_bits)
    slowest = [
        min(float(fabric.capacity_bps[list(path.links)].min()) for path in batch.paths(i)) for i in range(3)
    ]
    timeout_s = SLOWDOWN * 10 * own.window_bits / np.array(slowest)
    assert large.timeout_s == pytest.approx(timeout_s)
    assert large.dead_after_s == pytest.approx(np.maximum(Tuning().dead_after, TIMEOUTS * timeout_s))
