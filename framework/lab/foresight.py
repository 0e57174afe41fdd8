"""What a run on the lab will take, before it starts: time, by what links need at the rate scale that this
machine should reach, and memory. Right within a factor of two, enough to refuse a run of hours."""

import os
from dataclasses import replace

import numpy as np

from railweave.framework.analysis.limits.timeline import Timeline
from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.experiment.plan import Plan
from railweave.framework.hookspecs import Estimate
from railweave.framework.lab.switching.calibration import Capacity, auto_scale, busiest_phase_hops, slowed
from railweave.framework.lab.switching.shard_placement import shard_count
from railweave.framework.model import HealthSnapshot, RouteTable
from railweave.framework.routing.demand import JobDemand
from railweave.framework.routing.forecast import Forecast
from railweave.framework.routing.reroute import RoutesInUse, first_routes
from railweave.framework.runs.fault_timetable import GroundTruth

HOPS_PER_CORE_S = 38_000.0
"""Packets that a core switches in the userspace datapath a second, as `calibrate` measures it: the capacity
behind the main job's scale of 6.6e-6 on two cores (README.md)."""
LATENCY_PER_GPU_S = 0.25e-3
"""Latency of a packet through transport and unshaped switches, per GPU: 2 to 5 ms with 16."""
UP_S, UP_PER_LINK_S = 5.0, 0.015
"""All but the iterations: start, bring-up (2.4 s with the main job's 64 links), end and report."""
BYTES, BYTES_PER_GPU = 150e6, 14e6
"""Memory besides the ranks' buffers: 378 MB with the main job's 16 GPUs."""


def foreseen(plan: Plan) -> Estimate:
    """Of all jobs together; programs take as long as they like, so that their time is only the bring-up."""
    fabric = plan.fabric
    table = plan.healthy_table
    jobs = [
        (job, [Timeline(fabric, job.on_gpus(schedule), table, plan.packet) for schedule in job.schedules])
        for job in plan.jobs
        if not job.experiment.program
    ]
    scale = plan.experiment.rate_scale
    if scale == "auto":
        scale = slowed(
            _scale(plan, table, [timeline for _, timelines in jobs for timeline in timelines]), plan
        )
    longer = _longer(plan, sum(timeline.seconds() for _, timelines in jobs for timeline in timelines), scale)
    declared_s = sum(
        timeline.seconds() * sum(longer[: job.experiment.iterations])
        for job, timelines in jobs
        for timeline in timelines
    )
    declared_s += sum(fault.circuits.connect_s for fault in plan.faults if fault.circuits is not None)
    run_s = declared_s / scale if declared_s else 0.0
    buffers = sum(job.schedule.n_ranks * job.schedule.buffer_bytes for job, _ in jobs)
    memory = BYTES + BYTES_PER_GPU * fabric.n_gpus + buffers
    return Estimate(int(memory), UP_S + UP_PER_LINK_S * fabric.n_links + run_s, float(scale))


def _longer(plan: Plan, iteration_s: float, scale: float) -> list[float]:
    """How many times its healthy time each iteration of the plan takes, on the routes that its router would
    change to if it knew the truth. `iteration_s`, declared: by it, faults come that have times."""
    n = max((job.experiment.iterations for job in plan.jobs), default=0)
    if not plan.faults or any(job.experiment.program for job in plan.jobs) or not iteration_s:
        return [1.0] * n
    demand = JobDemand([job.on_gpus(job.compact[-1]) for job in plan.jobs], plan.packet)
    options = replace(plan.experiment.health, dwell_s=0.0)
    truth, states = GroundTruth(plan.fabric, options), dict[bytes, float]()
    name, pairs = plan.experiment.router.name, plan.pairs
    blocks = plan.first_paths or first_routes(
        plan.fabric, plan.router, name, options, pairs, demand.sent(plan.fabric.n_gpus)
    )
    forecast, first = Forecast(plan.fabric, demand, blocks), list(blocks)
    healthy_s = forecast.seconds(first, ((1.0, truth.snapshot),))

    def times(snapshot: HealthSnapshot) -> float:
        blocks = first
        if plan.experiment.feedback or plan.experiment.oracle:
            routes = RoutesInUse(plan.fabric, plan.router, options, name, pairs, demand, first=first)
            change = routes.react(snapshot, 0.0)
            blocks = first if change is None else [change.paths]
        with np.errstate(invalid="ignore"):
            ratio = forecast.seconds(blocks, ((1.0, snapshot),)) / healthy_s
        return float(np.max(ratio, initial=1.0, where=np.isfinite(ratio)))  # what has no path ends the run

    def begins(fault: ResolvedFault) -> float:
        if fault.at_iteration is not None:
            return fault.at_iteration
        return (fault.at_s or 0.0) * scale / iteration_s

    result, waiting = list[float](), sorted(plan.faults, key=begins)
    for iteration in range(n):
        while waiting and begins(waiting[0]) < iteration + 1:
            truth.inject(waiting.pop(0), 0.0)
        if (key := truth.snapshot.link_score.tobytes()) not in states:
            states[key] = times(truth.snapshot)
        result.append(states[key])
    return result


def _scale(plan: Plan, table: RouteTable, timelines: list[Timeline]) -> float:
    """As RateScale chooses it, of a capacity and a latency that are known without a lab."""
    moving = [timeline for timeline in timelines if timeline.seconds() > 0]
    if not moving:
        return 1.0
    cores = min(shard_count(plan.fabric), len(os.sched_getaffinity(0)))
    capacity = Capacity.of_cores(HOPS_PER_CORE_S, cores)
    hops_s = sum(busiest_phase_hops(job, table) for job in plan.jobs if not job.experiment.program)
    latency_s = LATENCY_PER_GPU_S * plan.fabric.n_gpus
    return auto_scale(capacity, hops_s, latency_s, sorted(moving, key=lambda timeline: timeline.seconds()))
