"""One run as its caller sees it: start the engine, pass on events, make the result, call the plugins."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from railweave.framework.errors import (
    InputError,
    MachineError,
    RailweaveError,
    RunFailedError,
    UnwrittenError,
)
from railweave.framework.experiment.engines import instead, predicting
from railweave.framework.experiment.plan import Plan, from_document
from railweave.framework.fabric_files import text_of
from railweave.framework.judging.agreement import with_prediction
from railweave.framework.judging.link_figures import (
    is_large,
    link_arrays,
    trace_arrays,
)
from railweave.framework.judging.rank_times import rank_arrays
from railweave.framework.judging.run_result import run_result
from railweave.framework.model.events import Note, PhaseStarted, Printed, Progress, RunEvent, Sampled
from railweave.framework.model.findings import Findings
from railweave.framework.processes.memory import machine_bytes
from railweave.framework.registry import Registers
from railweave.framework.results.directory import RunDirectory
from railweave.framework.results.result import RunResult
from railweave.framework.results.rule_file import by_switch, rules_json
from railweave.framework.runs.observers import Observers, write_reports


class Journal:
    """Passes on the events of a run, keeps the lasting ones in its directory, and collects its `notes`."""

    def __init__(self, directory: RunDirectory | None, on_event: Callable[[RunEvent], None]) -> None:
        self._directory, self._on_event = directory, on_event
        self.notes: list[str] = []

    def emit(self, event: RunEvent) -> None:
        if self._directory is not None and not isinstance(event, Progress | Printed | Sampled):
            self._directory.append_event(event)
        self._on_event(event)

    def note(self, text: str) -> None:
        self.notes.append(text)
        self.emit(Note(text))


def run(
    plan: Plan,
    registers: Registers,
    directory: RunDirectory | None = None,
    on_event: Callable[[RunEvent], None] = lambda event: None,
    *,
    predict: bool = False,
) -> RunResult:
    """Carry the plan out and return its result; `on_event` receives the run's events live. `predict`: a model
    computes the same, once the run is over, so that it takes no processor from the run.

    With a `directory`, everything is written there, `result.json` before any report or observer is called. A
    plugin that fails once the run has ended becomes a note of the result and loses nothing.

    Raises InputError when the run is refused before anything ran (an otherwise empty directory is removed
    again); LabError, ControllerError, TransportError or MachineError when it failed; UnwrittenError, which
    holds the result, where there is no room for it. What the engine started is gone then.
    """
    path = None if directory is None else str(directory.path.absolute())
    journal = Journal(directory, on_event)
    try:
        if directory is not None:
            _write_inputs(plan, directory)
        _check_directory(plan, path)
        predictor = _predictor(plan, registers) if predict else None
        for text in plan.notes:
            journal.note(text)
        findings, tear_down_s = _carried_out(plan, registers, path, journal.emit)
    except InputError:
        if directory is not None:
            directory.discard()
        raise
    journal.notes += [item.text for item in findings.notes]
    result = run_result(plan, findings, tear_down_s, journal.note)
    if predictor is not None:
        result = with_prediction(result, _predicted(predictor, findings, journal.note))
    result = replace(result, notes=tuple(journal.notes))
    try:
        if directory is not None and path is not None:
            _write(plan, findings, result, directory)
            write_reports(plan.reports, result.document(), path, journal.note)
        observers = Observers(registers, journal.note)
        if observers.heard("on_run_end"):
            observers.fire("on_run_end", result=result.document(), directory=path)
        if tuple(journal.notes) != result.notes:
            result = replace(result, notes=tuple(journal.notes))
            if directory is not None:
                directory.write_result(result)
    except RunFailedError as error:
        raise UnwrittenError(str(error), result) from error
    return result


def _write_inputs(plan: Plan, directory: RunDirectory) -> None:
    """The experiment, and the fabric where it comes from a file, which may change later."""
    directory.write_text("experiment.yaml", plan.yaml())
    if plan.experiment.topology.name == "file":
        directory.write_text("fabric.yaml", text_of(plan.fabric)[0])


def _write(plan: Plan, findings: Findings, finished: RunResult, directory: RunDirectory) -> None:
    """Everything of the run but its events."""
    directory.write_arrays("health.npz", vars(findings.samples))
    if findings.paths is not None:
        directory.write_arrays("routes.npz", vars(findings.paths))
    if timed := rank_arrays(findings.iterations, [job.ranks for job in plan.jobs]):
        directory.write_arrays("ranks.npz", timed)
    if findings.rules:
        directory.write_text("rules.json", rules_json(by_switch(plan.fabric, findings.rules)))
    scaled = plan.fabric.scaled(findings.rate_scale)
    if is_large(plan.fabric):
        directory.write_arrays("links.npz", link_arrays(scaled, findings))
    if findings.trace is not None:
        directory.write_arrays("trace.npz", trace_arrays(scaled, findings, findings.trace))
    directory.write_result(finished)


def _check_directory(plan: Plan, directory: str | None) -> None:
    """Raises InputError where something is to be written that has no place."""
    written = {"pcap": bool(plan.pcap_links), "trace": plan.experiment.trace != "none"}
    for key in (key for key, wanted in written.items() if wanted and directory is None):
        raise InputError(
            f"{key}: it is written into the run directory, and this run keeps none. Give it a directory, or "
            f"leave {key} out."
        )


def _predictor(plan: Plan, registers: Registers) -> Plan:
    """The same plan for the model. Raises ExperimentError where the model cannot carry it out, InputError
    where the plan itself is one of a model."""
    if plan.engine.predicts:
        name = plan.experiment.engine.name
        raise InputError(f"predict: the engine {name} computes the run itself. Leave one of them out.")
    document = {**plan.document(), "engine": {"name": predicting(registers)}, "pcap": []}
    return from_document(document, registers)


def _predicted(plan: Plan, measured: Findings, note: Callable[[str], None]) -> RunResult | None:
    """What a model says of a run that was `measured`; None where it fails, and `note` says why. Observers see
    nothing of it."""
    pinned = plan.at_scale(measured.rate_scale, measured.facts.packet_latency_s)
    try:
        findings, _ = _carried_out(pinned, Registers(()), None, lambda _: None)
        return run_result(pinned, findings, 0.0, note)
    except RailweaveError as error:  # the run has its result
        note(f"there is no prediction: {error}")
        return None


def _carried_out(
    plan: Plan, registers: Registers, directory: str | None, emit: Callable[[RunEvent], None]
) -> tuple[Findings, float]:
    """What the engine found, and the seconds that its tear-down took. Raises MachineError where this machine
    has too little memory."""
    check_memory(plan, registers)
    began = time.monotonic()
    tear_down_began: list[float] = []

    def timed(event: RunEvent) -> None:
        if isinstance(event, PhaseStarted) and event.name == "tear-down":
            tear_down_began.append(time.monotonic())
        emit(event)

    with contextlib.ExitStack() as stack:
        pcap = None
        if plan.pcap_links and directory is not None:
            pcap = stack.enter_context(Path(directory, "capture.pcapng").open("wb")).fileno()
        findings = plan.engine.run(plan, registers, timed, directory, pcap)
    tear_down_began.append(began + findings.bring_up_s + findings.run_s)  # for an engine that does not say so
    return findings, max(0.0, time.monotonic() - tear_down_began[0])


def check_memory(plan: Plan, registers: Registers) -> None:
    """Raises MachineError for a run that needs more memory than this machine has."""
    needed, available = plan.estimate.memory_bytes, machine_bytes()
    if needed is not None and available is not None and needed > available:
        other = "" if plan.engine.predicts else instead(registers)
        raise MachineError(
            f"the run needs about {needed / 1e9:.3g} GB of memory, and this machine has "
            f"{available / 1e9:.3g} GB. Lower the size or the number of GPUs{other}."
        )
