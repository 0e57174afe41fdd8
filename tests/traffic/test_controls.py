"""The congestion controls: what their papers say of single steps, and where their flows settle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import railweave as rw
from railweave.framework.errors import ExperimentError
from railweave.framework.hookspecs.congestion import NEVER, OVERTAKEN, TIMEOUT
from railweave.framework.kit.plugin_check import check_plugin
from railweave.framework.kit.shared_port import ControlFunctions, PortRun, SharedPort
from railweave.framework.registry import load_plugins
from railweave.traffic.controls.dcqcn import Dcqcn
from railweave.traffic.controls.nscc import Nscc
from railweave.traffic.controls.swift import Swift

LINE, MTU, RTT = 12.5e9, 4160, 8_000_000
MICROSECOND, MILLISECOND = 10**6, 10**9


def started(control: Any, now: int = 0) -> Any:
    s = control.sender_record()[0]
    control.start(s, now, LINE, RTT, 2, MTU)
    return s


@pytest.mark.parametrize("name", ["window", "dcqcn", "swift", "nscc"])
def test_it_passes_the_checks(name: str) -> None:
    report = check_plugin("congestion-control", name, load_plugins())
    assert report.passed and len(report.outcomes) == 9, report.text()


def test_engines_without_packets_refuse_all_but_window() -> None:
    with pytest.raises(ExperimentError, match="congestion control by dcqcn: engine fluid cannot"):
        rw.load(engine="fluid", control="dcqcn")
    assert rw.load(engine="fluid", control="window").control.follows_links
    with pytest.raises(ExperimentError, match="there is no congestion-control 'dctcp'"):
        rw.load(control="dctcp")
    with pytest.raises(ExperimentError, match=r"dcqcn goes by marks of congestion, and engine.marks is off"):
        rw.load(control="dcqcn", engine={"name": "emulation", "marks": "off"})
    with pytest.raises(ExperimentError, match=r"flow_least is 200.0 and flow_most 100.0"):
        rw.load(control={"name": "swift", "flow_least": 200})
    plan = rw.load(control={"name": "dcqcn", "timer": "300us"})
    assert plan.document()["control"]["timer"] == 300e-6  # type: ignore[index]
    assert not plan.keeps_shares and rw.load().keeps_shares


# -- DCQCN: SIGCOMM 2015, section 5 -----------------------------------------------------------------------
def test_dcqcn_cuts_by_half_of_alpha_and_recovers_half_of_the_distance_five_times() -> None:
    s = started(Dcqcn())
    Dcqcn.notified(s, 0)
    assert s["rate"] == LINE / 2 and s["target"] == LINE and s["alpha"] == 1.0
    for step in range(1, 6):
        Dcqcn.woke(s, int(s["wake"]))
        assert s["rate"] == pytest.approx(LINE * (1 - 2.0 ** -(step + 1)))
        assert s["wake"] == (step + 1) * 55 * MICROSECOND


def test_dcqcn_raises_its_target_after_that() -> None:
    """By 40 Mb/s at 40 Gb/s, a thousandth; once the counter of bytes is past five, too, by ten times that."""
    s = started(Dcqcn({"byte_counter": 1000}))
    for _ in range(2):
        Dcqcn.notified(s, 0)
    for _ in range(5):
        Dcqcn.woke(s, int(s["wake"]))
    target = float(s["target"])
    Dcqcn.woke(s, int(s["wake"]))
    assert s["target"] - target == pytest.approx(1e-3 * LINE)
    for step in range(1, 7):
        Dcqcn.sent(s, 331 * MICROSECOND + step, 1000)
        assert s["wake"] == 331 * MICROSECOND + step
        target = float(s["target"])
        Dcqcn.woke(s, int(s["wake"]))
        assert s["target"] - target == pytest.approx((1e-3 if step < 6 else 1e-2) * LINE)


def test_dcqcn_forgets_congestion_while_no_cnp_comes() -> None:
    """alpha = (1 - g)^k after k intervals of 55 us; then + g for the CNP, (1 - g) of it."""
    s = started(Dcqcn())
    Dcqcn.notified(s, 0)
    Dcqcn.notified(s, 100 * 55 * MICROSECOND)
    g = 1 / 256
    assert s["alpha"] == pytest.approx((1 - g) ** 101 + g)
    assert s["rate"] == pytest.approx(LINE / 2 * (1 - (1 - g) ** 100 / 2))


def test_dcqcn_is_back_at_the_line_and_sleeps() -> None:
    s = started(Dcqcn())
    Dcqcn.notified(s, 0)
    for _ in range(12):
        if s["wake"] != NEVER:
            Dcqcn.woke(s, int(s["wake"]))
    assert s["rate"] == LINE and s["wake"] == NEVER


def test_dcqcn_receivers_notify_once_in_50_us_while_packets_are_marked() -> None:
    r = Dcqcn().receiver_record()[0]
    at = [t for t in range(0, 200, 7) if Dcqcn.received(r, t * MICROSECOND, MTU, t != 70)]
    assert at == [0, 56, 112, 168] and not Dcqcn.received(r, 500 * MICROSECOND, MTU, False)


def fixed_point(n: int, packets_per_s: float) -> float:
    """Share of packets marked where n flows stay: Zhu and others, "ECN or Delay" (CoNEXT 2016), equations 5
    to 7 and 11, with the paper's 50 us between CNPs and 55 us of timers, 10 MB of the counter, F = 5."""
    rate, tau, timer = packets_per_s / n, 50e-6, 55e-6
    counter, increase = 1e7 / MTU, 1e-3 * packets_per_s

    def excess(p: float) -> float:
        unmarked = 1 - p
        cuts, alpha = 1 - unmarked ** (tau * rate), 1 - unmarked ** (timer * rate)
        by_bytes = p / (unmarked**-counter - 1)
        by_timer = p / (unmarked ** -(timer * rate) - 1)
        adds = unmarked ** (5 * counter) * by_bytes + unmarked ** (5 * timer * rate) * by_timer
        return cuts**2 * alpha - (by_bytes + by_timer) * adds * tau**2 * increase * rate

    low, high = 1e-7, 0.5
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return low


def test_dcqcn_stays_at_its_fixed_point() -> None:
    """Two flows at 400 Gb/s, Kmin 5 KB, Kmax 200 KB, Pmax 1 % (the paper's): q* is three packets. Shares
    within 5 %, mean queue over 20 ms within two packets."""
    line, kmin, kmax, pmax = 50e9, 5e3, 200e3, 0.01
    p = fixed_point(2, line / MTU)
    assert p < pmax
    port = SharedPort(line=line, base_rtt=4_000_000, mtu=MTU, kmin=kmin, kmax=kmax, pmax=pmax)
    run = PortRun(Dcqcn(), port, [0, 0])
    run.run(1)
    for flow in run.flows:  # at the fixed point from the beginning: getting there takes long
        flow.s["rate"] = flow.s["target"] = line / 2
        flow.s["alpha"] = 1 - (1 - p) ** (55e-6 * line / MTU / 2)
        flow.s["wake"] = flow.s["timer_at"]
        Dcqcn.woke(flow.s, int(flow.s["wake"]))
        run.watch(flow)
    carried = run.run(30 * MILLISECOND, 10 * MILLISECOND)
    expected = kmin + p / pmax * (kmax - kmin)
    assert 2.5 < expected / MTU < 3.5
    assert abs(carried.queue - expected) < max(0.1 * expected, 2 * MTU)
    assert np.array(carried.arrived) / sum(carried.arrived) == pytest.approx(0.5, rel=0.05)


# -- Swift: SIGCOMM 2020, algorithm 1 ---------------------------------------------------------------------
def test_swift_grows_by_a_packet_a_round_trip_and_shrinks_by_the_excess_once() -> None:
    s = started(Swift({"flow_range": 0.0}))
    s["cwnd"] = 10.0
    for _ in range(10):
        Swift.acknowledged(s, RTT, MTU, 0, RTT, 0)
    assert s["cwnd"] == pytest.approx(11.0, rel=0.01)
    target, delay, before = s["base"], int(2 * s["base"]), float(s["cwnd"])
    Swift.acknowledged(s, 10 * RTT, MTU, 0, delay, 0)
    assert s["cwnd"] == pytest.approx(before * (1 - 0.8 * (delay - target) / delay))
    Swift.acknowledged(s, 10 * RTT + delay - 1, MTU, 0, delay, 0)
    assert s["cwnd"] == pytest.approx(before * (1 - 0.8 * (delay - target) / delay)), "once a round trip"
    Swift.acknowledged(s, 20 * RTT, MTU, 0, 100 * RTT, 0)
    Swift.acknowledged(s, 200 * RTT, MTU, 0, 100 * RTT, 0)
    assert s["cwnd"] == pytest.approx(before * (1 - 0.8 * (delay - target) / delay) / 2), "by half at most"


def test_swift_spaces_packets_below_one() -> None:
    s = started(Swift())
    s["cwnd"] = 0.5
    Swift.lost(s, 10 * RTT, MTU, OVERTAKEN)
    assert s["cwnd"] == 0.25 and s["window"] == MTU
    assert s["rate"] == pytest.approx(0.25 * MTU / (RTT * 1e-12))
    for _ in range(5):
        Swift.lost(s, 10 * RTT, MTU, TIMEOUT)
    assert s["rate"] == pytest.approx(LINE / 1000)


@pytest.mark.parametrize("n", [2, 8, 64])
def test_swift_keeps_the_mean_delay_near_its_target(n: int) -> None:
    """Of the targets in force at each acknowledgement, 0.85 to 1.05; the windows grow by a tenth of a packet
    a round trip: 64 flows that grow by a whole one fill the port for more than the target in one."""
    swift, targets = Swift({"ai": 0.1}), list[float]()
    functions = ControlFunctions.of(swift)

    def acknowledged(s: Any, now: int, *arguments: int) -> None:
        if now > 3 * MILLISECOND:
            few = float(s["flow_slope"]) / math.sqrt(s["cwnd"]) + float(s["flow_offset"])
            targets.append(RTT + 1e6 + min(max(few, 0.0), 4e6))
        functions.acknowledged(s, now, *arguments)

    run = PortRun(swift, SharedPort(), [0] * n, functions._replace(acknowledged=acknowledged))
    carried = run.run(6 * MILLISECOND, 3 * MILLISECOND)
    assert 0.85 <= carried.delay / np.mean(targets) <= 1.05 and carried.busy > 0.95


# -- NSCC: uet-htsim, sim/uec.cpp -------------------------------------------------------------------------
CASES = [(False, 0.2), (False, 1.5), (True, 1.5), (True, 0.2)]


@pytest.mark.parametrize(("marked", "share"), CASES)
def test_nscc_has_four_cases(marked: bool, share: float) -> None:
    """`share`: queueing delay over the target, an idle round trip. Increases of 4 x packet x bytes x (target
    - delay) over 12 us and of 5 x packet x bytes, times BDP over 150 KB, are collected; the window shrinks by
    0.8 of the mean excess; marked and below, nothing happens."""
    s = started(Nscc())
    s["window"], s["mean_delay"], s["in_flight"] = 20.0 * MTU, 1.5 * RTT, 19.0 * MTU
    before, scale = float(s["window"]), LINE * RTT * 1e-12 / 150e3
    now = RTT // 2 if not marked else 2 * RTT
    s["adjusted_at"] = now
    mean = 1.5 * RTT
    Nscc.acknowledged(s, now, MTU, MTU * marked, int(RTT * (1 + share)), 18 * MTU)
    collected = 0.0
    if not marked:
        collected = scale * MTU * MTU * (4 * (1 - share) * RTT / 12e6 if share < 1 else 5)
    assert s["increase"] == pytest.approx(collected)
    shrinks = marked and share > 1
    assert s["window"] == pytest.approx(before * (1 - 0.8 * (mean - RTT) / mean if shrinks else 1))


def test_nscc_shrinks_once_an_idle_round_trip_and_by_half_at_most() -> None:
    s = started(Nscc())
    s["mean_delay"], s["adapt_at"] = 100.0 * RTT, NEVER - 1
    before = float(s["window"])
    for at in (2 * RTT, 2 * RTT + 1000, 3 * RTT - 1):
        s["adjusted_at"] = at
        Nscc.acknowledged(s, at, MTU, MTU, 3 * RTT, 0)
    assert s["window"] == before / 2


def test_nscc_adapts_to_what_arrived_when_packets_are_lost() -> None:
    """Two packets in the last round trip: the window is theirs, and marks of those under way are ignored."""
    s = started(Nscc())
    s["adapt_at"] = 10 * RTT
    for at in (9 * RTT, 9 * RTT + 1):
        Nscc.acknowledged(s, at, MTU, 0, RTT, 6 * MTU)
    Nscc.lost(s, 10 * RTT, MTU, OVERTAKEN)
    assert s["window"] == 2 * MTU and s["to_ignore"] == 5 * MTU
    Nscc.acknowledged(s, 11 * RTT, MTU, MTU, 3 * RTT, 4 * MTU)
    assert s["window"] == 2 * MTU
