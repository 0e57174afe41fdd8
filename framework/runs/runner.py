"""One run as its caller sees it: start the engine, pass on events, make the result, call the plugins."""

import contextlib
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from railweave.framework.errors import InputError, RunFailedError
from railweave.framework.experiment.plan import Plan
from railweave.framework.fabric_files import text_of
from railweave.framework.model.events import Note, PhaseStarted, Printed, Progress, RunEvent
from railweave.framework.model.findings import Findings
from railweave.framework.registry import Registers
from railweave.framework.results.directory import RunDirectory
from railweave.framework.results.fidelity import together
from railweave.framework.results.links import element_figures, is_large, link_arrays, link_figures
from railweave.framework.results.result import (
    ControllerFigures,
    FabricFigures,
    RerouteFigures,
    RunResult,
    Timing,
)
from railweave.framework.runs.fault_figures import fault_figures
from railweave.framework.runs.job_figures import fairness, job_figures
from railweave.framework.runs.job_part import job_part
from railweave.framework.runs.observers import Observers, write_reports
from railweave.framework.runs.parts import InProcess

VERSIONED = ("railweave", "mininet", "ryu", "os-ken", "scapy", "pluggy", "numpy", "click")


def run(
    plan: Plan,
    registers: Registers,
    directory: RunDirectory | None = None,
    on_event: Callable[[RunEvent], None] = lambda event: None,
) -> RunResult:
    """Carry the plan out and return its result; `on_event` receives the run's events live.

    With a `directory`, everything is written there, `result.json` before any report or observer is called. A
    plugin that fails once the run has ended becomes a note of the result and loses nothing.

    Raises InputError when the run is refused before anything ran (an otherwise empty directory is removed
    again); LabError, ControllerError, TransportError or MachineError when it failed. What the engine started
    is gone then.
    """
    notes: list[str] = []
    path = None if directory is None else str(directory.path.absolute())

    def emit(event: RunEvent) -> None:
        if directory is not None and not isinstance(event, Progress | Printed):
            directory.append_event(event)
        on_event(event)

    def note(text: str) -> None:
        notes.append(text)
        emit(Note(text))

    if directory is not None:
        directory.write_experiment(plan.yaml())
        if plan.experiment.topology.name == "file":  # which may change later
            directory.write_fabric(text_of(plan.fabric)[0])
    try:
        for text in plan.notes:
            emit(Note(text))
        findings, tear_down_s = _carried_out(plan, registers, path, emit)
    except InputError:
        if directory is not None:
            directory.discard()
        raise
    notes += [item.text for item in findings.notes]
    finished = replace(result(plan, findings, tear_down_s, note), notes=tuple(notes))
    if directory is not None and path is not None:
        directory.write_arrays("health.npz", vars(findings.samples))
        if is_large(plan.fabric):
            arrays = link_arrays(plan.fabric.scaled(findings.rate_scale), findings)
            directory.write_arrays("links.npz", arrays)
        directory.write_result(finished)
        write_reports(plan.reports, finished.document(), path, note)
    Observers(registers, note).fire("on_run_end", result=finished.document(), directory=path)
    if tuple(notes) != finished.notes:
        finished = replace(finished, notes=tuple(notes))
        if directory is not None:
            directory.write_result(finished)
    return finished


def _carried_out(
    plan: Plan, registers: Registers, directory: str | None, emit: Callable[[RunEvent], None]
) -> tuple[Findings, float]:
    """What the engine found, and the seconds that its tear-down took."""
    began = time.monotonic()
    tear_down_began: list[float] = []

    def timed(event: RunEvent) -> None:
        if isinstance(event, PhaseStarted) and event.name == "tear-down":
            tear_down_began.append(time.monotonic())
        emit(event)

    with contextlib.ExitStack() as stack:
        pcap = None
        if plan.pcap_links:
            if directory is None:
                raise InputError(
                    "pcap: captured packets are written into the run directory, and this run keeps none. "
                    "Give it a directory, or leave pcap out."
                )
            pcap = stack.enter_context(Path(directory, "capture.pcapng").open("wb")).fileno()
        if isinstance(plan.engine, InProcess):
            findings = plan.engine.carry_out(plan, registers, timed, directory)
        else:
            findings = plan.engine.run(plan.document(), timed, directory, pcap)
    tear_down_began.append(began + findings.bring_up_s + findings.run_s)  # for an engine that does not say so
    return findings, max(0.0, time.monotonic() - tear_down_began[0])


def result(plan: Plan, findings: Findings, tear_down_s: float, note: Callable[[str], None]) -> RunResult:
    """The documented result of an engine's findings. Pure but for the versions of what is installed.

    `note` receives, as text, what the collective's plugin failed with; the figures that depend on it are
    None.
    """
    scaled, facts = plan.fabric.scaled(findings.rate_scale), findings.facts
    faults, score_accuracy = fault_figures(plan, findings)
    reroutes = tuple(
        RerouteFigures(r.t_s, r.version, r.pairs_changed, r.why, r.job) for r in findings.reroutes
    )
    parts = [job_part(job, findings, scaled, faults, reroutes, note) for job in plan.each]
    of_each = list(zip(plan.each, parts, strict=True))
    if not any(part.rows for part in parts):
        raise RunFailedError("no iteration ended, so there is no result. See the lab's log.")
    of_jobs = job_figures(plan, findings, parts)
    return RunResult(
        experiment=plan.document(),
        seed=plan.experiment.seed,
        versions={**versions(), **facts.versions},
        fabric=FabricFigures(
            scaled.kind,
            scaled.n_gpus,
            scaled.n_nodes - scaled.n_gpus,
            scaled.n_links,
            findings.rate_scale,
            len({gpu for job in plan.each for gpu in job.ranks}),
        ),
        controller=ControllerFigures(plan.experiment.controller.name, facts.rules, facts.install_s),
        rows=tuple(row for part in parts for row in part.rows),
        iterations=parts[0].iterations,
        links=link_figures(scaled, findings, len(plan.jobs)),
        elements=element_figures(scaled, findings),
        health=findings.health,
        faults=faults,
        reroutes=reroutes,
        fidelity=together([(f"job {one.job.name}", part.fidelity) for one, part in of_each]),
        timing=Timing(findings.bring_up_s, _wall_s(findings), tear_down_s),
        accuracy=score_accuracy,
        memory_peak_mb=None if facts.memory_peak_bytes is None else facts.memory_peak_bytes / 1e6,
        cpu_s=facts.cpu_s,
        counts=facts.counts,
        ranks=findings.ranks,
        bottlenecks=tuple(one for part in parts for one in part.bottlenecks),
        jobs=of_jobs,
        fairness=fairness(of_jobs),
    )


def _wall_s(findings: Findings) -> float:
    """Seconds that the iterations took on the wall clock, which is not that of an engine that computes."""
    took_s = findings.facts.computed_in_s
    return findings.run_s if took_s is None else max(0.0, took_s - findings.bring_up_s)


def versions() -> dict[str, str]:
    """What the run was made with."""
    installed = {"python": platform.python_version(), "kernel": platform.release()}
    for name in VERSIONED:
        with contextlib.suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed
