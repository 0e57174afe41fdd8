"""The rate scale that a capacity allows, by hand."""

from __future__ import annotations

import pytest

from railweave.framework.experiment.plan import load_plan
from railweave.framework.lab.switching.calibration import SHARE, Capacity, auto_scale, busiest_phase_hops
from railweave.framework.model import HealthSnapshot
from railweave.framework.registry import load_plugins


def test_the_scale_uses_a_share_of_the_capacity_rounded_down() -> None:
    assert pytest.approx(0.7) == SHARE
    assert auto_scale(Capacity(1e5, 1e5), 7e9) == pytest.approx(1.0e-5)
    assert auto_scale(Capacity(1e5, 1.278e5), 7e9) == pytest.approx(1.2e-5)
    assert auto_scale(Capacity(1e5, 1e5), 0.0) == 1e-5  # nothing is sent


def test_the_busiest_phase_counts_switches_over_the_time_of_its_busiest_link() -> None:
    """Send-recv, each GPU to the next of 4 in 2 domains of 2: two pairs inside a domain cross 3 switches
    (NIC, domain, NIC). The two between domains also change rails: 5 switches,
    and load a rail's link with all packets of a pair."""
    registers = load_plugins()
    keys = {
        "topology.domains": 2,
        "topology.rails": 2,
        "collective": "send-recv",
        "size": "64K",
        "router": "shortest",
        "fault": "none",
    }
    plan = load_plan(None, keys, registers)
    fabric = plan.fabric
    table = plan.router.routes(fabric, HealthSnapshot.healthy(fabric))
    packets = 16  # 64 KiB in packets of 4 KiB
    rail_s = packets * plan.packet.full_packet_bytes * 8 / 400e9
    assert busiest_phase_hops(plan, table) == pytest.approx(packets * (3 + 5 + 3 + 5) / rail_s)
