"""The part of a result that is one job's: its rows, its verdict, what held it."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from railweave.framework.analysis.limits import COLLECTIVES, tightest_cut
from railweave.framework.analysis.limits.shaped import carriers, shaped_bound_s
from railweave.framework.analysis.limits.timeline import Timeline
from railweave.framework.errors import PLUGIN_FAILURES, describe
from railweave.framework.experiment.plan import Plan
from railweave.framework.judging.bottleneck import bottlenecks
from railweave.framework.judging.fidelity import SizeTiming, judge
from railweave.framework.judging.packet_delay import packet_delay_s
from railweave.framework.judging.rows import TimedIteration, iteration_groups, iteration_rows
from railweave.framework.model import Fabric, Schedule
from railweave.framework.model.arrays import Float
from railweave.framework.model.findings import Findings, IterationRecord
from railweave.framework.results.figures import (
    Bottleneck,
    FaultFigures,
    Fidelity,
    Groups,
    RerouteFigures,
    Row,
)


@dataclass(frozen=True, slots=True)
class JobPart:
    """One job's part; `alone`: the iterations that it ran by itself, to compare with."""

    rows: tuple[Row, ...]
    iterations: Groups
    bottlenecks: tuple[Bottleneck, ...]
    fidelity: Fidelity
    records: tuple[IterationRecord, ...]
    alone: tuple[IterationRecord, ...]


def job_part(
    plan: Plan,
    findings: Findings,
    scaled: Fabric,
    faults: Sequence[FaultFigures],
    reroutes: Sequence[RerouteFigures],
    note: Callable[[str], None],
) -> JobPart:
    """Of the job with this plan; `scaled`: the fabric with emulated rates.

    `note` receives, as text, what the collective's plugin failed with; the figures that depend on it are
    None.
    """
    number = plan.job.number
    own_records = [record for record in findings.iterations if record.job == number]
    records = tuple(record for record in own_records if not record.alone)
    alone = tuple(record for record in own_records if record.alone)
    iterations = _timed_iterations(plan, scaled, findings, records, note)
    rows = iteration_rows(
        iterations,
        rate_scale=findings.rate_scale,
        busbw_factor=None
        if plan.experiment.program
        else _number(plan, note, "busbw_factor", plan.schedule.n_ranks),
        root=_root(plan),
    )
    by_itself = _timed_iterations(plan, scaled, findings, alone, note)
    return JobPart(
        rows,
        replace(iteration_groups(rows, faults, reroutes), job=number),
        bottlenecks(scaled, records, findings.samples, plan.experiment.health.margin),
        _fidelity(plan, findings, iterations, by_itself, faults, note),
        records,
        alone,
    )


def _number(plan: Plan, note: Callable[[str], None], method: str, *arguments: object) -> float | None:
    """The finite number that a method of the collective returns; None where it fails, and `note` says why."""
    subject = f"{plan.experiment.traffic.name}: {method}"
    try:
        value = getattr(plan.collective, method)(*arguments)
        if value is None or math.isfinite(value):
            return None if value is None else float(value)
        note(f"{subject} returns {value}, which is not a finite number")
    except PLUGIN_FAILURES as error:  # whatever the plugin raises, the run has its result
        note(f"{subject} fails with {describe(error)}")
    return None


def _timed_iterations(
    plan: Plan,
    scaled: Fabric,
    findings: Findings,
    records: Sequence[IterationRecord],
    note: Callable[[str], None],
) -> list[TimedIteration]:
    """Every iteration with its closed form, computed once for all of one size, and its physical limit, once
    for all of one size that saw the same fabric; of flows, what packets would add to each."""
    by_text = {fault.text: fault for fault in plan.faults}
    fired = [(fault.t_s, by_text[fault.text]) for fault in findings.faults if fault.text in by_text]
    closed: dict[int, float | None] = {}
    bounds: dict[tuple[bytes, int, int], float | None] = {}
    delays: dict[tuple[int, bytes], float] = {}
    iterations = []
    for record in records:
        schedule = plan.schedule_of(record.result.iteration)
        if (size := schedule.size_bytes) not in closed:
            closed[size] = _number(plan, note, "closed_form_s", scaled, schedule, plan.packet)
        down, resets = carriers(scaled.n_links, fired, record.begin_s, record.end_s)
        buckets = findings.facts.computed_in_s is None or findings.facts.token_buckets
        rates = np.where(down, 0.0, record.best_rates_bps)
        if (seen := (rates.tobytes(), resets, size)) not in bounds:
            bounds[seen] = _bound_s(plan, schedule, scaled, rates, resets if buckets else None)
        critical = record.critical if findings.facts.flows else None
        same = id(critical), seen[0]  # findings keep what has these ids alive
        if critical is not None and same not in delays:
            delays[same] = packet_delay_s(critical, rates, scaled.latency_s, plan.packet)
        iterations.append(TimedIteration(record, schedule, bounds[seen], closed[size], delays.get(same)))
    return iterations


def _bound_s(
    plan: Plan, schedule: Schedule, scaled: Fabric, rates_bps: Float, resets: int | None
) -> float | None:
    """The physical limit at the best rates that the iteration saw, the burst credit of token buckets granted
    (`resets`: how often they were filled anew; None: there were none); None where no limit is known, nothing
    is to be moved, or there is no path."""
    kind, size = plan.collective.kind, schedule.size_bytes
    if kind not in COLLECTIVES or size == 0 or schedule.n_transfers == 0:
        return None
    where: dict[str, Any] = {"capacity_bps": rates_bps, "root": _root(plan), "ranks": plan.ranks}
    if resets is None:
        bound = tightest_cut(scaled, kind, size, plan.packet, **where).seconds
    else:
        bound = shaped_bound_s(scaled, kind, size, plan.packet, resets=resets, **where)
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
    computed = findings.facts.computed_in_s is not None
    table = None
    if latency_s is not None and not computed:
        try:
            if plan.keeps_shares:  # of others it is not known which path carries how much
                table = plan.healthy_table
        except PLUGIN_FAILURES as error:  # whatever the plugin raises, the run has its result
            note(f"{plan.experiment.router.name}: routes fails with {describe(error)}")
    for schedule in plan.schedules:
        timed = [iteration for iteration in iterations if iteration.schedule is schedule]
        healthy = [
            iteration.record.result.seconds for iteration in timed if iteration.record.end_s <= until_s
        ]
        size, model_s = schedule.size_bytes, timed[0].model_s if timed else None
        if not timed:  # what an iteration takes next to other jobs is not known
            yield SizeTiming(size, [])
            continue
        if computed and latency_s is not None:
            yield SizeTiming(size, healthy)  # no closed form has the latency of an emulator
            continue
        if latency_s is None or table is None or schedule.n_transfers == 0:
            yield SizeTiming(size, healthy, 0.0 if model_s else None, model_s or None, computed=computed)
            continue
        timeline = Timeline(plan.fabric, plan.on_gpus(schedule), table, plan.packet)
        low_s, high_s = timeline.seconds() / scale, timeline.seconds(latency_s * scale) / scale
        yield SizeTiming(size, healthy, low_s, high_s, timeline.latency_share(latency_s * scale))


def _fidelity(
    plan: Plan,
    findings: Findings,
    iterations: Sequence[TimedIteration],
    alone: Sequence[TimedIteration],
    faults: Sequence[FaultFigures],
    note: Callable[[str], None],
) -> Fidelity:
    """What iterations should take is known of those before the first fault; of several jobs, of those alone,
    without which nothing is."""
    first_fault = min((f.t_s for f in faults if f.t_s is not None), default=math.inf)
    everything, healthy = [*iterations, *alone], alone if plan.job.several else iterations
    results, facts, run_s = [timed.record.result for timed in everything], findings.facts, findings.run_s
    return judge(
        wrong=sum(i.wrong or 0 for i in results),
        ratios_to_bound=[
            timed.bound_s / timed.record.result.seconds for timed in everything if timed.bound_s is not None
        ],
        timings=list(_timings(plan, findings, healthy, first_fault, note)),
        switch_share=_share(facts.cpu_s.get("switches", 0.0), run_s, facts.switch_cores),
        # MPI polls, and what a program computes is its own affair: both run when nothing else wants to
        machine_share=_share(
            sum(s for who, s in facts.cpu_s.items() if who != "program"), run_s, facts.cores
        ),
        send_lag_s=max((i.send_lag_s for i in results), default=0.0),
        retransmitted=sum(i.retransmitted or 0 for i in results)
        / max(1, sum(i.packets_sent for i in results)),
        drops=0 if plan.experiment.program else int(findings.links.drops.sum()),  # TCP lives by them
        blind_s=findings.blind_s,
        send_buffer_bytes=facts.send_buffer_bytes,
        send_buffer_used_bytes=facts.send_buffer_used_bytes,
    )


def _share(cpu_s: float, run_s: float, cores: int | None) -> float:
    """Part of these cores that was used; 0 where an engine's processors have no say in its figures."""
    return 0.0 if cores is None or run_s <= 0 else cpu_s / run_s / cores
