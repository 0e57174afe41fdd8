"""The runner around an engine that only returns findings: what is written when,
and whom a plugin's mistake hurts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from railweave.framework.analysis.limits.timeline import Timeline
from railweave.framework.errors import InputError, LabError, MachineError, RunFailedError
from railweave.framework.experiment.plan import Plan, load_plan
from railweave.framework.experiment.schema import Choice
from railweave.framework.fabric_files import load
from railweave.framework.hookspecs import Callers, Configurable, Engine, hookimpl
from railweave.framework.judging.run_result import run_result
from railweave.framework.model import HealthSnapshot
from railweave.framework.model.events import (
    FaultInjected,
    Note,
    PhaseStarted,
    Progress,
    RoutesChanged,
    RunEvent,
)
from railweave.framework.model.findings import EngineFacts, Findings
from railweave.framework.registry import Registers, load_plugins
from railweave.framework.results.directory import RunDirectory
from railweave.framework.runs import runner
from railweave.framework.runs.fault_timetable import GroundTruth
from tests.fakes.findings import findings, iteration

EVENTS = (PhaseStarted("bring-up"), Progress(0, 1, 2), PhaseStarted("tear-down"))


class FoundEngine(Engine):
    """Knows nothing but findings, as an engine without machine, switches or controller would."""

    summary = "what was found"

    def __init__(self, found: Findings | Exception) -> None:
        self.found, self.told = found, ()

    def run(
        self,
        plan: Plan,
        observers: Callers,
        emit: Callable[[RunEvent], None],
        directory: str | None = None,
        pcap: int | None = None,
    ) -> Findings:
        self.told = (directory, pcap)
        for event in EVENTS:
            emit(event)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


class Collective:
    """The plan's collective, of which a method may be replaced."""

    def __init__(self, real: Any, **changed: Any) -> None:
        self._real, self._changed = real, changed

    def __getattr__(self, name: str) -> Any:
        return self._changed.get(name) or getattr(self._real, name)


class Watching:
    """A plugin with an observer and a report; `seen`: the files in the run directory as each was called."""

    def __init__(self, *, failing: bool = False) -> None:
        self.seen: dict[str, list[str]] = {}
        self.results: list[Mapping[str, Any]] = []
        self._failing = failing

    @hookimpl
    def on_run_end(self, result: Mapping[str, Any], directory: str | None) -> None:
        self._saw("observer", result, directory)

    @hookimpl
    def register_reports(self, register: Callable[[str, Any], None]) -> None:
        watching = self

        class Mine(Configurable):
            summary = "a report"

            def write(self, result: Mapping[str, Any], directory: str) -> None:
                watching._saw("report", result, directory)

        register("mine", Mine())

    def _saw(self, who: str, result: Mapping[str, Any], directory: str | None) -> None:
        self.seen[who] = [] if directory is None else sorted(path.name for path in Path(directory).iterdir())
        self.results.append(result)
        if self._failing:
            raise KeyError("gpu")


@pytest.fixture
def plan(registers: Registers) -> Plan:
    """Two all-reduces without transfers over 2 x 2 GPUs; the engine finds them healthy."""
    made = load_plan(
        None, {"topology.domains": 2, "topology.rails": 2, "iterations": 2, "fault": "none"}, registers
    )
    real = made.collective
    methods = {"busbw_factor": lambda n: 2 * (n - 1) / n, "closed_form_s": lambda *_: 0.95}
    found = findings(made.fabric, [iteration(made.fabric, i, float(i)) for i in range(2)])
    return replace(made, collective=Collective(real, **methods), engine=FoundEngine(found))


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", "x")


def test_everything_is_written_and_progress_alone_is_not(
    plan: Plan, registers: Registers, directory: RunDirectory
) -> None:
    heard: list[RunEvent] = []
    result = runner.run(plan, registers, directory, heard.append)
    assert sorted(path.name for path in directory.path.iterdir()) == [
        "events.jsonl", "experiment.yaml", "health.npz", "result.json",
    ]  # fmt: skip
    assert heard == list(EVENTS)
    lines = (directory.path / "events.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        event.to_document() for event in EVENTS if not isinstance(event, Progress)
    ]
    assert json.loads((directory.path / "result.json").read_text()) == result.document()
    assert plan.engine.told == (str(directory.path), None)  # type: ignore[attr-defined]


def test_the_fabric_of_a_file_is_kept_with_the_run(
    plan: Plan, registers: Registers, directory: RunDirectory
) -> None:
    choice = {"topology": Choice(name="file", options={"file": "mine.yaml"})}
    runner.run(replace(plan, experiment=plan.experiment.model_copy(update=choice)), registers, directory)
    assert load(directory.path / "fabric.yaml").fabric == plan.fabric


def test_an_engine_needs_no_facts_to_have_a_result(plan: Plan, registers: Registers) -> None:
    result = runner.run(plan, registers)
    assert result.fidelity.verdict == "pass"
    assert result.summary.busbw_gbs == pytest.approx(1.5 * result.summary.algbw_gbs)
    assert result.memory_peak_mb is None and result.cpu_s == {}
    assert result.notes == ()


def test_the_facts_of_an_engine_are_judged(plan: Plan, registers: Registers) -> None:
    facts = EngineFacts(
        versions={"openvswitch": "3.1.0"}, cores=2, switch_cores=1, cpu_s={"switches": 1.95, "control": 0.01},
        memory_peak_bytes=5_000_000, rules=7, install_s=0.25,
    )  # fmt: skip
    plan.engine.found = replace(plan.engine.found, facts=facts)  # type: ignore[attr-defined]
    result = runner.run(plan, registers)
    assert result.versions["openvswitch"] == "3.1.0"
    assert (result.controller.rules, result.controller.install_s, result.memory_peak_mb) == (7, 0.25, 5.0)
    (reason,) = result.fidelity.reasons  # 1.95 s of 2 s on one core; of the machine's two it is half
    assert "98% of their cores" in reason


def test_times_are_judged_by_the_links_and_the_latency_of_a_packet(plan: Plan) -> None:
    """Both iterations take 1 s. At the scale at which the links need 1 s that is a pass; links
    twice as fast, or slower ones, need another time, and 0.3 s of latency make up too much of it."""
    sized = {"topology.domains": 2, "topology.rails": 2, "size": "1M", "fault": "none"}
    plan = replace(plan, schedules=load_plan(None, sized, load_plugins()).schedules)
    table = plan.router.routes(plan.fabric, HealthSnapshot.healthy(plan.fabric))
    needed_s = Timeline(plan.fabric, plan.schedule, table, plan.packet).seconds()

    def reasons(latency_s: float, scale: float) -> tuple[str, ...]:
        facts = EngineFacts(packet_latency_s=latency_s)
        found = replace(plan.engine.found, facts=facts, rate_scale=scale)  # type: ignore[attr-defined]
        return run_result(plan, found, 0.0, print).fidelity.reasons

    assert reasons(0.0, needed_s) == reasons(0.003, needed_s) == ()
    (slow,) = reasons(0.0, 2 * needed_s)
    assert slow.startswith("healthy iterations took 2.00 times what links need")
    assert reasons(0.0, 0.8 * needed_s) == ("healthy iterations took 0.80 times what links need",)
    (reason,) = reasons(0.3, needed_s)
    assert "the latency of packets through the emulator makes up" in reason


@pytest.mark.parametrize(
    ("method", "error", "text"),
    [
        ("busbw_factor", KeyError("gpu"), "all-reduce: busbw_factor fails with KeyError: 'gpu'"),
        ("busbw_factor", float("nan"), "all-reduce: busbw_factor returns nan, which is not a finite number"),
        ("busbw_factor", "much", "all-reduce: busbw_factor fails with TypeError"),
        (
            "closed_form_s",
            ZeroDivisionError("no rails"),
            "all-reduce: closed_form_s fails with ZeroDivisionError",
        ),
    ],
)
def test_a_collective_that_fails_after_the_run_loses_no_run(
    plan: Plan, registers: Registers, directory: RunDirectory, method: str, error: Any, text: str
) -> None:
    def answer(*_: object) -> Any:
        if isinstance(error, Exception):
            raise error
        return error

    heard: list[RunEvent] = []
    broken = replace(plan, collective=Collective(plan.collective, **{method: answer}))
    result = runner.run(broken, registers, directory, heard.append)
    (note,) = result.notes
    assert note.startswith(text)
    if isinstance(error, Exception):
        assert "test_runner.py:" in note
    assert [event for event in heard if isinstance(event, Note)] == [Note(note)]
    row = json.loads((directory.path / "result.json").read_text())["rows"][-1]
    figure = "busbw_gbs" if method == "busbw_factor" else "model_us"
    assert row[figure] is None and row["algbw_gbs"] > 0


def test_the_result_is_written_before_any_report_or_observer_is_called(
    plan: Plan, registers: Registers, directory: RunDirectory
) -> None:
    watching = Watching()
    known = Registers([*registers.manager.list_name_plugin(), ("watching", watching)])
    result = runner.run(replace(plan, reports=dict(known["report"])), known, directory)
    assert all("result.json" in files for files in watching.seen.values())
    assert list(watching.seen) == ["report", "observer"]
    assert watching.results == [result.document()] * 2


def test_reports_and_observers_that_fail_are_named_in_the_result(
    plan: Plan, registers: Registers, directory: RunDirectory
) -> None:
    known = Registers([*registers.manager.list_name_plugin(), ("watching", Watching(failing=True))])
    result = runner.run(replace(plan, reports=dict(known["report"])), known, directory)
    assert [note.partition(" fails with")[0] for note in result.notes] == [
        "report mine", "observer watching: on_run_end",
    ]  # fmt: skip
    assert all("KeyError: 'gpu' (" in note and "test_runner.py:" in note for note in result.notes)
    assert json.loads((directory.path / "result.json").read_text())["notes"] == list(result.notes)


def test_without_a_directory_nothing_is_written_and_observers_hear_all_the_same(
    plan: Plan, registers: Registers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    watching = Watching()
    known = Registers([*registers.manager.list_name_plugin(), ("watching", watching)])
    runner.run(plan, known)
    assert watching.seen == {"observer": []}
    assert list(tmp_path.iterdir()) == []


def test_a_run_works_from_a_worker_thread(plan: Plan, registers: Registers) -> None:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(runner.run(plan, registers)))
    thread.start()
    thread.join(20)
    assert [result.fidelity.verdict for result in results] == ["pass"]


def test_packets_cannot_be_captured_into_no_directory(plan: Plan, registers: Registers) -> None:
    with pytest.raises(InputError, match="this run keeps none"):
        runner.run(replace(plan, pcap_links=(0,)), registers)


def test_a_refused_run_leaves_nothing_and_a_failed_one_its_events(
    plan: Plan, registers: Registers, tmp_path: Path
) -> None:
    for error, left in (
        (MachineError("no tun"), None),
        (LabError("died"), ["events.jsonl", "experiment.yaml"]),
    ):
        directory = RunDirectory.create(tmp_path / type(error).__name__, "x")
        with pytest.raises(type(error)):
            runner.run(replace(plan, engine=FoundEngine(error)), registers, directory)
        assert (sorted(p.name for p in directory.path.iterdir()) if directory.path.exists() else None) == left


def test_faults_are_timed_by_what_was_found(registers: Registers, plan: Plan) -> None:
    asked = {
        "topology.domains": 2,
        "topology.rails": 2,
        "iterations": 2,
        "fault": "at=iter:1 degrade rail:1 to=20%",
    }
    made = load_plan(None, asked, registers)
    (fault,) = made.faults
    record = plan.engine.found  # type: ignore[attr-defined]
    known = GroundTruth(made.fabric, made.experiment.health)
    known.inject(fault, 1.0)
    scores = record.samples.element_score.repeat(4, axis=0)
    scores[2:, made.fabric.node_ids["r1"]] = 0.2
    links = made.fabric.element_links(made.fabric.node_ids["r1"]).tolist()
    waited = np.zeros((4, made.fabric.n_links), np.float32)
    waited[:, 0], waited[2:, links[0]] = 1e9, 12 * made.packet.full_packet_bytes
    samples = replace(
        record.samples,
        t_s=np.array([0.5, 1.0, 1.25, 1.5]),
        **{
            name: getattr(record.samples, name).repeat(4, axis=0)
            for name in ("queue_bytes", "service_bps", "link_score")
        },
        element_score=scores,
        waited_bytes=waited,
    )
    found = replace(
        record, samples=samples, truth=(known.snapshot,), faults=(FaultInjected(1.0, fault.text, job=3),),
        reroutes=(RoutesChanged(1.75, 1, 4, "rail:1 1.00 -> 0.20", job=3),),
    )  # fmt: skip
    result = runner.run(replace(made, collective=plan.collective, engine=FoundEngine(found)), registers)
    assert (result.faults[0].detected_s, result.faults[0].recovered_s) == (0.25, 0.75)
    assert result.faults[0].published_s == 0.25
    assert result.faults[0].allowance_s == 0.5 + 0.25  # 12 packets in each interval that ends after 1.25 s
    assert result.faults[0].link_scores == {made.fabric.link_name(link): 1.0 for link in links}
    assert [row.iteration for row in result.rows if row.iteration is not None] == [0, 1]
    assert (result.faults[0].job, result.reroutes[0].job) == (3, 3)


def test_iterations_of_no_job_are_no_result(plan: Plan, registers: Registers) -> None:
    engine: Any = plan.engine
    iterations = tuple(replace(i, job=2) for i in engine.found.iterations)
    engine.found = replace(engine.found, iterations=iterations)
    with pytest.raises(RunFailedError, match="no iteration ended"):
        runner.run(plan, registers)
