"""A year of a pod, over many seeds, at one mean time to repair."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model.arrays import Float
from railweave.framework.papers.fleet.component_failures import (
    Draws,
    Period,
    PodFailures,
    draw_pod_failures,
)
from railweave.framework.papers.fleet.down_times import DownTimes, at_least, joined
from railweave.framework.papers.fleet.job_figures import daily_circuits, job_times, moved, turned_away
from railweave.framework.papers.fleet.job_mix import JobMix, JobStream, draw_jobs
from railweave.framework.papers.fleet.placing import OnProgress, place
from railweave.framework.papers.fleet.pod import (
    CABLES_PER_CUBE,
    CHIPS_PER_CUBE,
    HOSTS_PER_CUBE,
    FailureRates,
    Pod,
)
from railweave.framework.papers.fleet.seed_interval import SeedMean, seed_mean
from railweave.framework.papers.fleet.slices import (
    availability,
    expected_fixed_share,
    expected_reconfigurable_share,
    fixed_share,
    reconfigurable_share,
    slice_sizes,
    up_share,
)

MEMORY = 10
"""Warm-up in mean repair times, or mean durations if longer: what came before is forgotten to e^-10."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Everything that a year depends on but the repair time. Raises ExperimentError for what cannot be."""

    pod: Pod
    rates: FailureRates
    mix: JobMix
    days: int
    draws: Draws

    def __post_init__(self) -> None:
        if self.days < 1:
            raise ExperimentError(f"{self.days} days are no period: simulate 1 day or more.")
        self.mix.check(self.pod)


@dataclass(frozen=True, slots=True)
class SliceShares:
    """Mean share of the pod's cubes in whole slices of `cubes` cubes, computed and expected."""

    cubes: int
    chips: int
    reconfigurable: SeedMean
    fixed: SeedMean
    expected_reconfigurable: float
    expected_fixed: float


@dataclass(frozen=True, slots=True)
class Availability:
    """Failures a year, and shares of the time: a host, a cube, all OCSes and `Pod.for_jobs` cubes are up."""

    host_failures: SeedMean
    cable_failures: SeedMean
    ocs_failures: SeedMean
    hosts_up: SeedMean
    cubes_up: SeedMean
    pod_up: SeedMean
    every_ocs_up: SeedMean
    slices: tuple[SliceShares, ...]


@dataclass(frozen=True, slots=True)
class JobYear:
    """Jobs, per day: `started` and `running` at a time, `swaps` of a failed cube, circuits for starts and for
    swaps, jobs moved for want of a cube and of routes. Shares: `cubes_used` of cubes, `turned_away` of jobs
    that arrive; on fault-tolerant routes, of the jobs that run at a time (`tolerant`), the same if they keep
    the routes to their end (`tolerant_to_end`), and of all jobs that start (`tolerant_jobs`).
    """

    started: SeedMean
    running: SeedMean
    cubes_used: SeedMean
    turned_away: SeedMean
    circuits_started: SeedMean
    circuits_per_job: SeedMean
    busiest_day: SeedMean
    swaps: SeedMean
    circuits_swapped: SeedMean
    moved_no_cube: SeedMean
    moved_no_routes: SeedMean
    tolerant: SeedMean
    tolerant_to_end: SeedMean
    tolerant_jobs: SeedMean


@dataclass(frozen=True, slots=True)
class FleetYear:
    """One row: what a mean time to repair of `repair_days` gives."""

    repair_days: float
    availability: Availability
    jobs: JobYear


def simulate(
    fleet: Fleet, repair_days: tuple[float, ...], on_progress: OnProgress = lambda done, total: None
) -> tuple[FleetYear, ...]:
    """A year for each mean time to repair, all with the same failures and the same jobs.

    Raises ExperimentError for a repair time that is no positive number.
    """
    for repair in repair_days:
        if not 0 < repair < inf:
            raise ExperimentError(f"a repair takes {repair:g} days: give a time above 0, as in 12h.")
    warm_up = MEMORY * max(*repair_days, *fleet.mix.column("mean_days"))
    period = Period(fleet.days, warm_up)
    failures = draw_pod_failures(fleet.pod, fleet.rates, period, fleet.draws)
    jobs = draw_jobs(fleet.mix, period, fleet.draws)
    total = len(repair_days) * len(jobs.arrival)
    return tuple(
        _year(fleet, failures, jobs, repair, _shifted(on_progress, nth * len(jobs.arrival), total))
        for nth, repair in enumerate(repair_days)
    )


def _shifted(on_progress: OnProgress, before: int, total: int) -> Callable[[int, int], None]:
    return lambda done, _: on_progress(before + done, total)


def _year(
    fleet: Fleet, failures: PodFailures, jobs: JobStream, repair_days: float, on_progress: OnProgress
) -> FleetYear:
    hosts, cables, ocs = (
        part.down_times(repair_days) for part in (failures.hosts, failures.cables, failures.ocs)
    )
    cubes = joined(hosts, cables)
    return FleetYear(
        repair_days,
        _availability(fleet, failures, repair_days, hosts, cubes, ocs),
        _job_year(fleet, jobs, cubes, ocs, on_progress),
    )


def _availability(
    fleet: Fleet,
    failures: PodFailures,
    repair_days: float,
    hosts: DownTimes,
    cubes: DownTimes,
    ocs: DownTimes,
) -> Availability:
    pod, days = fleet.pod, fleet.days
    per_year = 365 / days
    return Availability(
        host_failures=seed_mean(failures.hosts.in_days(days) * per_year),
        cable_failures=seed_mean(failures.cables.in_days(days) * per_year),
        ocs_failures=seed_mean(failures.ocs.in_days(days) * per_year),
        hosts_up=seed_mean(1 - hosts.days(days) / (days * pod.cubes * HOSTS_PER_CUBE)),
        cubes_up=seed_mean(1 - cubes.days(days) / (days * pod.cubes)),
        pod_up=seed_mean(up_share(cubes, pod.cubes, pod.for_jobs, days)),
        every_ocs_up=seed_mean(1 - at_least(ocs, 1).days(days) / days),
        slices=_slices(fleet, repair_days, cubes),
    )


def cube_availability(rates: FailureRates, repair_days: float) -> float:
    """All hosts and all cables of a cube are up: a^n of each kind."""
    hosts = availability(rates.hosts, repair_days) ** HOSTS_PER_CUBE
    return float(hosts * availability(rates.cables, repair_days) ** CABLES_PER_CUBE)


def _slices(fleet: Fleet, repair_days: float, cubes_down: DownTimes) -> tuple[SliceShares, ...]:
    pod, up = fleet.pod.cubes, cube_availability(fleet.rates, repair_days)
    return tuple(
        SliceShares(
            size,
            size * CHIPS_PER_CUBE,
            seed_mean(reconfigurable_share(cubes_down, pod, size, fleet.days)),
            seed_mean(fixed_share(cubes_down, pod, size, fleet.days)),
            expected_reconfigurable_share(pod, size, up),
            expected_fixed_share(pod, size, up),
        )
        for size in slice_sizes(pod)
    )


def _job_year(
    fleet: Fleet, jobs: JobStream, cubes: DownTimes, ocs: DownTimes, on_progress: OnProgress
) -> JobYear:
    days = fleet.days
    placement = place(jobs, fleet.mix, fleet.pod, cubes, ocs, on_progress)
    times = job_times(jobs, placement, fleet.mix, ocs, days)
    circuits = daily_circuits(jobs, placement, fleet.mix, days)
    no_cube, no_routes = moved(jobs, placement, days)
    swapped = (placement.swap_day >= 0) & (placement.swap_day < days)
    swaps = np.bincount(placement.swap_replica[swapped], minlength=fleet.draws.replicas)
    return JobYear(
        started=seed_mean(times.started / days),
        running=seed_mean(times.job_days / days),
        cubes_used=seed_mean(times.cube_days / (days * fleet.pod.cubes)),
        turned_away=seed_mean(turned_away(jobs, placement, days)),
        circuits_started=seed_mean(circuits.started.sum(axis=1) / days),
        circuits_per_job=seed_mean(_share(circuits.started.sum(axis=1), times.started)),
        busiest_day=seed_mean((circuits.started + circuits.swapped).max(axis=1)),
        swaps=seed_mean(swaps / days),
        circuits_swapped=seed_mean(circuits.swapped.sum(axis=1) / days),
        moved_no_cube=seed_mean(no_cube),
        moved_no_routes=seed_mean(no_routes),
        tolerant=seed_mean(_share(times.tolerant_days, times.job_days)),
        tolerant_to_end=seed_mean(_share(times.tolerant_to_end_days, times.job_days)),
        tolerant_jobs=seed_mean(_share(times.tolerant_jobs, times.started)),
    )


def _share(part: Float, total: Float) -> Float:
    """(replicas,): 0 where there is nothing."""
    return part / np.where(total > 0, total, 1)
