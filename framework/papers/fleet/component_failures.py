"""Failures of components as Poisson processes; one draw serves all repair times and larger pods."""

from dataclasses import dataclass

import numpy as np

from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.papers.fleet.down_times import DownTimes
from railweave.framework.papers.fleet.pod import (
    CABLES_PER_CUBE,
    HOSTS_PER_CUBE,
    SWITCHES,
    FailureRates,
    Pod,
)


@dataclass(frozen=True, slots=True)
class Period:
    """`days` that count, after `warm_up` days that let the pod forget that it began whole and empty."""

    days: float
    warm_up: float


@dataclass(frozen=True, slots=True)
class Draws:
    """Of `replicas` independent pods, from `seed`."""

    replicas: int
    seed: int

    def generator(self, replica: int, *stream: int) -> np.random.Generator:
        """Of one replica and one stream of numbers."""
        return np.random.default_rng((self.seed, replica, *stream))


@dataclass(frozen=True, slots=True)
class Failures:
    """Failures of one kind of component, (n,) each: component `part` of `unit` (cube) in `replica` fails on
    `day`; `repair` is its repair time over the mean."""

    replicas: int
    replica: Int64
    unit: Int64
    part: Int64
    day: Float
    repair: Float

    def down_times(self, repair_days: float) -> DownTimes:
        """Spans from failure to repair, per component; what is down does not fail.

        With exponential times between failures this is the alternating renewal process of a component with
        MTBF 1 / rate and MTTR `repair_days`: what a Poisson process adds during repair is dropped.
        """
        end = self.day + self.repair * repair_days
        up = _while_up(self.replica, self.part, self.day, end)
        return DownTimes(self.replicas, self.replica, self.unit, self.day, end).select(up)

    def in_days(self, days: float) -> Float:
        """(replicas,): failures on days 0 to `days`, without regard to repair."""
        inside = (self.day >= 0) & (self.day < days)
        return np.bincount(self.replica[inside], minlength=self.replicas).astype(float)


@dataclass(frozen=True, slots=True)
class PodFailures:
    """All failures of pods: hosts and cables by cube, OCSes as parts of one unit."""

    hosts: Failures
    cables: Failures
    ocs: Failures


def draw_pod_failures(pod: Pod, rates: FailureRates, period: Period, draws: Draws) -> PodFailures:
    """The failures of every replica. A pod with more cubes has the same failures in the cubes it had."""
    return PodFailures(
        hosts=_draw(0, pod.cubes, HOSTS_PER_CUBE, rates.hosts, period, draws),
        cables=_draw(1, pod.cubes, CABLES_PER_CUBE, rates.cables, period, draws),
        ocs=_draw(2, 1, SWITCHES, rates.ocs, period, draws),
    )


def _draw(kind: int, units: int, parts: int, rate_per_day: float, period: Period, draws: Draws) -> Failures:
    mean = rate_per_day * parts * (period.days + period.warm_up)
    columns: list[tuple[Int64, ...]] = []
    numbers: list[tuple[Float, ...]] = []
    for replica in range(draws.replicas):
        # a stream for each quantity, cube by cube: draws of further cubes come behind those of the first ones
        how_many, when, which, how_long = (draws.generator(replica, kind, stream) for stream in range(4))
        count = how_many.poisson(mean, units)
        total = int(count.sum())
        unit = np.repeat(np.arange(units), count)
        part = (which.random(total) * parts).astype(np.int64) + unit * parts
        columns.append((np.full(total, replica), unit, part))
        day = when.random(total) * (period.days + period.warm_up) - period.warm_up
        numbers.append((day, how_long.exponential(size=total)))
    replica_of, unit_of, part_of = (np.concatenate(column) for column in zip(*columns, strict=True))
    day_of, repair_of = (np.concatenate(column) for column in zip(*numbers, strict=True))
    order = np.lexsort((day_of, part_of, replica_of))
    return Failures(
        draws.replicas,
        replica_of[order],
        unit_of[order],
        part_of[order],
        day_of[order],
        repair_of[order],
    )


def _while_up(replica: Int64, part: Int64, begin: Float, end: Float) -> Int64:
    """Indices of the failures of components that are up then; ordered by replica, part and begin."""
    kept = np.arange(begin.size)
    while True:
        before, after = kept[:-1], kept[1:]
        same = (replica[before] == replica[after]) & (part[before] == part[after])
        early: Bool = np.append(False, same & (begin[after] < end[before]))
        first = early & ~np.append(False, early[:-1])  # the failure before it was of a component that was up
        if not first.any():
            return kept
        kept = kept[~first]
