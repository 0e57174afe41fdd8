"""Jobs on cubes: a job takes any cubes that are free, is moved to a spare cube where one of its fails, and is
turned away where it finds no room.

A loss system, job by job, all replicas at once: cubes are kept by the day on which they are free again.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.papers.fleet.down_times import DownClock, DownTimes, at_least
from railweave.framework.papers.fleet.job_mix import JobMix, JobStream
from railweave.framework.papers.fleet.pod import Pod

ONE_OCS, TWO_OCSES = -1, -2
"""In place of a cube: an OCS fails, and a second one while the first is down."""
RUNS, NO_SPARE, NO_ROUTES = 0, 1, 2
"""How a job ended: when it was done; because a cube failed and none was free; because an OCS failed."""
REPORT_EVERY = 256
"""Jobs between two reports of progress."""

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class JobPlacement:
    """What became of the jobs, (jobs, replicas) each: whether it was `accepted`, its `end` in days, and why
    it ended (`ended_by`). `no_routes`: it was turned away because an OCS was down.

    Swaps of a failed cube, (swaps,) each: `swap_replica`, `swap_day`, `swap_job`.
    """

    accepted: Bool
    no_routes: Bool
    end: Float
    ended_by: Int64
    swap_replica: Int64
    swap_day: Float
    swap_job: Int64


@dataclass(frozen=True, slots=True)
class Strikes:
    """Failures in order, (most failures + 1, replicas) each: on `day` (inf behind the last) `cube` fails
    until `back`, or OCSes do."""

    day: Float
    cube: Int64
    back: Float


def place(
    jobs: JobStream,
    mix: JobMix,
    pod: Pod,
    cubes_down: DownTimes,
    ocs_down: DownTimes,
    on_progress: OnProgress = lambda done, total: None,
) -> JobPlacement:
    """Run every job on the first cubes that are free when it arrives.

    `cubes_down`: spans by cube, joined; `ocs_down`: spans of OCSes. With one OCS down only jobs that opt in
    run or start, with two none does. A job that must leave counts as moved to another pod.
    """
    one_down, two_down = at_least(ocs_down, 1), at_least(ocs_down, 2)
    arrived = np.isfinite(jobs.arrival)
    first, last = _bounds(jobs.arrival, cubes_down, ocs_down)
    degraded, broken = (DownClock(spans, first, last).holds(jobs.arrival) for spans in (one_down, two_down))
    no_routes = arrived & (broken | (degraded & ~jobs.opts_in))
    size = mix.cubes[jobs.kind]
    reserve = np.maximum(0, pod.spares - _down_at(jobs.arrival, cubes_down))
    need = np.where(arrived & ~no_routes, size + reserve, pod.cubes + 1)
    cubes = _Cubes(jobs, pod, _strikes(cubes_down, one_down, two_down))
    accepted = np.zeros_like(arrived)
    for job, day in enumerate(jobs.arrival):
        cubes.fail_before(day)
        accepted[job] = cubes.take(job, day, need[job], size[job])
        if job % REPORT_EVERY == 0:
            on_progress(job, len(accepted))
    cubes.fail_before(np.full(pod_replicas(jobs), np.inf))
    return cubes.placement(accepted, no_routes)


def pod_replicas(jobs: JobStream) -> int:
    return int(jobs.arrival.shape[1])


class _Cubes:
    """The pod's cubes while jobs come and parts fail: (cubes, replicas), [cube, replica]."""

    def __init__(self, jobs: JobStream, pod: Pod, strikes: Strikes) -> None:
        self._opts_in, self._strikes = jobs.opts_in, strikes
        replicas = pod_replicas(jobs)
        self._free = np.full((pod.cubes, replicas), -np.inf)
        """The day on which a cube is free again, or back from repair."""
        self._job = np.full((pod.cubes, replicas), -1)
        """The job a cube serves until it is free; -1 in repair."""
        self._end = np.where(np.isfinite(jobs.arrival), jobs.arrival + jobs.days, np.inf)
        self._ended_by = np.full(self._end.shape, RUNS)
        self._next = np.zeros(replicas, np.int64)
        self._next_day = strikes.day[0].copy()
        self._swaps: list[tuple[Int64, Float, Int64]] = []

    def take(self, job: int, day: Float, need: Int64, size: Int64) -> Bool:
        """Give the job `size` cubes of each replica in which `need` or more are free; whether it got them."""
        free = self._free <= day
        rank = np.cumsum(free, axis=0, dtype=np.int16)
        fits: Bool = rank[-1] >= need
        taken = free & (rank <= np.where(fits, size, 0).astype(np.int16))
        np.copyto(self._free, self._end[job], where=taken)
        np.copyto(self._job, job, where=taken)
        return fits

    def fail_before(self, day: Float) -> None:
        """Let happen what fails before `day`, (replicas,), one failure of every replica at a time."""
        while (due := self._next_day < day).any():
            replicas = np.flatnonzero(due)
            now, at = self._next_day[replicas], self._next[replicas]
            cube, back = self._strikes.cube[at, replicas], self._strikes.back[at, replicas]
            is_cube = cube >= 0
            if is_cube.any():
                self._fail_cube(replicas[is_cube], cube[is_cube], now[is_cube], back[is_cube])
            if not is_cube.all():
                ocs = ~is_cube
                self._fail_ocs(replicas[ocs], now[ocs], everyone=cube[ocs] == TWO_OCSES)
            self._next[replicas] += 1
            self._next_day[replicas] = self._strikes.day[self._next[replicas], replicas]

    def _fail_cube(self, replica: Int64, cube: Int64, now: Float, back: Float) -> None:
        job = self._job[cube, replica]
        hit = (self._free[cube, replica] > now) & (job >= 0)
        self._free[cube, replica], self._job[cube, replica] = back, -1
        replica, job, now = replica[hit], job[hit], now[hit]
        free = self._free[:, replica] <= now
        rescued = free.any(axis=0)
        spare = free.argmax(axis=0)[rescued]
        there, saved = replica[rescued], job[rescued]
        self._free[spare, there], self._job[spare, there] = self._end[saved, there], saved
        self._swaps.append((there, now[rescued], saved))
        lost = ~rescued
        there, gone, now = replica[lost], job[lost], now[lost]
        self._end[gone, there], self._ended_by[gone, there] = now, NO_SPARE
        self._release(there, now, self._job[:, there] == gone)

    def _fail_ocs(self, replica: Int64, now: Float, everyone: Bool) -> None:
        job = self._job[:, replica]
        stays = self._opts_in[job, replica] & ~everyone
        leaves = (job >= 0) & (self._free[:, replica] > now) & ~stays
        _, column = np.nonzero(leaves)
        gone, there = job[leaves], replica[column]
        self._end[gone, there], self._ended_by[gone, there] = now[column], NO_ROUTES
        self._release(replica, now, leaves)

    def _release(self, replica: Int64, now: Float, cubes: Bool) -> None:
        """Free these cubes, (cubes, len(replica)), where they are not yet."""
        free = self._free[:, replica]
        self._free[:, replica] = np.where(cubes, np.minimum(free, now), free)

    def placement(self, accepted: Bool, no_routes: Bool) -> JobPlacement:
        swaps = zip(*self._swaps, strict=True) if self._swaps else ((np.zeros(0, np.int64),),) * 3
        replica, day, job = (np.concatenate(tuple(column)) for column in swaps)
        return JobPlacement(
            accepted, no_routes, self._end, self._ended_by, replica, day.astype(float), job.astype(np.int64)
        )


def _strikes(cubes_down: DownTimes, one_down: DownTimes, two_down: DownTimes) -> Strikes:
    """What fails in each replica, in order."""
    parts = (cubes_down, one_down, two_down)
    replica = np.concatenate([spans.replica for spans in parts])
    day = np.concatenate([spans.begin for spans in parts])
    back = np.concatenate([spans.end for spans in parts])
    marks = (np.full(one_down.begin.size, ONE_OCS), np.full(two_down.begin.size, TWO_OCSES))
    cube = np.concatenate((cubes_down.unit, *marks))
    order = np.lexsort((day, replica))
    replica, day, cube, back = replica[order], day[order], cube[order], back[order]
    number = np.bincount(replica, minlength=cubes_down.replicas)
    place_in_row = np.arange(replica.size) - np.repeat(np.cumsum(number) - number, number)
    shape = (int(number.max()) + 1, cubes_down.replicas)
    days, cubes, backs = np.full(shape, np.inf), np.full(shape, ONE_OCS), np.full(shape, np.inf)
    cell = place_in_row, replica
    days[cell], cubes[cell], backs[cell] = day, cube, back
    return Strikes(days, cubes, backs)


def _down_at(instants: Float, cubes_down: DownTimes) -> Int64:
    """(jobs, replicas): cubes that are down at each instant."""
    down = np.zeros(instants.shape, np.int64)
    for replica in range(instants.shape[1]):
        mine = cubes_down.replica == replica
        begun, over = (np.sort(days[mine]) for days in (cubes_down.begin, cubes_down.end))
        moment = instants[:, replica]
        down[:, replica] = np.searchsorted(begun, moment, "right") - np.searchsorted(over, moment, "right")
    return down


def _bounds(arrival: Float, *spans: DownTimes) -> tuple[float, float]:
    """The first and the last day of anything."""
    finite = arrival[np.isfinite(arrival)]
    days = [finite, *(part.begin for part in spans), *(part.end for part in spans)]
    filled = [part for part in days if part.size] or [np.zeros(1)]
    return min(float(part.min()) for part in filled), max(float(part.max()) for part in filled) + 1
