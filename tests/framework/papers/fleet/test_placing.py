"""Jobs on cubes: by hand, job by job in plain Python, and against Kaufman and Roberts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railweave.framework.papers.fleet.component_failures import Draws, Period, draw_pod_failures
from railweave.framework.papers.fleet.down_times import DownTimes, at_least, joined
from railweave.framework.papers.fleet.job_figures import job_times, turned_away
from railweave.framework.papers.fleet.job_mix import JobMix, JobStream, SliceKind, draw_jobs
from railweave.framework.papers.fleet.placing import NO_ROUTES, NO_SPARE, RUNS, JobPlacement, place
from railweave.framework.papers.fleet.pod import FailureRates, Pod

ONE, TWO = SliceKind((1, 1, 1), 0.5, 1.0), SliceKind((1, 1, 2), 0.5, 1.0)
MIX = JobMix((ONE, TWO), 10, 0.95)
NEVER = DownTimes(1, *(np.zeros(0, kind) for kind in (int, int, float, float)))


def spans(*rows: tuple[int, float, float], replicas: int = 1) -> DownTimes:
    unit, begin, end = (np.array(column) for column in zip(*rows, strict=True))
    return DownTimes(replicas, np.zeros(len(rows), int), unit, begin.astype(float), end.astype(float))


def stream(*rows: tuple[float, int, float, bool]) -> JobStream:
    """Arrival, kind, days and opting in, of one replica."""
    arrival, kind, days, opts_in = (np.array(column)[:, None] for column in zip(*rows, strict=True))
    return JobStream(arrival.astype(float), kind.astype(int), days.astype(float), opts_in.astype(bool))


def column(values: np.ndarray) -> list[float]:  # type: ignore[type-arg]
    return [float(value) for value in values[:, 0]]


def test_a_job_without_room_is_turned_away() -> None:
    jobs = stream((0, 1, 2, True), (1, 1, 2, True), (1.5, 0, 9, True), (2.5, 1, 1, True))
    ran = place(jobs, MIX, Pod(3, 0), NEVER, NEVER)
    assert column(ran.accepted) == [1, 0, 1, 1]
    reserved = place(jobs, MIX, Pod(3, 1), NEVER, NEVER)
    assert column(reserved.accepted) == [1, 0, 0, 1], "the third cube is spare"


def test_a_failed_cube_is_replaced_or_its_job_moves() -> None:
    """Cube 0 fails at 1, cube 2 takes over; cube 2 fails at 2 and none is free, so cubes 1 and 2 are given
    up; at 2.5 only cube 1 is up."""
    jobs = stream((0, 1, 5, True), (2.5, 0, 1, True), (2.6, 0, 1, True))
    ran = place(jobs, MIX, Pod(3, 0), spans((0, 1, 9), (2, 2, 9)), NEVER)
    assert (column(ran.end)[:2], column(ran.ended_by)[:2]) == ([2, 3.5], [NO_SPARE, RUNS])
    assert column(ran.accepted) == [1, 1, 0]
    assert (ran.swap_day.tolist(), ran.swap_job.tolist()) == ([1.0], [0])


def test_one_ocs_down_and_two() -> None:
    """Job 1 did not opt in and leaves at 1; job 2 may not start; job 3 may; at 3 a second OCS fails."""
    jobs = stream((0, 0, 9, True), (0.5, 0, 9, False), (2, 0, 1, False), (2.5, 0, 9, True), (3.5, 0, 1, True))
    ran = place(jobs, MIX, Pod(8, 0), NEVER, spans((0, 1, 4), (0, 3, 6)))
    assert column(ran.accepted) == [1, 1, 0, 1, 0]
    assert column(ran.no_routes) == [0, 0, 1, 0, 1]
    assert [column(ran.end)[job] for job in (0, 1, 3)] == [3, 1, 3]
    assert [column(ran.ended_by)[job] for job in (0, 1, 3)] == [NO_ROUTES] * 3


def test_days_on_fault_tolerant_routes() -> None:
    """By hand: an OCS is down from 2 to 3; job 0 runs from 0 to 9, job 1 from 2.5 to 3.5, job 2 after it."""
    jobs = stream((0, 0, 9, True), (2.5, 1, 1, True), (3.2, 0, 1, True))
    failed = spans((0, 2, 3))
    ran = place(jobs, MIX, Pod(8, 0), NEVER, failed)
    times = job_times(jobs, ran, MIX, failed, 20)
    assert times.job_days.tolist() == pytest.approx([11.0])
    assert times.cube_days.tolist() == pytest.approx([12.0])
    assert times.tolerant_days.tolist() == pytest.approx([1.0 + 0.5])
    assert times.tolerant_to_end_days.tolist() == pytest.approx([7.0 + 1.0])
    assert times.tolerant_jobs.tolist() == [2]


def by_hand(
    jobs: JobStream, pod: Pod, replica: int, cubes: DownTimes, ocs: DownTimes
) -> list[tuple[bool, float]]:
    """Acceptance and end of every job, one event after the other; the second method."""
    one, two = at_least(ocs, 1), at_least(ocs, 2)
    events: list[tuple[float, str, int, float]] = []
    for name, down in (("cube", cubes), ("one", one), ("two", two)):
        mine = down.replica == replica
        rows = zip(down.begin[mine], down.unit[mine], down.end[mine], strict=True)
        events += [(float(begin), name, int(unit), float(end)) for begin, unit, end in rows]
    arrivals = jobs.arrival[:, replica]
    events += [(float(day), "job", job, 0.0) for job, day in enumerate(arrivals) if np.isfinite(day)]
    broken, serves = [-np.inf] * pod.cubes, [-1] * pod.cubes
    accepted, end = [False] * len(arrivals), [float(x) for x in arrivals + jobs.days[:, replica]]
    lasting = {"one": -np.inf, "two": -np.inf}
    for day, name, number, back in sorted(events):
        serves = [job if job >= 0 and end[job] > day else -1 for job in serves]
        free = [cube for cube in range(pod.cubes) if serves[cube] < 0 and broken[cube] <= day]
        if name == "job":
            opts = bool(jobs.opts_in[number, replica])
            size = (1, 2)[jobs.kind[number, replica]]
            used = sum(job >= 0 for job in serves)
            allowed = day >= lasting["two"] and (opts or day >= lasting["one"])
            accepted[number] = allowed and len(free) >= size and used + size <= pod.for_jobs
            for cube in free[: size if accepted[number] else 0]:
                serves[cube] = number
        elif name == "cube":
            job, serves[number], broken[number] = serves[number], -1, back
            free = [cube for cube in free if cube != number]
            if job >= 0 and free:
                serves[free[0]] = job
            elif job >= 0:
                end[job] = day
        else:
            lasting[name] = back
            for job in set(serves) - {-1}:
                if name == "two" or not jobs.opts_in[job, replica]:
                    end[job] = day
    return list(zip(accepted, end, strict=True))


def crowded(opt_in: float = 0.6) -> tuple[JobStream, Pod, DownTimes, DownTimes]:
    """A small pod that is often full and often fails."""
    pod, period, draws = Pod(6, 1), Period(60, 5), Draws(4, 11)
    rates = FailureRates(hosts=0.01, cables=0.0005, ocs=0.005)
    failures = draw_pod_failures(pod, rates, period, draws)
    cubes = joined(failures.hosts.down_times(1.0), failures.cables.down_times(1.0))
    jobs = draw_jobs(replace(MIX, per_day=4, opt_in=opt_in), period, draws)
    return jobs, pod, cubes, failures.ocs.down_times(1.0)


def test_all_replicas_at_once_are_what_each_is_alone() -> None:
    jobs, pod, cubes, ocs = crowded()
    ran = place(jobs, MIX, pod, cubes, ocs)
    reasons = set(ran.ended_by[ran.accepted].tolist())
    assert reasons == {RUNS, NO_SPARE, NO_ROUTES} and ran.swap_day.size > 10, "the case shows everything"
    for replica in range(4):
        expected = by_hand(jobs, pod, replica, cubes, ocs)
        assert ran.accepted[:, replica].tolist() == [accepted for accepted, _ in expected]
        ends = [
            (float(end), slow)
            for end, (accepted, slow) in zip(ran.end[:, replica], expected, strict=True)
            if accepted
        ]
        assert [fast for fast, _ in ends] == [slow for _, slow in ends]


def kaufman_roberts(capacity: int, mix: JobMix) -> list[float]:
    """Blocking by kind in a loss system: n q(n) = sum of a_k c_k q(n - c_k). Kaufman, IEEE Trans. Commun. 29,
    1981; Roberts, 1981."""
    offered = [mix.per_day * kind.share * kind.mean_days for kind in mix.kinds]
    q = [1.0]
    for n in range(1, capacity + 1):
        terms = (
            load * kind.cubes * q[n - kind.cubes]
            for load, kind in zip(offered, mix.kinds, strict=True)
            if kind.cubes <= n
        )
        q.append(sum(terms) / n)
    return [sum(q[capacity - kind.cubes + 1 :]) / sum(q) for kind in mix.kinds]


def healthy(mix: JobMix, pod: Pod, replicas: int = 40) -> tuple[JobStream, JobPlacement]:
    jobs = draw_jobs(mix, Period(200, 20), Draws(replicas, 5))
    none = replace(NEVER, replicas=replicas)
    return jobs, place(jobs, mix, pod, none, none)


def test_jobs_are_lost_as_kaufman_and_roberts_say() -> None:
    mix = JobMix((SliceKind((1, 1, 1), 0.6, 1.0), SliceKind((1, 2, 2), 0.4, 1.5)), 8, 1.0)
    pod = Pod(24, 2)
    jobs, ran = healthy(mix, pod)
    for kind, expected in enumerate(kaufman_roberts(pod.for_jobs, mix)):
        counted = (jobs.arrival >= 0) & np.isfinite(jobs.arrival) & (jobs.kind == kind)
        lost = (counted & ~ran.accepted).sum(axis=0) / counted.sum(axis=0)
        assert 0.02 < expected < 0.6
        assert lost.mean() == pytest.approx(expected, abs=4 * lost.std(ddof=1) / np.sqrt(lost.size))


def test_littles_law() -> None:
    """Jobs at an instant = jobs accepted a day x mean days of a job; the left side is sampled."""
    jobs, ran = healthy(MIX, Pod(16, 0))
    instants = np.linspace(0, 200, 101)
    running = np.array(
        [(ran.accepted & (jobs.arrival <= day) & (day < ran.end)).sum(axis=0) for day in instants]
    ).mean(axis=0)
    counted = ran.accepted & (jobs.arrival >= 0)
    length = np.where(counted, ran.end - np.where(counted, jobs.arrival, 0), 0).sum(axis=0)
    through = length / 200  # accepted / 200 days x length / accepted
    gap = running - through
    assert gap.mean() == pytest.approx(0, abs=4 * gap.std(ddof=1) / np.sqrt(gap.size))
    sums = job_times(jobs, ran, MIX, replace(NEVER, replicas=40), 200)
    assert sums.job_days.mean() / 200 == pytest.approx(running.mean(), rel=0.01)


def test_shares_of_jobs_lie_between_none_and_all() -> None:
    jobs, pod, cubes, ocs = crowded()
    ran = place(jobs, MIX, pod, cubes, ocs)
    assert ((turned_away(jobs, ran, 60) > 0) & (turned_away(jobs, ran, 60) < 1)).all()
    nobody, pod, cubes, ocs = crowded(opt_in=0.0)
    times = job_times(nobody, place(nobody, MIX, pod, cubes, ocs), MIX, ocs, 60)
    assert not times.tolerant_days.any() and not times.tolerant_to_end_days.any()
    assert not times.tolerant_jobs.any() and times.job_days.all()
