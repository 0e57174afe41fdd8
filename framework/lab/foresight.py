"""What a run on the lab will take, before it starts: time, by what links need at the rate scale that this
machine should reach, and memory. Right within a factor of two, enough to refuse a run of hours."""

import os

from railweave.framework.experiment.plan import Plan
from railweave.framework.lab.switching.calibration import Capacity, auto_scale, busiest_phase_hops
from railweave.framework.lab.switching.placement import shard_count
from railweave.framework.limits.timeline import Timeline
from railweave.framework.model import HealthSnapshot, RouteTable
from railweave.framework.runs.parts import Foreseen

HOPS_PER_CORE_S = 38_000.0
"""Packets that a core switches in the userspace datapath a second, as `calibrate` measures it: the capacity
behind the main job's scale of 6.6e-6 on two cores (README.md)."""
LATENCY_PER_GPU_S = 0.25e-3
"""Latency of a packet through transport and unshaped switches, per GPU: 2 to 5 ms with 16."""
FAULTED = 1.5
"""How many times as long a run with faults takes: the main job 1.47 times."""
UP_S, UP_PER_LINK_S = 1.5, 0.015
"""Bring-up: 2.4 s with the main job's 64 links."""
BYTES, BYTES_PER_GPU = 150e6, 14e6
"""Memory besides the ranks' buffers: 378 MB with the main job's 16 GPUs."""


def foreseen(plan: Plan) -> Foreseen:
    """Of all jobs together; programs take as long as they like, so that their time is only the bring-up."""
    fabric = plan.fabric
    table = plan.router.routes(fabric, HealthSnapshot.healthy(fabric))
    each = [
        (job, [Timeline(fabric, job.on_gpus(schedule), table, plan.packet) for schedule in job.schedules])
        for job in plan.each
        if not job.experiment.program
    ]
    scale = plan.experiment.rate_scale
    if scale == "auto":
        scale = _scale(plan, table, [timeline for _, timelines in each for timeline in timelines])
    declared_s = sum(
        job.experiment.iterations * timeline.seconds() for job, timelines in each for timeline in timelines
    )
    run_s = declared_s / scale * (FAULTED if plan.faults else 1.0) if declared_s else 0.0
    buffers = sum(job.schedule.n_ranks * job.schedule.buffer_bytes for job, _ in each)
    memory = BYTES + BYTES_PER_GPU * fabric.n_gpus + buffers
    return Foreseen(UP_S + UP_PER_LINK_S * fabric.n_links + run_s, int(memory), float(scale))


def _scale(plan: Plan, table: RouteTable, timelines: list[Timeline]) -> float:
    """As RateScale chooses it, of a capacity and a latency that are known without a lab."""
    moving = [timeline for timeline in timelines if timeline.seconds() > 0]
    if not moving:
        return 1.0
    cores = min(shard_count(plan.fabric), len(os.sched_getaffinity(0)))
    capacity = Capacity(HOPS_PER_CORE_S, HOPS_PER_CORE_S * (1 + 0.5 * (cores - 1)))
    hops_s = sum(busiest_phase_hops(job, table) for job in plan.each if not job.experiment.program)
    latency_s = LATENCY_PER_GPU_S * plan.fabric.n_gpus
    return auto_scale(capacity, hops_s, latency_s, sorted(moving, key=lambda one: one.seconds()))
