"""The holds of `bench health`: who sends to whom, how long, what is counted."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from railweave.bench import health as benchmark
from railweave.bench import health_holds as holds
from railweave.bench.cpu_bursts import BURST_S, PERIOD_S, cpu_bursts
from railweave.bench.health_holds import both, fullness, keep, kept, neighbours
from railweave.bench.health_rows import Row, judged
from railweave.bench.tcp_flows import TcpFlows
from railweave.framework.errors import LabError
from railweave.framework.experiment.plan import load_plan
from railweave.framework.lab.switching.emulation import cpu_seconds
from railweave.framework.model import Endpoint
from railweave.framework.model.findings import Findings, LinkTotals
from railweave.framework.registry import Registers, load_plugins
from railweave.framework.runs.recorder import Recorder
from railweave.framework.runs.session import Session
from tests.fakes.fake_engine import FakeEngine
from tests.fakes.findings import findings
from tests.fakes.hand_clock import HandClock

SMALL: dict[str, object] = {"topology.domains": 2, "topology.rails": 3, "faults": []}


@pytest.mark.parametrize(("fabric", "flows"), [("4x4", 32), ("8x8", 128), ("torus", 64)])
def test_tcp_goes_both_ways_over_every_link_between_neighbours(fabric: str, flows: int) -> None:
    plan = load_plan(None, {**benchmark.FABRICS[fabric], "faults": []}, load_plugins())
    pairs = neighbours(plan.fabric)
    assert len(pairs) == flows and {(b, a) for a, b in pairs} == set(pairs)
    table = plan.router.routes(plan.fabric, benchmark.HealthSnapshot.healthy(plan.fabric))
    used = {link for pair in pairs for path in table.path(*pair) for link in path.links}
    within = {
        d.id for d in plan.fabric.links() if {plan.fabric.node_kind(n) for n in (d.a, d.b)} & {"domain"}
    }
    assert used == set(range(plan.fabric.n_links)) - within


def test_two_domains_are_neighbours_once(registers: Registers) -> None:
    assert neighbours(load_plan(None, SMALL, registers).fabric) == [
        (0, 3), (1, 4), (2, 5), (3, 0), (4, 1), (5, 2),
    ]  # fmt: skip


def test_fullness_is_that_of_the_least_busy_link(registers: Registers) -> None:
    """At a scale of 0.5 and after 4 s: half of the bits at half of the rate fill the link, a quarter half of
    it; links within domains do not count."""
    plan = load_plan(None, SMALL, registers)
    fabric = plan.fabric
    sent = np.where(fabric.link_kind == fabric.link_kind[fabric.out_links(fabric.node_ids["r1"])[0]],
                    fabric.capacity_bps * 0.5 * 4 / 8, 0.0)  # fmt: skip
    sent[fabric.out_links(fabric.node_ids["r1"])[0]] /= 2
    none = np.zeros(fabric.n_links)
    found = findings(fabric, rate_scale=0.5, links=LinkTotals(sent, none, none, none))
    found = replace(found, samples=replace(found.samples, t_s=np.array([4.0])))
    assert fullness(plan, found) == pytest.approx(0.5)
    row = Row("4x4", hold="tcp", hold_s=60.0, healthy_min=1.0, fullness=0.5)
    assert judged(row).verdict == "TCP filled a link to 50 % only"
    assert judged(replace(row, fullness=0.9)).verdict == "ok"


def test_two_labs_are_up_at_once_and_one_that_fails_is_reported_when_both_are_down(
    registers: Registers,
) -> None:
    fabric, meeting, calls = load_plan(None, SMALL, registers).fabric, threading.Barrier(2), []

    def call() -> Findings:
        meeting.wait(10)
        calls.append(threading.get_ident())
        if len(calls) == 3:
            raise LabError("no switch")
        return findings(fabric)

    assert len(both(call)) == 2 and len(set(calls)) == 2
    with pytest.raises(LabError, match="no switch"):
        both(call)
    assert len(calls) == 4


@pytest.mark.parametrize("hold", ["load", "two labs", "cpu bursts"])
def test_every_lab_gets_the_plan_and_bursts_end_with_it(
    hold: str, registers: Registers, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Bursts:
        def stop(self) -> None:
            told.append("stopped")

    def in_lab(task: str, message: dict[str, Any], emit: object) -> Findings:
        told.append((task, message["hold"], message["seconds"]))
        assert message["document"] == plan.document()
        if fails:
            raise LabError("no switch")
        return findings(plan.fabric)

    told: list[Any] = []
    fails, plan = False, load_plan(None, SMALL, registers)
    monkeypatch.setattr(holds, "in_lab", in_lab)
    monkeypatch.setattr(holds, "cpu_bursts", Bursts)
    expected = [(holds.__name__, hold, 60.0)] * (2 if hold == "two labs" else 1)
    assert len(kept(plan, hold, 60.0)) == len(expected)
    assert told == expected + ["stopped"] * (hold == "cpu bursts")
    fails = True
    with pytest.raises(LabError):
        kept(plan, hold, 60.0)
    assert told[len(told) // 2 :] == told[: len(told) // 2]


@pytest.mark.parametrize(
    ("hold", "iterations", "end_s"), [("idle", 0, 10), ("load", 4, 12), ("after a fault", 2, 16)]
)
def test_a_load_goes_on_until_the_time_is_over(
    hold: str, iterations: int, end_s: float, registers: Registers
) -> None:
    """Iterations of 3 s for 10 s, however many the plan has; after those of a run, 10 s without any."""
    clock, plan = HandClock(), load_plan(None, {**SMALL, "iterations": 2}, registers)
    recorder = Recorder(plan.fabric, registers, lambda _: None, clock.now_s)
    with Session(plan, FakeEngine(plan, recorder, clock, lambda _: 3.0), recorder) as session:
        keep(session, hold, 10.0)  # type: ignore[arg-type]
        assert len(session.findings().iterations) == iterations
    assert clock.now_s() == pytest.approx(end_s, abs=0.1)


def test_of_two_labs_the_lower_scores_and_the_reroutes_of_both(registers: Registers) -> None:
    plan = load_plan(None, dict(benchmark.FABRICS["4x4"]), registers)
    one = findings(plan.fabric, reroutes=("a reroute",))
    low = replace(one, samples=replace(one.samples, link_score=one.samples.link_score * np.float32(0.95)))
    row = benchmark.held(Row("4x4", hold="two labs", hold_s=60.0), plan, [one, low])
    assert (row.healthy_min, row.reroutes, row.fullness) == (0.95, 2, None)


def test_bursts_take_a_fifth_of_a_core_and_end_at_once() -> None:
    bursts = cpu_bursts()
    time.sleep(0.5)  # the interpreter starts
    before, seconds = cpu_seconds(bursts.pid), 2 * PERIOD_S
    time.sleep(seconds)
    used = cpu_seconds(bursts.pid) - before
    status = bursts.stop()
    assert BURST_S * 0.5 < used < 1.6 * BURST_S * seconds / PERIOD_S
    assert status == 0, "it was not killed"


def test_flows_that_cannot_be_opened_end_the_hold_with_what_was_wrong() -> None:
    ends = [Endpoint(i, f"g{i}", "/none", "h", "02:00:00:00:00:01", "10.0.0.1", 4096) for i in range(2)]
    flows = TcpFlows([(ends[0], ends[1])])
    with pytest.raises(LabError, match=r"(?s)the TCP flows ended with status 1.*/none cannot be opened"):
        flows.hear()
    flows.stop()
