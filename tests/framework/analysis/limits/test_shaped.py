"""What token buckets let go early: the kernel's rules simulated, the kernel itself, and the bound.

The rules are those of net/sched/sch_htb.c (htb_charge_class, htb_accnt_tokens, htb_class_mode, htb_reset).
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework import registry
from railweave.framework.analysis.limits.shaped import BUCKET_S, carriers, shaped_bound_s
from railweave.framework.experiment import faults
from railweave.framework.experiment.plan import load_plan
from railweave.framework.judging import job_part
from railweave.framework.lab.sandbox import unshare_command
from railweave.framework.lab.switching import shaping
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.model.events import FaultInjected
from railweave.topologies.rail_only import RailOnly
from tests.fakes.cut_bounds import cut_bound_s
from tests.fakes.findings import findings, iteration

PACKET = PacketFormat(4096)
L = 4096 + 58
S = 1 << 20


def rail_only() -> Fabric:
    return RailOnly().build({"domains": 4, "rails": 4, "domain_rate": 72e6, "rail_rate": 8e6})


@dataclass
class Bucket:
    """One HTB class; times in ns. A packet may leave when tokens are 0 or more, or when `reset` has just
    been."""

    rate_bps: float
    buffer: int = 50_000
    tokens: int = 50_000
    last: int = 0
    reset: bool = False
    left: list[tuple[int, int]] = field(default_factory=list)

    def send(self, now: int, size: int) -> int:
        """When a packet that comes at `now`, or after the last, leaves."""
        now = max(now, self.left[-1][0] if self.left else 0)
        if not self.reset:
            now = max(now, self.last - self.tokens)  # tokens are 0 then
        self.reset = False
        cost = int(size * 8e9 / self.rate_bps)
        self.tokens = min(self.tokens + min(now - self.last, 60_000_000_000), self.buffer) - cost
        self.last = now
        self.left.append((now, size))
        return now


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3_000_000),
            st.integers(64, L),
            st.sampled_from([None] * 8 + [1e6, 5e6, 20e6, "reset"]),
        ),
        min_size=1,
        max_size=60,
    )
)
def test_no_window_passes_more_than_its_time_the_bucket_and_a_packet(
    events: list[tuple[int, int, Any]],
) -> None:
    """Gaps, sizes, changes of rate and resets as they come; rate is the best there was."""
    bucket, now, best, resets = Bucket(20e6), 0, 20e6, 0
    for gap, size, what in events:
        now += gap
        if what == "reset":
            bucket.reset, resets = True, resets + 1
        elif what is not None:
            bucket.rate_bps = what
        bucket.send(now, size)
    for first in range(len(bucket.left)):
        sent = 0
        for at, size in bucket.left[first:]:
            sent += size
            window_s = (at - bucket.left[first][0]) * 1e-9 + len(bucket.left) * 1e-9  # the cost in whole ns
            assert sent <= best / 8 * (window_s + BUCKET_S) + L * (1 + resets) + 1e-6


def test_idle_gaps_gain_on_a_schedule_and_not_on_the_clock() -> None:
    """50 trains of 8, each after the line fell idle for 3 packet times: each train takes 7 packet times
    instead of 8, but a gap costs 2 to the link."""
    bucket, packet_ns = Bucket(20e6), int(L * 8e9 / 20e6)
    now = 0
    for _ in range(50):
        begun = now
        for _ in range(8):
            now = bucket.send(now, L)
        assert now - begun <= 7 * packet_ns
        now += 3 * packet_ns
    passed_s = bucket.left[-1][0] * 1e-9
    assert sum(size for _, size in bucket.left) <= 20e6 / 8 * (passed_s + BUCKET_S) + L


def test_the_bucket_is_the_labs() -> None:
    assert BUCKET_S == shaping.CATCH_UP_S
    assert "burst 125 cburst 125" in shaping.class_words("a", 20e6, "add")  # 50 us at 20 Mb/s


@pytest.mark.quiet
@pytest.mark.lab
@pytest.mark.parametrize(("rate_bps", "size"), [(20e6, L), (20e6, 1082), (100e6, L)])
def test_the_kernel_lets_one_packet_and_its_bucket_go_early(rate_bps: float, size: int) -> None:
    """Trains of 1 to 9 packets with gaps of none to 12 packet times, three rounds. Time stamps are 0.1
    packets off at most, unless the machine is descheduled between a packet and its stamp, which only adds to
    the excess: the minimum of the rounds is the kernel's own."""
    draw = random.Random(1)
    trains = [f"{draw.randint(1, 9)}:{draw.uniform(0, 12):.2f}" for _ in range(30)] + ["1:0.5"] * 20
    rounds: list[float] = []
    most = 1 + shaping.CATCH_UP_S * rate_bps / (8 * size) + 0.1
    for _ in range(3):
        done = subprocess.run(
            [
                *unshare_command(),
                sys.executable,
                "-W",
                "ignore",
                str(Path(__file__).with_name("limits_scene.py")),
                str(rate_bps),
                str(size),
                *trains,
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        rounds.append(json.loads(done.stdout.splitlines()[-1])["excess_packets"])
    assert 0.9 <= min(rounds) <= most, rounds


def test_the_bound_grants_a_packet_per_link_and_the_bucket() -> None:
    """4 x 4 at 1 MB/s a rail: between the domains 16 links carry 6S; each has one packet and 50 us for
    free."""
    fabric = rail_only()
    bound = shaped_bound_s(fabric, "all-reduce", S, PACKET, capacity_bps=fabric.capacity_bps)
    by_hand = (6 * S * L / 4096 / 16 - L) / 1e6 - 50e-6
    assert bound == pytest.approx(by_hand, rel=1e-6)  # a whole ns of 4 ms
    again = shaped_bound_s(fabric, "all-reduce", S, PACKET, capacity_bps=fabric.capacity_bps, resets=2)
    assert again == pytest.approx(by_hand - 2 * L / 1e6, rel=1e-6)
    assert shaped_bound_s(fabric, "all-reduce", 4, PACKET, capacity_bps=fabric.capacity_bps) == 0
    dead = np.zeros(fabric.n_links)
    assert shaped_bound_s(fabric, "all-reduce", S, PACKET, capacity_bps=dead) == inf


def fault(fabric: Fabric, t_s: float, text: str) -> tuple[float, faults.ResolvedFault]:
    return t_s, faults.resolve(faults.parse(text), fabric)


def test_links_that_were_down_all_the_time() -> None:
    fabric = rail_only()
    rail = set(fabric.element_links(fabric.node_ids["r1"]).tolist())
    fired = [
        fault(fabric, 1.0, "at=1s down rail:1"),
        fault(fabric, 2.0, "at=2s degrade rail:2 to=20%"),
        fault(fabric, 5.0, "at=5s up rail:1"),
    ]

    def between(begin: float, end: float) -> tuple[set[int], int]:
        down, resets = carriers(fabric.n_links, fired, begin, end)
        return set(np.flatnonzero(down).tolist()), resets

    assert between(0.0, 0.9) == (set(), 0)
    assert between(0.5, 1.5) == (set(), 1)
    assert between(1.1, 4.9) == (rail, 0)
    assert between(1.1, 5.5) == (set(), 1)
    assert between(0.5, 5.5) == (set(), 2)
    assert between(5.1, 6.0) == (set(), 0)
    killed = [fault(fabric, 1.0, "at=1s kill controller"), fault(fabric, 1.0, "at=1s kill switch:r1")]
    assert carriers(fabric.n_links, killed, 0.0, 2.0)[1] == 1


def test_a_run_is_judged_by_the_fabric_as_each_iteration_saw_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """All-reduce, 16 GPUs, 4 rails of 4: healthy 6S over 16 links; rail 1 at a fifth: over 12.8; down: over
    12."""
    plan = load_plan(None, {"faults": ["at=3s down rail:1"]}, registry.load_plugins())
    scaled = plan.fabric.scaled(1e-5)
    rates = scaled.capacity_bps
    slow = rates.copy()
    slow[scaled.element_links(scaled.node_ids["r1"])] *= 0.2
    laps = [(0.0, 1.0, rates), (1.0, 2.0, slow), (2.0, 2.5, rates), (4.0, 5.0, rates), (5.0, 6.0, rates)]
    iterations = [
        iteration(scaled, i, begin, end - begin, best_rates_bps=seen)
        for i, (begin, end, seen) in enumerate(laps)
    ]
    found = findings(scaled, iterations, faults=(FaultInjected(3.0, "at=3s down rail:1"),))
    asked = []

    def counted(*args: Any, **given: Any) -> float:
        asked.append(args)
        return shaped_bound_s(*args, **given)

    monkeypatch.setattr(job_part, "shaped_bound_s", counted)
    timed = job_part._timed_iterations(plan, scaled, found, found.iterations, pytest.fail)
    bounds = [one.bound_s for one in timed]
    size, rail = plan.schedules[0].size_bytes, rates.min()
    wire = plan.packet.full_packet_bytes / plan.packet.path_mtu
    packet_s = 8 * plan.packet.full_packet_bytes / rail
    by_hand = [
        (6 * 8 * size * wire / rail - live * packet_s) / worth - BUCKET_S
        for live, worth in ((16, 16), (16, 12.8), (16, 16), (12, 12), (12, 12))
    ]
    assert bounds == pytest.approx(by_hand, rel=1e-4)
    assert len(asked) == 3
    assert bounds[0] is not None and bounds[0] < cut_bound_s(scaled, "all-reduce", size, plan.packet)
