"""One run, seen from the command: start the engine, pass on what happens, make the result of what it found."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from railweave.framework.accuracy import Accuracy, Judged, accuracy, detection_s, truth_at
from railweave.framework.experiment import Plan
from railweave.framework.faults import VERBS
from railweave.framework.fidelity import Evidence, judge
from railweave.framework.figures import Lap, iteration_groups, iteration_of, iteration_rows, link_figures
from railweave.framework.limits import COLLECTIVES
from railweave.framework.limits.shaped import carriers, shaped_bound_s
from railweave.framework.model import Fabric, Schedule
from railweave.framework.model.arrays import Float
from railweave.framework.results import (
    ControllerFigures,
    FabricFigures,
    FaultFigures,
    Fidelity,
    HealthPoint,
    RerouteFigures,
    RunResult,
    Timing,
)
from railweave.framework.rundir import RunDirectory

Emit = Callable[[dict[str, Any]], None]
VERSIONED = ("railweave", "mininet", "ryu", "os-ken", "scapy", "pluggy", "numpy", "click")


def run(plan: Plan, out_dir: RunDirectory, emit: Emit) -> RunResult:
    """Carry the plan out and give its result. `emit` is called live with events.

    Raises LabError, ControllerError, TransportError or MachineError; the lab is gone by then.
    """
    began = time.monotonic()
    ended: list[float] = []

    def tell(event: dict[str, Any]) -> None:
        if event["kind"] == "phase" and event["name"] == "tear-down":
            ended.append(time.monotonic())
        emit(event)

    with contextlib.ExitStack() as stack:
        pcap = None
        if plan.pcap_links:
            pcap = stack.enter_context((out_dir.path / "capture.pcapng").open("wb")).fileno()
        findings = plan.engine.run(plan.document(), tell, pcap)
    tear_down_s = time.monotonic() - ended[-1] if ended else time.monotonic() - began - findings["run_s"]
    out_dir.write_samples(findings["samples"])
    return result(plan, findings, tear_down_s)


def result(plan: Plan, findings: Mapping[str, Any], tear_down_s: float) -> RunResult:
    """The documented result of an engine's findings. Pure but for the versions of what is installed."""
    scaled = plan.fabric.scaled(findings["rate_scale"])
    bounds = _bounds_s(plan, scaled, findings)
    laps = [
        _lap(plan, scaled, row, bound_s) for row, bound_s in zip(findings["iterations"], bounds, strict=True)
    ]
    rows = iteration_rows(
        laps,
        rate_scale=findings["rate_scale"],
        busbw_factor=plan.collective.busbw_factor(plan.schedule.n_ranks),
    )
    faults, told = _faults(plan, findings)
    sent = findings["links"]
    reroutes = tuple(
        RerouteFigures(r["t_s"], r["version"], r["pairs_changed"], r["why"]) for r in findings["reroutes"]
    )
    return RunResult(
        experiment=plan.document(),
        seed=plan.experiment.seed,
        versions={**versions(), **{k: findings[k] for k in ("openvswitch", "datapath")}},
        fabric=FabricFigures.of(plan.fabric, findings["rate_scale"]),
        controller=ControllerFigures(
            plan.experiment.controller.name, findings["rules"], findings["install_s"]
        ),
        rows=rows,
        iterations=iteration_groups(rows, faults, reroutes),
        links=link_figures(scaled, sent["bytes"], sent["drops"], findings["run_s"], sent["h_score"]),
        health=tuple(
            HealthPoint(h["t_s"], h["version"], h["elements"], h["links"]) for h in findings["health"]
        ),
        faults=faults,
        reroutes=reroutes,
        fidelity=_fidelity(findings, laps, faults),
        timing=Timing(findings["bring_up_s"], findings["run_s"], tear_down_s),
        accuracy=told,
        memory_peak_mb=(findings["memory_peak_bytes"] + own_memory_bytes()) / 1e6,
        cpu_s=findings["cpu_s"],
    )


def _lap(plan: Plan, scaled: Fabric, row: Mapping[str, Any], bound_s: float | None) -> Lap:
    found = iteration_of(row)
    schedule = plan.schedule_of(found.iteration)
    return Lap(
        found,
        schedule,
        row["begin_s"],
        bound_s,
        plan.collective.closed_form_s(scaled, schedule, plan.packet),
        row["link_bytes"],
    )


def _bounds_s(plan: Plan, scaled: Fabric, findings: Mapping[str, Any]) -> list[float | None]:
    """The physical limit of each iteration, computed once for all of one size that saw the same fabric."""
    by_text = {fault.text: fault for fault in plan.faults}
    fired = [(float(f["t_s"]), by_text[f["text"]]) for f in findings["faults"] if f["text"] in by_text]
    known: dict[tuple[bytes, int, int], float | None] = {}
    bounds = []
    for row in findings["iterations"]:
        schedule = plan.schedule_of(row["iteration"])
        down, resets = carriers(scaled.n_links, fired, row["begin_s"], row["end_s"])
        rates = np.where(down, 0.0, row["best_rates_bps"])
        key = (rates.tobytes(), resets, schedule.size_bytes)
        if key not in known:
            known[key] = _bound_s(plan, schedule, scaled, rates, resets)
        bounds.append(known[key])
    return bounds


def _bound_s(plan: Plan, schedule: Schedule, scaled: Fabric, rates_bps: Float, resets: int) -> float | None:
    """The physical limit with the best rates that the iteration saw, what token buckets give away granted; None where
    none is known, nothing is to be moved, or there is no way."""
    kind = plan.collective.kind
    if kind not in COLLECTIVES or schedule.size_bytes == 0 or schedule.n_transfers == 0:
        return None
    root = plan.experiment.collective.options.get("root") if kind == "broadcast" else None
    bound = shaped_bound_s(
        scaled, kind, schedule.size_bytes, plan.packet,
        capacity_bps=rates_bps, resets=resets, root=root if isinstance(root, int) else None,
    )  # fmt: skip
    return bound if 0 < bound < float("inf") else None


def _faults(plan: Plan, findings: Mapping[str, Any]) -> tuple[tuple[FaultFigures, ...], Accuracy]:
    """Every fault with the times it took to be seen and answered; and how well the scores told the truth."""
    samples, judged = findings["samples"], Judged(plan.fabric, plan.experiment.health.margin)
    looks = samples["t_s"]
    called = judged.sick(samples["link_score" if judged.by_links else "element_score"][:, judged.ids])
    truth = [
        (t["t_s"], judged.sick(judged.of(t["link_score"], t["element_score"]))) for t in findings["truth"]
    ]
    fired = {str(f["text"]): float(f["t_s"]) for f in reversed(findings["faults"])}
    figures, changes, before = [], iter(truth), np.zeros(len(judged.ids), bool)
    for fault in sorted(plan.faults, key=lambda fault: fired.get(fault.text, np.inf)):
        t_s, detected, recovered = fired.get(fault.text), None, None
        if t_s is not None and VERBS[fault.verb].processes:
            detected, recovered = _process_times(findings["control"], t_s)
        elif t_s is not None:
            _, after = next(changes)
            detected = detection_s(looks, called, before, after, t_s)
            answer = next((r["t_s"] for r in findings["reroutes"] if r["t_s"] >= t_s), None)
            recovered, before = None if answer is None else answer - t_s, after
        figures.append(
            FaultFigures(
                fault.text, fault.verb, fault.fault.target, t_s, len(fault.links), detected, recovered
            )
        )
    return tuple(figures), accuracy(called, truth_at(looks, truth, len(judged.ids)))


def _process_times(control: Sequence[Mapping[str, Any]], t_s: float) -> tuple[float | None, float | None]:
    """Seconds from `t_s` until the end of a process was seen, and until all rules were in place again."""
    lost = next((c["t_s"] for c in control if not c["agrees"] and c["t_s"] >= t_s), None)
    if lost is None:
        return None, None
    back = next((c["t_s"] for c in control if c["agrees"] and c["t_s"] >= lost), None)
    return lost - t_s, None if back is None else back - t_s


def _fidelity(findings: Mapping[str, Any], laps: Sequence[Lap], faults: Sequence[FaultFigures]) -> Fidelity:
    first_fault = min((f.t_s for f in faults if f.t_s is not None), default=float("inf"))
    iterations = [lap.found for lap in laps]
    healthy = [
        lap for lap, row in zip(laps, findings["iterations"], strict=True) if row["end_s"] <= first_fault
    ]
    cores = len(os.sched_getaffinity(0))
    cpu = findings["cpu_s"]
    sent = sum(i.packets_sent for i in iterations)
    found = judge(
        Evidence(
            wrong=sum(i.wrong for i in iterations),
            ratios_to_bound=[lap.bound_s / lap.found.seconds for lap in laps if lap.bound_s is not None],
            healthy_ratios_to_model=[lap.found.seconds / lap.model_s for lap in healthy if lap.model_s],
            switch_share=cpu["switches"] / findings["run_s"] / min(cores, findings["shards"]),
            machine_share=sum(cpu.values()) / findings["run_s"] / cores,
            send_lag_s=max(i.send_lag_s for i in iterations),
            retransmitted=sum(i.retransmitted for i in iterations) / max(1, sent),
            drops=int(findings["links"]["drops"].sum()),
            send_buffer_bytes=findings["send_buffer_bytes"],
            send_buffer_used_bytes=findings["send_buffer_used_bytes"],
        )
    )
    return Fidelity(found.verdict, found.reasons)


def versions() -> dict[str, str]:
    """What the run was made with."""
    found = {"python": platform.python_version(), "kernel": platform.release()}
    for name in VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def own_memory_bytes() -> int:
    """PSS of the command itself."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0
