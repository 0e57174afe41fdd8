"""The rate scale that a capacity allows, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.analysis.limits.timeline import Timeline
from railweave.framework.experiment.plan import load_plan
from railweave.framework.lab.switching.calibration import (
    LATE,
    LATENCY,
    LONGEST_S,
    PACKETS,
    SHARE,
    TRIES,
    Capacity,
    auto_scale,
    busiest_phase_hops,
    late_share,
    packet_latency_s,
    slowed,
    slower_scale,
)
from railweave.framework.model import HealthSnapshot, Schedule
from railweave.framework.registry import load_plugins


def test_the_scale_uses_a_share_of_the_capacity_rounded_down() -> None:
    assert pytest.approx(0.6) == SHARE
    assert auto_scale(Capacity(1e5, 1e5), 6e9) == pytest.approx(1.0e-5)
    assert auto_scale(Capacity(1e5, 1.278e5), 6e9) == pytest.approx(1.2e-5)
    assert auto_scale(Capacity(1e5, 1e5), 0.0) == 1e-5  # nothing is sent


@pytest.mark.parametrize(("slower", "scale"), [(1, 9.1e-6), (2, 4.5e-6), (1.5, 6.0e-6)])
def test_a_slower_lab_divides_what_the_machine_carries(slower: float, scale: float) -> None:
    plan = load_plan(None, {"engine.slower": slower, "fault": "none"}, load_plugins())
    assert slowed(9.1e-6, plan) == pytest.approx(scale)


def test_a_further_core_counts_half() -> None:
    assert Capacity.of_cores(1e5, 1) == Capacity(1e5, 1e5)
    assert Capacity.of_cores(1e5, 3) == Capacity(1e5, 2e5)


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


def test_a_packets_latency_is_a_small_part_of_the_shortest_step() -> None:
    """64 KiB over 4 x 4: a step in a domain is 16 KiB at 3.6 Tb/s, the shortest; 5 ms are 4 % of it."""
    plan = load_plan(None, {"size": "64K", "fault": "none"}, load_plugins())
    table = plan.router.routes(plan.fabric, HealthSnapshot.healthy(plan.fabric))
    times = [Timeline(plan.fabric, plan.schedule, table, plan.packet)]
    step_s = plan.packet.wire_bytes(16384) * 8 / 3.6e12
    assert times[0].shortest_step_s() == pytest.approx(step_s)
    enough = Capacity(1e9, 1e9)
    assert auto_scale(enough, 7e9, 0.005, times) == pytest.approx(0.04 * step_s / 0.005, rel=0.05)
    assert auto_scale(Capacity(10.0, 10.0), 6e9, 0.005, times) == pytest.approx(1e-9)  # the capacity is less


@pytest.mark.parametrize("collective", ["send-recv", "broadcast", "tree-all-reduce", "all-to-all"])
def test_latency_is_a_small_part_of_an_iteration_at_the_scale_chosen(collective: str) -> None:
    plan = load_plan(None, {"collective": collective, "size": "64K", "fault": "none"}, load_plugins())
    table = plan.router.routes(plan.fabric, HealthSnapshot.healthy(plan.fabric))
    timeline = Timeline(plan.fabric, plan.schedule, table, plan.packet)
    scale = auto_scale(Capacity(1e9, 1e9), 7e9, 0.005, [timeline])
    assert timeline.latency_share(0.005 * scale) <= LATENCY
    assert timeline.seconds(0.005 * scale) <= 1.1 * timeline.seconds(0.005 * scale / 4)


@pytest.mark.parametrize("late_s", [0.004, 0.01, 0.05])
def test_what_iterations_take_besides_their_links_lowers_the_scale_until_it_is_small(late_s: float) -> None:
    """16 packets of 64 KiB over a rail of 400 Gb/s at 4e-5; what is late does not scale with the rates."""
    plan = load_plan(None, {"collective": "send-recv", "size": "64K", "fault": "none"}, load_plugins())
    table = plan.router.routes(plan.fabric, HealthSnapshot.healthy(plan.fabric))
    times, scale = [Timeline(plan.fabric, plan.schedule, table, plan.packet)], 4e-5
    needed_s = times[0].seconds()
    tried = [(scale, late_share(scale, [(needed_s, needed_s / scale + late_s)]))]
    lower = slower_scale(tried, times)
    assert lower < scale and late_s / (needed_s / lower + late_s) == pytest.approx(LATE, rel=0.1)
    tried.append((lower, late_share(lower, [(needed_s, needed_s / lower + late_s)])))
    assert slower_scale(tried, times) == lower


@given(st.floats(0.0, 0.5), st.floats(0.0, 0.5))
def test_a_scale_goes_back_where_packets_wait_for_each_other(waits: float, late: float) -> None:
    """Iterations that take `waits` more at every scale, and `late` of their time at the first one: the scale
    falls until the second is less than the tenth by which a verdict lets times differ, and stays where the
    first is all."""
    plan = load_plan(None, {"collective": "send-recv", "size": "64K", "fault": "none"}, load_plugins())
    table = plan.router.routes(plan.fabric, HealthSnapshot.healthy(plan.fabric))
    times = [Timeline(plan.fabric, plan.schedule, table, plan.packet)]
    needed_s, tried = times[0].seconds(), list[tuple[float, float]]()
    scale, last = 4e-5, 1.0
    while scale < last:
        took_s = needed_s / scale * (1 + waits) + late * needed_s / 4e-5
        tried.append((scale, late_share(scale, [(needed_s, took_s)])))
        last, scale = scale, slower_scale(tried, times)
    share = late / (late + (1 + waits) * 4e-5 / scale)
    assert share <= 0.1
    if waits > 0.1 and late == 0:
        assert scale == 4e-5


def test_a_scale_stays_where_iterations_are_as_their_links_are() -> None:
    plan = load_plan(None, {"collective": "send-recv", "size": "64K", "fault": "none"}, load_plugins())
    table = plan.router.routes(plan.fabric, HealthSnapshot.healthy(plan.fabric))
    times = [Timeline(plan.fabric, plan.schedule, table, plan.packet)]
    needed_s = times[0].seconds()
    for took_s in (1.05 * needed_s / 4e-5, 0.9 * needed_s / 4e-5):
        assert slower_scale([(4e-5, late_share(4e-5, [(needed_s, took_s)]))], times) == 4e-5
    longest = needed_s / LONGEST_S
    assert slower_scale([(2 * longest, 0.99)], times) == pytest.approx(longest, rel=0.1)


def test_a_small_size_does_not_slow_a_sweep_down_for_ever() -> None:
    plan = load_plan(None, {"size": "4K:64M:x16384", "fault": "none"}, load_plugins())
    table = plan.router.routes(plan.fabric, HealthSnapshot.healthy(plan.fabric))
    times = [Timeline(plan.fabric, schedule, table, plan.packet) for schedule in plan.schedules]
    scale = auto_scale(Capacity(1e9, 1e9), 7e9, 0.005, times)
    assert times[-1].seconds() / scale == pytest.approx(LONGEST_S, rel=0.05)


def test_a_packets_latency_is_a_step_of_the_less_disturbed_chains_through_all_ranks() -> None:
    registers = load_plugins()
    plan = load_plan(None, {"fault": "none"}, registers)
    carried: list[Schedule] = []
    took = iter([9.0, *[0.16] * 3, *[0.32] * (TRIES - 4), 9.0])  # the first one opens the queue pairs

    def carry(_: str, schedule: Schedule) -> float:
        carried.append(schedule)
        return next(took)

    table = plan.router.routes(plan.fabric, HealthSnapshot.healthy(plan.fabric))
    assert packet_latency_s(plan, registers, table, carry) == pytest.approx(0.16 / PACKETS)
    chain, n = carried[-1], plan.fabric.n_gpus
    assert len(carried) == 1 + TRIES and chain.n_transfers == PACKETS * n
    assert np.array_equal(np.diff(chain.after_start), [0] * n + [1] * (PACKETS - 1) * n)
    assert np.array_equal(chain.dst[chain.after], chain.src[n:])
    assert np.all(chain.size == plan.packet.path_mtu)
