"""A session without a machine: real routing, health and control,
a fake controller and a clock moved by hand."""

from __future__ import annotations

import socket
from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
import pytest

from railweave.framework.errors import (
    ControllerError,
    HealthError,
    LabError,
    ProgramError,
    RunFailedError,
    TransportError,
)
from railweave.framework.experiment.faults import parse, resolve
from railweave.framework.experiment.plan import load_plan
from railweave.framework.hookspecs import hookimpl
from railweave.framework.judging import bottleneck
from railweave.framework.judging.bottleneck import bottlenecks
from railweave.framework.model import Fabric, Measurement, Schedule
from railweave.framework.model.events import (
    FaultInjected,
    HealthPublished,
    IterationEnded,
    PhaseStarted,
    RoutesChanged,
    RunEvent,
)
from railweave.framework.processes.channel import Channel
from railweave.framework.registry import Registers
from railweave.framework.runs.recorder import Recorder
from railweave.framework.runs.session import Session
from tests.fakes.fake_engine import BYTES_A_SECOND, FakeEngine
from tests.fakes.hand_clock import HandClock

SLOW = "degrade rail:1 to=20%"
Make = Callable[..., "Scene"]


class Scene:
    """A session, and all that a test may want to look at."""

    def __init__(
        self, registers: Registers, seconds: Callable[[int], float], changed: dict[str, Any]
    ) -> None:
        asked = {"topology.domains": 2, "topology.rails": 3, "iterations": 6, "fault": "none", **changed}
        asked = {key: value for key, value in asked.items() if value is not None}
        plan = load_plan(None, asked, registers)
        self.events: list[RunEvent] = []
        self.clock = HandClock()
        self.recorder = Recorder(plan.fabric, registers, self.events.append, self.clock.now_s)
        self.engine = FakeEngine(plan, self.recorder, self.clock, seconds)
        self.session = Session(plan, self.engine, self.recorder)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def notes(self) -> str:
        return "\n".join(note.text for note in self.recorder.notes)

    def agreements(self) -> list[bool]:
        with_times = self.session.findings().agreements
        assert list(with_times) == sorted(with_times, key=lambda one: one.t_s)
        return [one.agrees for one in with_times]


@pytest.fixture
def make(registers: Registers) -> Make:
    def scene(*faults: str, seconds: Callable[[int], float] = lambda _: 1.0, **changed: Any) -> Scene:
        chosen = {"faults": list(faults)} if faults else {}
        changed = {name.replace("__", "."): value for name, value in changed.items()}
        if faults:
            changed["fault"] = None
        return Scene(registers, seconds, {**changed, **chosen})

    return scene


def test_a_healthy_run_changes_nothing_and_takes_everything_down(make: Make) -> None:
    scene = make()
    with scene.session as session:
        session.iterate()
        findings = session.findings()
    assert [event.name for event in scene.of(PhaseStarted)] == ["bring-up", "up", "run"]
    assert scene.of(PhaseStarted)[1] == PhaseStarted("up", "a fake fabric", 0.5, 1.0)
    assert [event.iteration for event in scene.of(IterationEnded)] == list(range(6))
    assert scene.of(HealthPublished) == scene.of(RoutesChanged) == []
    assert findings.run_s == pytest.approx(6.0, abs=0.1)
    assert [record.link_bytes for record in findings.iterations] == pytest.approx(
        [session.plan.fabric.n_links * BYTES_A_SECOND] * 6, rel=0.05
    )
    # a sample every 25 ms
    assert np.diff(findings.samples.t_s) == pytest.approx(0.025)
    assert len(findings.samples.t_s) == pytest.approx(240, abs=3)
    assert scene.engine.calls == ["bring_up", "checkpoint", *["checkpoint"] * 6, "down"]


def test_a_degraded_rail_is_seen_and_left_and_its_rules_are_removed(make: Make) -> None:
    scene = make(f"at=iter:2 {SLOW}")
    with scene.session as session:
        session.iterate()
        findings = session.findings()
        assert scene.engine.arrives()
        assert session.parts.rules.at_rest
        # nothing of the old paths is left in the switches
        assert scene.engine.controller.switches.contents() == set(session.control.rules)
    (fault,) = scene.of(FaultInjected)
    (health,) = scene.of(HealthPublished)
    (reroute,) = scene.of(RoutesChanged)
    assert health.changes["rail:1"] == pytest.approx((1.0, 0.2), abs=0.03)
    # within a sample it is seen; two phases of 10 ms later the routes are in use
    assert fault.t_s < health.t_s <= fault.t_s + 0.026
    assert reroute.t_s == pytest.approx(health.t_s + 0.02, abs=0.006)
    assert [used.table.version for used in scene.engine.traffic.used] == [reroute.version]
    # what the iteration could have used is judged by the rates after the fault that came before it
    slow, healthy = findings.iterations[2].best_rates_bps, findings.iterations[1].best_rates_bps
    assert np.count_nonzero(slow < healthy) == 4
    assert (findings.truth[0].element_score < 1).sum() == 1


def test_changed_routes_are_in_use_once_the_switches_have_them(make: Make) -> None:
    """Those that are being installed are not shown as in use: two phases of 10 ms lie in between."""
    scene = make(f"at=1s {SLOW}")
    with scene.session as session:
        session.start()
        while not scene.of(RoutesChanged):
            assert session.health.table.version == 0
            asked = session.control.table.version
            session.step(5.0)
        assert asked == session.health.table.version == 1


def test_without_feedback_health_is_published_and_routes_stay(make: Make) -> None:
    scene = make(f"at=iter:2 {SLOW}", feedback=False)
    with scene.session as session:
        session.iterate()
    assert scene.of(HealthPublished) and not scene.of(RoutesChanged)


@pytest.mark.parametrize(
    "error", [LabError("no queue of link 3"), OSError(9, "Bad file descriptor"), HealthError("-1 bytes")]
)
def test_a_source_that_dies_leaves_a_run_without_feedback(make: Make, error: Exception) -> None:
    """It dies at 1.5 s, the fault comes at 2 s: nothing is published, and the run ends all the same."""
    scene = make(f"at=iter:2 {SLOW}")
    with scene.session as session:
        measure = session.parts.source.measure

        def dying() -> Measurement:
            if scene.clock.now_s() > 1.5:
                raise error
            return measure()

        session.parts.source.measure = dying  # type: ignore[method-assign]
        session.iterate()
        findings = session.findings()
    assert findings.blind_s == pytest.approx(1.5, abs=0.03) and findings.samples.t_s[-1] <= 1.5
    assert len(findings.iterations) == 6 and not scene.of(HealthPublished) and not scene.of(RoutesChanged)
    (note,) = scene.recorder.notes
    assert note.text.startswith("health is no longer measured: ") and str(error) in note.text


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda scores: scores * np.nan, "returns nan for link "),
        (lambda scores: -scores, "returns -1.0 for link "),
        (lambda scores: scores[1:], r"returns shape \(\d+,\), not "),
    ],
)
def test_an_estimator_that_breaks_its_contract_in_a_run_ends_it(
    make: Make, answer: Callable[[Any], Any], words: str
) -> None:
    """Bad input that was refused before anything started has exit code 2; this has 1."""
    scene = make()
    with pytest.raises(RunFailedError, match=f"estimator delay.*{words}") as failed, scene.session as session:
        monitor = session.monitor

        class Broken:
            def scores(self, fabric: Fabric, *_: Any) -> Any:
                scores = np.ones(fabric.n_links)
                return answer(scores) if scene.clock.now_s() > 1.5 else scores

        monitor.estimator = Broken()  # type: ignore[assignment]
        session.iterate()
    assert failed.value.exit_code == 1
    assert [event.iteration for event in scene.of(IterationEnded)] == [0]


@pytest.mark.parametrize("feedback", [True, False])
def test_the_critical_path_follows_the_routes_in_use(make: Make, feedback: bool) -> None:
    """Two transfers between the GPUs of rail 1, 2 s each; the rail is slow from the second iteration on."""
    src, dst, zero = np.array([1, 4]), np.array([4, 1]), np.zeros(2, np.int64)
    there_and_back = Schedule(
        "ping", 6, 4096, "float32", "sum", 4096, src, dst, zero, zero, zero + 4096, zero, zero,
        np.array([0, 0, 1]), np.array([0]),
    )  # fmt: skip
    scene = make(f"at=iter:1 {SLOW}", iterations=3, seconds=lambda _: 4.0, feedback=feedback)
    with scene.session as session:
        session.start()
        records = [session.iterate_once(iteration, there_and_back) for iteration in range(3)]
        findings = session.findings()
    assert [len(record.result.end_s) for record in (*records, *findings.iterations)] == [2] * 3 + [0] * 3
    fabric, crossed = session.plan.fabric, []
    for record in records:
        path = record.critical
        assert path is not None
        assert path.begin_s.tolist() == [0.0, *path.end_s[:-1]] and path.end_s[-1] == 4.0
        assert path.link_bytes == pytest.approx(4 * BYTES_A_SECOND, rel=0.05)
        hops = [path.paths.paths(part)[0].links for part in range(len(path.end_s))]
        crossed.append([max(fabric.link_element[list(links)]) - fabric.n_gpus - 2 for links in hops])
    named = bottlenecks(fabric, findings.iterations, findings.samples, 1.25)
    assert [one.iteration for one in named] == [0, 1, 2, None]
    assert named[0].balanced and named[0].element == "rail:1"
    if feedback:  # rerouted during the first transfer of the second iteration
        assert crossed[:2] == [[1, 1], [1, *crossed[2]]] and 1 not in crossed[2]
        assert all(one.element != "rail:1" for one in named[1:3])
    else:
        assert crossed == [[1, 1]] * 3
        assert [(one.element, one.share, one.balanced) for one in named[1:]] == [("rail:1", 1.0, False)] * 3


def test_an_oracle_is_told_of_what_no_measurement_shows(make: Make) -> None:
    """The fake's links never show losses; the ground truth holds them."""
    blind = make("at=iter:2 loss rail:1 rate=50%")
    knowing = make("at=iter:2 loss rail:1 rate=50%", oracle=True)
    for scene in (blind, knowing):
        with scene.session as session:
            session.iterate()
    assert not blind.of(RoutesChanged)
    (reroute,) = knowing.of(RoutesChanged)
    assert "rail:1 1.00 -> 0.12" in reroute.why  # 0.5 / (1 + 6 x 0.5)
    assert not knowing.of(HealthPublished)


@pytest.mark.parametrize("mode", [{}, {"oracle": True}, {"feedback": False}], ids=str)
def test_senders_are_told_of_links_that_are_up_again(make: Make, mode: dict[str, bool]) -> None:
    """By what follows health; without feedback nothing does."""
    scene = make("at=iter:1 down rail:1", "at=iter:2 up rail:1", "at=iter:3 down rail:1", **mode)
    with scene.session as session:
        session.iterate()
    assert scene.engine.traffic.retries == (0 if "feedback" in mode else 1)


def test_a_pair_keeps_its_path_for_the_dwell_time(make: Make) -> None:
    """Rail 1 is slow for 0.4 s only: its pairs leave it at once and come back when 2 s have gone."""
    times: list[float] = []
    for dwell in (0.0, 2.0):
        scene = make(f"at=iter:1 {SLOW}", "at=iter:1+400ms restore rail:1", health__dwell=dwell)
        with scene.session as session:
            session.iterate()
        away, back = scene.of(RoutesChanged)
        times.append(back.t_s - away.t_s)
    assert times[0] == pytest.approx(0.4, abs=0.06)
    assert times[1] == pytest.approx(2.0, abs=0.06)


def test_a_killed_controller_comes_back_and_agrees(make: Make) -> None:
    scene = make("at=iter:2 kill controller")
    with scene.session as session:
        session.iterate()
        assert scene.engine.controller.switches.contents() == set(session.control.rules)
        assert scene.agreements() == [True, False, True]
    assert scene.engine.controller.starts == 2
    assert "the controller died and is started again" in scene.notes()
    assert f"{len(session.control.rules)} rules agree with the switches" in scene.notes()


def test_a_reroute_that_the_controller_dies_with_is_put_in_place_by_the_resync(make: Make) -> None:
    """The controller is killed between the two phases of the update."""
    scene = make(f"at=iter:2 {SLOW}")
    scene.engine.controller.delay_s = 0.1
    with scene.session as session:
        session.start()
        session.faults.begin_iteration(2)
        scene.clock.after(0.15, scene.engine.controller.kill)
        while not scene.of(RoutesChanged):
            assert session.parts.rules.at_rest is False or scene.clock.now_s() < 0.05
            session.step(5.0)
        assert scene.engine.controller.starts == 2
        assert scene.engine.controller.switches.contents() == set(session.control.rules)
        assert scene.engine.arrives()
        session.step()
        assert session.parts.rules.at_rest  # the resync left nothing to remove


def test_a_fault_during_a_reroute_waits_for_its_end_and_is_answered_then(make: Make) -> None:
    scene = make(f"at=100ms {SLOW}", "at=250ms degrade rail:2 to=10%", health__dwell=0)
    scene.engine.controller.delay_s = 0.3  # 0.6 s for both phases
    with scene.session as session:
        session.iterate()
        assert scene.engine.arrives()
    first, second, *_ = scene.of(RoutesChanged)
    seen = [event for event in scene.of(HealthPublished) if "rail:2" in event.changes]
    assert seen[0].t_s < first.t_s  # seen at once, acted on when the first change is in use
    assert second.t_s == pytest.approx(first.t_s + 0.6, abs=0.05)
    assert "rail:2" in second.why


def test_a_carrier_lost_while_no_controller_listens_is_reported_by_its_successor(make: Make) -> None:
    scene = make("at=1s kill controller", "at=1100ms down rail:1")
    with scene.session as session:
        session.iterate()
        assert scene.engine.arrives()
        assert len(scene.engine.link.down_links) == 4
    reroute = scene.of(RoutesChanged)[0]
    assert reroute.t_s > 1.3  # the successor starts 0.3 s after the death
    assert "rail:1 1.00 -> 0.00" in reroute.why


def test_a_controller_that_dies_too_often_ends_the_run(make: Make) -> None:
    scene = make(*(f"at={i}s kill controller" for i in range(1, 5)))
    with pytest.raises(ControllerError, match=r"died 4 times\. killed"), scene.session as session:
        session.iterate()
    assert scene.engine.controller.starts == 4
    assert scene.engine.calls[-1] == "down"


def test_an_iteration_that_takes_too_long_fails_the_run(make: Make) -> None:
    scene = make(seconds=lambda i: float("inf") if i == 3 else 0.5, timeout="2s")
    with (
        pytest.raises(TransportError, match="iteration 3 took longer than the timeout, 2 s"),
        scene.session as session,
    ):
        session.iterate()
    assert scene.clock.now_s() == pytest.approx(1.5 + 2.0, abs=0.1)
    assert len(scene.of(IterationEnded)) == 3
    assert scene.engine.calls[-1] == "down"


def test_faults_count_from_an_iteration_or_from_the_start(make: Make) -> None:
    texts = ("at=iter:2 degrade rail:0 to=90%", "at=1700ms degrade rail:1 to=90%",
             "at=iter:2+300ms degrade rail:2 to=90%", "at=99s down rail:0")  # fmt: skip
    scene = make(*texts, seconds=lambda _: 0.5)
    with scene.session as session:
        session.iterate()
    assert {event.text: pytest.approx(event.t_s, abs=0.005) for event in scene.of(FaultInjected)} == {
        texts[0]: 1.0, texts[1]: 1.7, texts[2]: 1.3,
    }  # fmt: skip


def test_faults_that_are_due_at_once_happen_by_their_times_then_as_they_are_written(make: Make) -> None:
    """Nothing looked at the clock for 5 s; an iteration begins then."""
    times = ("2s", "iter:3+500ms", "iter:3", "1s", "1s", "5s", "1500ms")
    texts = [f"at={at} degrade rail:{i % 3} to=9{i}%" for i, at in enumerate(times)]
    scene = make(*texts)
    with scene.session as session:
        session.start()
        scene.clock.wait(5.0)
        session.faults.begin_iteration(3)
        scene.clock.wait(5.5)
        session.faults.advance()
    assert [texts.index(event.text) for event in scene.of(FaultInjected)] == [3, 4, 6, 0, 2, 5, 1]


def test_an_iteration_is_judged_by_the_best_rates_that_it_saw(make: Make) -> None:
    """Rail 1 is slow from the middle of iteration 1 to the middle of iteration 3."""
    scene = make(f"at=iter:1+500ms {SLOW}", "at=iter:3+500ms restore rail:1", feedback=False)
    with scene.session as session:
        session.iterate()
    slow = [
        np.count_nonzero(i.best_rates_bps < session.plan.fabric.capacity_bps)
        for i in session.recorder.iterations
    ]
    assert slow == [0, 0, 4, 0, 0, 0]


def test_a_session_may_be_told_not_to_probe_and_to_leave_the_faults_to_its_owner(make: Make) -> None:
    for quiet in (False, True):
        scene = make(f"at=iter:1 {SLOW}")
        session = Session(
            scene.session.plan, scene.engine, scene.recorder, faults=() if quiet else None, probing=not quiet
        )
        with session:
            session.iterate()
        assert bool(scene.engine.source.probes) is not quiet
        assert bool(scene.of(FaultInjected)) is not quiet


def test_a_bring_up_that_fails_is_taken_down(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = make()

    def fails(control: object) -> None:
        raise LabError("no switch")

    monkeypatch.setattr(scene.engine, "bring_up", fails)
    with pytest.raises(LabError, match="no switch"), scene.session:
        raise AssertionError("it is not up")
    assert scene.engine.calls == ["down"]


def test_settling_after_a_fault_waits_until_the_routes_are_still(make: Make) -> None:
    scene = make()
    scene.engine.controller.delay_s = 0.2  # so that the reroute comes well after the fault
    fault = make(f"at=iter:0 {SLOW}").session.plan.faults[0]
    with scene.session as session:
        session.settle_after(fault, quiet_s=1.0, within_s=20.0)
        (reroute,) = scene.of(RoutesChanged)
        assert scene.clock.now_s() == pytest.approx(reroute.t_s + 1.0, abs=0.06)
        scene.engine.controller.kill()
        with pytest.raises(LabError, match="still moving 0 s after"):
            session.settle_after(fault, quiet_s=5.0, within_s=0.2)


def test_observers_see_the_run_as_it_goes(registers: Registers) -> None:
    seen: list[str] = []

    class Observer:
        @hookimpl
        def on_fabric_up(self, fabric: Any, endpoints: Any) -> None:
            seen.append(f"up {fabric.n_gpus}")

        @hookimpl
        def on_health(self, health: Any, measurement: Any) -> None:
            seen.append(f"health {health.version}")

        @hookimpl
        def on_reroute(self, table: Any, pairs_changed: int) -> None:
            seen.append(f"reroute {table.version} {pairs_changed}")
            raise ValueError("observers may fail")

        @hookimpl
        def on_iteration(self, result: Any, t_s: float) -> None:
            seen.append(f"iteration {result.iteration}")

    plugins = [*registers.manager.list_name_plugin(), ("watching", Observer())]
    scene = Scene(
        Registers(plugins), lambda _: 1.0, {"iterations": 2, "fault": None, "faults": [f"at=iter:1 {SLOW}"]}
    )
    with scene.session as session:
        session.iterate()
    moved = scene.of(RoutesChanged)[0].pairs_changed
    assert seen == ["up 6", "iteration 0", "health 1", f"reroute 1 {moved}", "iteration 1"]
    assert "observer watching: on_reroute fails with ValueError: observers may fail" in scene.notes()


def test_findings_travel_through_a_channel_as_they_are(make: Make) -> None:
    scene = make(f"at=iter:2 {SLOW}", "at=iter:3 kill controller")
    with scene.session as session:
        session.iterate()
        findings = session.findings()
    ours, other = map(Channel, socket.socketpair())
    ours.send({"findings": findings})
    assert other.receive()["findings"] == findings
    assert findings.truth and findings.reroutes and findings.health and findings.notes
    ours.close()
    other.close()


def a_program(**keys: Any) -> dict[str, Any]:
    """The changes that make the scene's experiment one of a program."""
    return {"program": "true", "iterations": None, **keys}


def test_a_program_has_as_many_iterations_as_it_marks(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fourth never ends, as the program does instead. All links carry the same, but rail 1 has a fifth of
    its rate for most of the time: by hand, its links are busy longest."""
    monkeypatch.setattr(bottleneck, "BUSY", 0.0)  # fake links carry next to nothing
    times = [1.0, 2.0, 3.0, -1.0]
    fault = f"at=iter:1 {SLOW}"
    scene = make(fault, seconds=lambda iteration: times[iteration], feedback=False, **a_program())
    with scene.session as session:
        session.iterate()
        findings = session.findings()
    assert [record.result.seconds for record in findings.iterations] == times[:3]
    assert scene.of(PhaseStarted)[2].text == "a program on 6 ranks"
    assert [event.text for event in scene.of(FaultInjected)] == [fault]
    named = bottlenecks(session.parts.fabric, findings.iterations, findings.samples, 1.25)
    assert [(one.iteration, one.element, one.balanced) for one in named[1:]] == [
        (1, "rail:1", False), (2, "rail:1", False), (None, "rail:1", False),
    ]  # fmt: skip


def test_health_moves_the_routes_of_a_program(make: Make) -> None:
    """By scores alone, as what it will send is not known: one change of routes is enough."""
    scene = make(f"at=1s {SLOW}", seconds=lambda iteration: 30.0 if iteration == 0 else -1.0, **a_program())
    with scene.session as session:
        session.iterate()
    assert len(scene.of(RoutesChanged)) == 1


def test_a_program_has_one_timeout_for_all(make: Make) -> None:
    scene = make(seconds=lambda _: 1.0, **a_program(timeout="3500ms"))
    with scene.session as session, pytest.raises(ProgramError, match=r"longer than the timeout, 3\.5 s"):
        session.iterate()
    assert len(scene.of(IterationEnded)) == 3


def test_a_session_carries_other_plans_and_each_finds_its_own(make: Make, registers: Registers) -> None:
    """A fault in force counts as injected when a run begins; one that was not due yet is dropped with its
    run. A link carries 1,000 bytes a second."""
    scene, other = make(), make("at=5s down rail:2", iterations=2).session.plan
    with scene.session as session:
        session.start()
        session.faults.inject(resolve(parse(f"at=0s {SLOW}"), session.plan.fabric))
        session.step(100.0)
        began_s = scene.clock.now_s()
        for _ in range(2):
            with session.carrying(other):
                session.iterate()
                findings = session.findings()
            assert [record.result.iteration for record in findings.iterations] == [0, 1]
            assert [fault.text for fault in findings.faults] == [f"at=0s {SLOW}"]
            assert findings.faults[0].t_s == findings.truth[0].t_s >= began_s
            assert findings.links.sent_bytes == pytest.approx(2 * BYTES_A_SECOND)
            assert findings.run_s == pytest.approx(2.0)
        assert session.faults.next_s == inf
        session.faults.inject(resolve(parse("at=0s restore rail:1"), session.plan.fabric))
        with session.carrying(other):
            assert session.findings().faults == ()
