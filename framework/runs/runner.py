"""One run as its caller sees it: start the engine, pass on events, make the result, call the plugins."""

import contextlib
import math
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from railweave.framework.analysis.bottleneck import bottlenecks
from railweave.framework.errors import InputError, describe
from railweave.framework.experiment.plan import Plan
from railweave.framework.fabric_files import text_of
from railweave.framework.limits import COLLECTIVES
from railweave.framework.limits.shaped import carriers, shaped_bound_s
from railweave.framework.limits.timeline import Timeline
from railweave.framework.model import Fabric, HealthSnapshot, Schedule
from railweave.framework.model.arrays import Float
from railweave.framework.model.events import Note, PhaseStarted, Printed, Progress, RunEvent
from railweave.framework.model.findings import Findings
from railweave.framework.registry import Registers
from railweave.framework.results.directory import RunDirectory
from railweave.framework.results.fidelity import Fidelity, SizeTiming, judge
from railweave.framework.results.result import (
    ControllerFigures,
    FabricFigures,
    FaultFigures,
    RerouteFigures,
    RunResult,
    Timing,
)
from railweave.framework.results.rows import TimedIteration, iteration_groups, iteration_rows, link_figures
from railweave.framework.runs.fault_figures import fault_figures
from railweave.framework.runs.observers import Observers, write_reports

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
        findings, tear_down_s = _carried_out(plan, path, emit)
    except InputError:
        if directory is not None:
            directory.discard()
        raise
    notes += [item.text for item in findings.notes]
    finished = replace(result(plan, findings, tear_down_s, note), notes=tuple(notes))
    if directory is not None and path is not None:
        directory.write_samples(vars(findings.samples))
        directory.write_result(finished)
        write_reports(plan.reports, finished.document(), path, note)
    Observers(registers, note).fire("on_run_end", result=finished.document(), directory=path)
    if tuple(notes) != finished.notes:
        finished = replace(finished, notes=tuple(notes))
        if directory is not None:
            directory.write_result(finished)
    return finished


def _carried_out(
    plan: Plan, directory: str | None, emit: Callable[[RunEvent], None]
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
        findings = plan.engine.run(plan.document(), timed, directory, pcap)
    tear_down_began.append(began + findings.bring_up_s + findings.run_s)  # for an engine that does not say so
    return findings, max(0.0, time.monotonic() - tear_down_began[0])


def result(plan: Plan, findings: Findings, tear_down_s: float, note: Callable[[str], None]) -> RunResult:
    """The documented result of an engine's findings. Pure but for the versions of what is installed.

    `note` receives, as text, what the collective's plugin failed with; the figures that depend on it are
    None.
    """
    scaled, facts = plan.fabric.scaled(findings.rate_scale), findings.facts
    iterations = _timed_iterations(plan, scaled, findings, note)
    rows = iteration_rows(
        iterations,
        rate_scale=findings.rate_scale,
        busbw_factor=None
        if plan.experiment.program
        else _number(plan, note, "busbw_factor", plan.schedule.n_ranks),
        root=_root(plan),
    )
    faults, score_accuracy = fault_figures(plan, findings)
    reroutes = tuple(
        RerouteFigures(r.t_s, r.version, r.pairs_changed, r.why, r.job) for r in findings.reroutes
    )
    return RunResult(
        experiment=plan.document(),
        seed=plan.experiment.seed,
        versions={**versions(), **facts.versions},
        fabric=FabricFigures(
            scaled.kind, scaled.n_gpus, scaled.n_nodes - scaled.n_gpus, scaled.n_links, findings.rate_scale
        ),
        controller=ControllerFigures(plan.experiment.controller.name, facts.rules, facts.install_s),
        rows=rows,
        iterations=iteration_groups(rows, faults, reroutes),
        links=link_figures(scaled, findings),
        health=findings.health,
        faults=faults,
        reroutes=reroutes,
        fidelity=_fidelity(plan, findings, iterations, faults, note),
        timing=Timing(findings.bring_up_s, findings.run_s, tear_down_s),
        accuracy=score_accuracy,
        memory_peak_mb=None if facts.memory_peak_bytes is None else facts.memory_peak_bytes / 1e6,
        cpu_s=facts.cpu_s,
        ranks=findings.ranks,
        bottlenecks=bottlenecks(scaled, findings.iterations, findings.samples),
    )


def _number(plan: Plan, note: Callable[[str], None], method: str, *arguments: object) -> float | None:
    """The finite number that a method of the collective returns; None where it fails, and `note` says why."""
    subject = f"{plan.experiment.traffic.name}: {method}"
    try:
        value = getattr(plan.collective, method)(*arguments)
        if value is None or math.isfinite(value):
            return None if value is None else float(value)
        note(f"{subject} returns {value}, which is not a finite number")
    except Exception as error:  # noqa: BLE001 - whatever the plugin raises, the run has its result
        note(f"{subject} fails with {describe(error)}")
    return None


def _timed_iterations(
    plan: Plan, scaled: Fabric, findings: Findings, note: Callable[[str], None]
) -> list[TimedIteration]:
    """Every iteration with its closed form, computed once for all of one size, and its physical limit, once
    for all of one size that saw the same fabric."""
    by_text = {fault.text: fault for fault in plan.faults}
    fired = [(fault.t_s, by_text[fault.text]) for fault in findings.faults if fault.text in by_text]
    closed: dict[int, float | None] = {}
    bounds: dict[tuple[bytes, int, int], float | None] = {}
    iterations = []
    for record in findings.iterations:
        schedule = plan.schedule_of(record.result.iteration)
        if (size := schedule.size_bytes) not in closed:
            closed[size] = _number(plan, note, "closed_form_s", scaled, schedule, plan.packet)
        down, resets = carriers(scaled.n_links, fired, record.begin_s, record.end_s)
        rates = np.where(down, 0.0, record.best_rates_bps)
        if (seen := (rates.tobytes(), resets, size)) not in bounds:
            bounds[seen] = _bound_s(plan, schedule, scaled, rates, resets)
        iterations.append(TimedIteration(record, schedule, bounds[seen], closed[size]))
    return iterations


def _bound_s(plan: Plan, schedule: Schedule, scaled: Fabric, rates_bps: Float, resets: int) -> float | None:
    """The physical limit at the best rates that the iteration saw, the token buckets' burst credit granted;
    None where no limit is known, nothing is to be moved, or there is no path."""
    kind = plan.collective.kind
    if kind not in COLLECTIVES or schedule.size_bytes == 0 or schedule.n_transfers == 0:
        return None
    bound = shaped_bound_s(
        scaled,
        kind,
        schedule.size_bytes,
        plan.packet,
        capacity_bps=rates_bps,
        resets=resets,
        root=_root(plan),
    )
    return bound if 0 < bound < math.inf else None


def _root(plan: Plan) -> int | None:
    """The root of a broadcast; None for the collectives that have none."""
    root = plan.experiment.traffic.options.get("root") if plan.collective.kind == "broadcast" else None
    return root if isinstance(root, int) else None


def _timings(
    plan: Plan,
    findings: Findings,
    iterations: Sequence[TimedIteration],
    until_s: float,
    note: Callable[[str], None],
) -> Iterator[SizeTiming]:
    """For every size, what its iterations took that ended by `until_s`, and should have taken: on the first
    routes; where the engine measured no latency, by the collective's closed form."""
    latency_s, scale = findings.facts.packet_latency_s, findings.rate_scale
    table = None
    if latency_s is not None:
        try:
            table = plan.router.routes(plan.fabric, HealthSnapshot.healthy(plan.fabric))
        except Exception as error:  # noqa: BLE001 - whatever the plugin raises, the run has its result
            note(f"{plan.experiment.router.name}: routes fails with {describe(error)}")
    for schedule in plan.schedules:
        timed = [one for one in iterations if one.schedule is schedule]
        healthy = [one.record.result.seconds for one in timed if one.record.end_s <= until_s]
        size, model_s = schedule.size_bytes, timed[0].model_s if timed else None
        if latency_s is None or table is None or schedule.n_transfers == 0:
            yield SizeTiming(size, healthy, 0.0 if model_s else None, model_s or None)
            continue
        timeline = Timeline(plan.fabric, schedule, table, plan.packet)
        low_s, high_s = timeline.seconds() / scale, timeline.seconds(latency_s * scale) / scale
        yield SizeTiming(size, healthy, low_s, high_s, timeline.latency_share(latency_s * scale))


def _fidelity(
    plan: Plan,
    findings: Findings,
    iterations: Sequence[TimedIteration],
    faults: Sequence[FaultFigures],
    note: Callable[[str], None],
) -> Fidelity:
    first_fault = min((f.t_s for f in faults if f.t_s is not None), default=math.inf)
    results, facts, run_s = [timed.record.result for timed in iterations], findings.facts, findings.run_s
    return judge(
        wrong=sum(i.wrong or 0 for i in results),
        ratios_to_bound=[
            timed.bound_s / timed.record.result.seconds for timed in iterations if timed.bound_s is not None
        ],
        timings=list(_timings(plan, findings, iterations, first_fault, note)),
        switch_share=_share(facts.cpu_s.get("switches", 0.0), run_s, facts.switch_cores),
        # MPI polls, and what a program computes is its own affair: both run when nothing else wants to
        machine_share=_share(
            sum(s for who, s in facts.cpu_s.items() if who != "program"), run_s, facts.cores
        ),
        send_lag_s=max(i.send_lag_s for i in results),
        retransmitted=sum(i.retransmitted for i in results) / max(1, sum(i.packets_sent for i in results)),
        drops=0 if plan.experiment.program else int(findings.links.drops.sum()),  # TCP lives by them
        blind_s=findings.blind_s,
        send_buffer_bytes=facts.send_buffer_bytes,
        send_buffer_used_bytes=facts.send_buffer_used_bytes,
    )


def _share(cpu_s: float, run_s: float, cores: int | None) -> float:
    """Part of these cores that was used; 0 where an engine's processors have no say in its figures."""
    return 0.0 if cores is None or run_s <= 0 else cpu_s / run_s / cores


def versions() -> dict[str, str]:
    """What the run was made with."""
    installed = {"python": platform.python_version(), "kernel": platform.release()}
    for name in VERSIONED:
        with contextlib.suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed
