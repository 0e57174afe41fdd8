"""What the jobs of a year say: circuits set, jobs turned away and moved, time on fault-tolerant routes."""

from dataclasses import dataclass

import numpy as np

from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.papers.fleet.down_times import DownClock, DownTimes, at_least
from railweave.framework.papers.fleet.job_mix import JobMix, JobStream
from railweave.framework.papers.fleet.placing import NO_ROUTES, NO_SPARE, JobPlacement


@dataclass(frozen=True, slots=True)
class JobTimes:
    """Sums over the jobs of each replica, (replicas,) each, on the days that count.

    `job_days`: days that jobs ran; `cube_days`: times their cubes; `tolerant_days`: on fault-tolerant routes
    while an OCS is down; `tolerant_to_end_days`: until the job ends, once it is on them; `tolerant_jobs`:
    jobs that were on them at all.
    """

    started: Float
    job_days: Float
    cube_days: Float
    tolerant_days: Float
    tolerant_to_end_days: Float
    tolerant_jobs: Float


@dataclass(frozen=True, slots=True)
class DailyCircuits:
    """(replicas, days) each: circuits set for jobs that started, and for swapped cubes."""

    started: Float
    swapped: Float


def job_times(
    jobs: JobStream, placement: JobPlacement, mix: JobMix, ocs_down: DownTimes, days: float
) -> JobTimes:
    """Of the jobs that ran between 0 and `days`.

    A job is on fault-tolerant routes while one OCS is down: all slices use all OCSes. Where routes are static
    for the life of a job (section 4), it keeps them to its end.
    """
    ran = placement.accepted
    begin = np.where(ran, np.clip(jobs.arrival, 0, days), 0)
    end = np.where(ran, np.clip(placement.end, 0, days), 0)
    clock = DownClock(at_least(ocs_down, 1), 0, days)
    tolerant = clock.between(begin, end)
    on_them = tolerant > 0
    to_end = np.where(on_them, end - np.minimum(clock.next_day(begin), end), 0)
    length = end - begin
    return JobTimes(
        started=starts(jobs, placement, days).sum(axis=0).astype(float),
        job_days=length.sum(axis=0),
        cube_days=(length * mix.cubes[jobs.kind]).sum(axis=0).astype(float),
        tolerant_days=tolerant.sum(axis=0),
        tolerant_to_end_days=to_end.sum(axis=0),
        tolerant_jobs=on_them.sum(axis=0).astype(float),
    )


def starts(jobs: JobStream, placement: JobPlacement, days: float) -> Bool:
    """(jobs, replicas): jobs that started between 0 and `days`."""
    return placement.accepted & _arrived(jobs, days)


def _arrived(jobs: JobStream, days: float) -> Bool:
    inside: Bool = (jobs.arrival >= 0) & (jobs.arrival < days)
    return inside


def turned_away(jobs: JobStream, placement: JobPlacement, days: float) -> Float:
    """(replicas,): share of the jobs that arrived between 0 and `days` and found no room, with routes or
    without."""
    arrived = _arrived(jobs, days)
    share: Float = (arrived & ~placement.accepted).sum(axis=0) / np.maximum(1, arrived.sum(axis=0))
    return share


def moved(jobs: JobStream, placement: JobPlacement, days: float) -> tuple[Float, Float]:
    """(replicas,) each, a day: jobs that left because a cube failed and none was free; jobs that left or were
    turned away because an OCS was down."""
    ended = placement.accepted & (placement.end >= 0) & (placement.end < days)
    no_spare = (ended & (placement.ended_by == NO_SPARE)).sum(axis=0)
    no_routes = (ended & (placement.ended_by == NO_ROUTES)).sum(axis=0)
    refused = (placement.no_routes & _arrived(jobs, days)).sum(axis=0)
    return no_spare / days, (no_routes + refused) / days


def daily_circuits(jobs: JobStream, placement: JobPlacement, mix: JobMix, days: int) -> DailyCircuits:
    """Circuits that jobs needed when they started, and where a failed cube was replaced."""
    replicas = jobs.arrival.shape[1]

    def by_day(replica: Int64, day: Float, weight: Float) -> Float:
        inside = (day >= 0) & (day < days)
        cell = replica[inside] * days + day[inside].astype(np.int64)
        total = np.bincount(cell, weight[inside], replicas * days).astype(float)
        return total.reshape(replicas, days)

    job, replica = (index.astype(np.int64) for index in np.nonzero(placement.accepted))
    started = jobs.arrival[job, replica]
    circuits = mix.column("circuits")[jobs.kind[job, replica]]
    swaps = mix.column("circuits_of_swap")[jobs.kind[placement.swap_job, placement.swap_replica]]
    return DailyCircuits(
        started=by_day(replica, started, circuits),
        swapped=by_day(placement.swap_replica, placement.swap_day, swaps),
    )
