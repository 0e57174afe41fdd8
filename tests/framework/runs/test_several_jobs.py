"""Several jobs in one session without a machine: timetables, the time alone, faults, and failures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from railweave.framework import api
from railweave.framework.cli._summary import report
from railweave.framework.errors import ProgramError, TransportError
from railweave.framework.experiment.plan import load_plan
from railweave.framework.judging.run_result import run_result
from railweave.framework.model.events import FaultInjected, IterationEnded, RunEvent
from railweave.framework.registry import Registers
from railweave.framework.results.nccl_table import nccl_table
from railweave.framework.results.result import from_document
from railweave.framework.runs.recorder import Recorder
from railweave.framework.runs.session import Session
from tests.fakes.fake_engine import FakeEngine
from tests.fakes.hand_clock import HandClock

Seconds = Callable[[int], float]


@pytest.fixture(scope="module")
def registers() -> Registers:
    return api.installed()


class Scene:
    """Two jobs or more on 2 x 4 GPUs; the iterations of job i take `seconds[i]`."""

    def __init__(self, registers: Registers, jobs: list[str], seconds: list[float], **changed: Any) -> None:
        keys = {"topology.domains": 2, "topology.rails": 4, "size": "16K", "iterations": 4, "fault": "none"}
        self.plan = load_plan(None, {**keys, "jobs": jobs, **changed}, registers)
        self.events: list[RunEvent] = []
        self.clock = HandClock()
        self.recorder = Recorder(self.plan.fabric, registers, self.events.append, self.clock.now_s)
        self.engine = FakeEngine(self.plan, self.recorder, self.clock, lambda _: 1.0)
        for traffic, each in zip(self.engine.jobs, seconds, strict=True):
            traffic.seconds = lambda _, each=each: each
        self.session = Session(self.plan, self.engine, self.recorder)

    def ended(self, *, alone: bool = False) -> list[tuple[int, int, float]]:
        """(job, iteration, when it began after the start of the jobs)."""
        together = 0.0 if alone else self.session.together_s
        return [
            (one.job, one.result.iteration, round(one.begin_s - together, 1))
            for one in self.recorder.iterations
            if one.alone is alone
        ]


TWO = ["ranks=domain:0 name=a", "ranks=domain:1 name=b start=2s pause=500ms iterations=3"]


def test_each_job_runs_alone_first_and_then_by_its_timetable(registers: Registers) -> None:
    scene = Scene(registers, TWO, [1.0, 1.5])
    with scene.session as session:
        session.iterate()
        findings = session.findings()
    assert scene.ended(alone=True) == [(0, 0, 0.0), (0, 1, 1.0), (1, 0, 2.0), (1, 1, 4.0)]
    assert session.together_s == pytest.approx(5.5, abs=0.03)
    assert sorted(scene.ended()) == [
        (0, 0, 0.0), (0, 1, 1.0), (0, 2, 2.0), (0, 3, 3.0), (1, 0, 2.0), (1, 1, 4.0), (1, 2, 6.0),
    ]  # fmt: skip
    events = [event for event in scene.events if isinstance(event, IterationEnded)]
    assert [event.alone for event in events] == [True] * 4 + [None] * 7

    result = run_result(scene.plan, findings, 0.0, pytest.fail)
    a, b = result.jobs
    assert (a.name, a.ranks, b.ranks[0]) == ("a", ("g0.0", "g0.1", "g0.2", "g0.3"), "g1.0")
    # of a's four, two ran while b did; b's last two began when a was over
    assert (a.alone_us, b.alone_us) == pytest.approx((1e6, 1.5e6), rel=0.01)
    assert (a.interference, b.interference) == pytest.approx((1, 1), rel=0.01)
    assert result.fairness == pytest.approx(1, abs=1e-3)
    assert [row.job for row in result.rows] == [0] * 5 + [1] * 4
    assert {one.job for one in result.bottlenecks} == {0, 1}


def test_a_job_may_run_more_iterations_alone_than_in_company(registers: Registers) -> None:
    scene = Scene(registers, ["ranks=domain:0", "ranks=domain:1"], [1.0, 1.0], iterations=1)
    with scene.session as session:
        session.iterate()
    assert len(scene.ended(alone=True)) == 4 and len(scene.ended()) == 2


def test_what_a_job_puts_on_links_is_its_own(registers: Registers) -> None:
    jobs = ["ranks=rail:0 collective=send-recv", "ranks=domain:1/2+1 collective=send-recv"]
    scene = Scene(registers, jobs, [1.0, 1.0], alone=0)
    with scene.session as session:
        session.iterate()
        findings = session.findings()
    result = run_result(scene.plan, findings, 0.0, pytest.fail)
    wire = scene.plan.packet.wire_bytes(16 << 10)
    # two ranks send to each other, four times: over the rail up and down, or through the domain
    assert result.jobs[0].element_bytes == {"rail:0": 4 * 2 * 2 * wire}
    assert result.jobs[1].element_bytes == {"domain:1": 4 * 2 * 2 * wire}
    assert (result.jobs[0].interference, result.fairness) == (None, None)
    by_name = {link.name: link.job_bytes for link in result.links}
    assert by_name["g0.0->r0"] == (4 * wire, 0) and by_name["g1.1->d1"] == (0, 4 * wire)


def test_the_result_of_one_job_is_that_of_an_experiment_with_it(registers: Registers) -> None:
    scene = Scene(registers, TWO, [1.0, 1.5])
    with scene.session as session:
        session.iterate()
        result = run_result(scene.plan, session.findings(), 0.0, pytest.fail)
    one = result.of_job("b")
    assert one.experiment["ranks"] == "domain:1" and "jobs" not in one.experiment
    assert {row.job for row in one.rows} == {1} and one.fabric.ranks == 4 and not one.jobs
    assert result.of_job(1).rows == one.rows
    with pytest.raises(Exception, match="there is no job 'c'; there are a, b"):
        result.of_job("c")


def test_faults_count_from_the_start_of_the_jobs_and_by_the_first_job(registers: Registers) -> None:
    faults = ["at=1s degrade rail:1 to=20%", "at=iter:3 restore rail:1"]
    scene = Scene(registers, TWO, [1.0, 1.5], fault=None, faults=faults)
    with scene.session as session:
        session.iterate()
    fired = [event.t_s - session.together_s for event in scene.events if isinstance(event, FaultInjected)]
    assert fired == pytest.approx([1.0, 3.0], abs=0.03)
    slow = [one.best_rates_bps.min() for one in scene.recorder.iterations if one.alone]
    assert slow == [session.parts.fabric.capacity_bps.min()] * 4


def test_a_job_that_fails_leaves_the_others_alone(registers: Registers) -> None:
    scene = Scene(registers, TWO, [1.0, 1.5], alone=0)
    scene.clock.after(3.0, lambda: setattr(scene.engine.jobs[1], "error", TransportError("the end")))
    with scene.session as session:
        session.iterate()
        findings = session.findings()
    assert findings.failed == {1: "the end"} and scene.engine.jobs[1].given_up
    assert [one[0] for one in scene.ended()] == [0] * 4
    result = run_result(scene.plan, findings, 0.0, pytest.fail)
    assert [job.error for job in result.jobs] == [None, "the end"]
    assert "job b failed: the end" in [note.text for note in scene.recorder.notes]


def test_a_job_may_stop_all_others_and_the_last_one_that_fails_ends_the_run(registers: Registers) -> None:
    for jobs, broken in (([TWO[0], TWO[1] + " on_failure=stop"], [1]), (TWO, [0, 1])):
        scene = Scene(registers, jobs, [1.0, 1.5])
        for number in broken:
            scene.engine.jobs[number].error = ProgramError("the end")
        with pytest.raises(ProgramError, match="job b: the end"):
            with scene.session as session:
                session.iterate()
        assert scene.engine.calls[-1] == "down"


def test_a_timeout_is_that_of_a_job(registers: Registers) -> None:
    scene = Scene(registers, [TWO[0], TWO[1] + " timeout=1s"], [1.5, 1.5], alone=0)
    with scene.session as session:
        session.iterate()
        findings = session.findings()
    assert findings.failed == {1: "iteration 0 took longer than the timeout, 1 s."}
    assert len(scene.ended()) == 4


def test_senders_of_all_jobs_learn_of_changed_routes(registers: Registers) -> None:
    jobs = ["ranks=domain:0 share=true", "ranks=all share=true"]
    scene = Scene(registers, jobs, [1.0, 1.0], fault=None, faults=["at=1s degrade rail:1 to=20%"])
    with scene.session as session:
        session.iterate()
    first, second = scene.engine.jobs
    assert first.used and [one.table.version for one in first.used] == [
        one.table.version for one in second.used
    ]


def test_tables_and_summary_are_of_each_job_and_of_all(registers: Registers) -> None:
    scene = Scene(registers, TWO, [1.0, 1.5])
    scene.clock.after(10.2, lambda: setattr(scene.engine.jobs[1], "error", TransportError("the\nend")))
    with scene.session as session:
        session.iterate()
        result = run_result(scene.plan, session.findings(), 0.0, pytest.fail)
    for columns in (None, 80):
        lines = nccl_table(result, columns).splitlines()
        titles = [line for line in lines if line.startswith("# job")]
        assert titles == [
            "# job a: 4 ranks, g0.0, g0.1, g0.2, g0.3", "# job b: 4 ranks, g1.0, g1.1, g1.2, g1.3",
        ]  # fmt: skip
    text = report(result, Path("there"))
    assert "job a, " in text and "bottleneck" in text
    assert [line.split() for line in text.splitlines() if line.startswith("b ")] == [
        ["b", "4", "1.5s", "1.5s", "1.00", "failed"]
    ]
    assert "data on   a" in text and "fairness    1.000" in text
    assert "<h4>job b</h4>" in result._repr_html_()
    assert from_document(result.document()) == result


def test_a_job_without_an_iteration_has_its_error_in_the_table(registers: Registers) -> None:
    scene = Scene(registers, TWO, [1.0, 1.5], alone=0)
    scene.engine.jobs[1].error = TransportError("the\nend")
    with scene.session as session:
        session.iterate()
        result = run_result(scene.plan, session.findings(), 0.0, pytest.fail)
    assert nccl_table(result).endswith("# failed: the\n# end\n")
    lines = report(result, Path("there")).splitlines()
    assert [line.split() for line in lines if line.startswith("b ")] == [["b", "4", "-", "-", "-", "failed"]]
