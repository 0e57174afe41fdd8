"""Spans of time in which components are down, of many replicas at once: joined, counted, measured."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from railweave.framework.model.arrays import Bool, Float, Int64


@dataclass(frozen=True, slots=True)
class DownTimes:
    """`n` spans, (n,) each: `unit` (a cube, or a switch) of `replica` is down from `begin` to `end`, in days.

    `replicas`: how many there are, with spans or without.
    """

    replicas: int
    replica: Int64
    unit: Int64
    begin: Float
    end: Float

    def select(self, chosen: Bool | Int64) -> Self:
        """The spans with these indices, or where `chosen` holds."""
        replica, unit = self.replica[chosen], self.unit[chosen]
        return type(self)(self.replicas, replica, unit, self.begin[chosen], self.end[chosen])

    def days(self, window: float) -> Float:
        """(replicas,): days of all spans between 0 and `window`."""
        inside = np.clip(self.end, 0, window) - np.clip(self.begin, 0, window)
        return np.bincount(self.replica, inside, self.replicas).astype(float)

    def mean(self, by_unit: Float, window: float) -> Float:
        """(replicas,): mean from 0 to `window` of a quantity that is `by_unit[u]` while `u` is down, and
        `by_unit[0]` else; no two spans of a replica overlap."""
        inside = np.clip(self.end, 0, window) - np.clip(self.begin, 0, window)
        change = (by_unit[self.unit] - by_unit[0]) * inside
        changed: Float = np.bincount(self.replica, change, self.replicas) / window
        return changed + float(by_unit[0])


def joined(*parts: DownTimes) -> DownTimes:
    """The spans in which a unit is down for one reason or several; of one unit no two overlap. Ordered by
    replica, unit and begin."""
    every = _together(parts)
    every = every.select(np.lexsort((every.begin, every.unit, every.replica)))
    if not every.begin.size:
        return every
    units = int(every.unit.max()) + 1
    lift = _lift(every, every.replica * units + every.unit)
    latest = np.maximum.accumulate(every.end + lift)
    fresh = np.append(True, every.begin[1:] + lift[1:] > latest[:-1])
    first = np.flatnonzero(fresh)
    return DownTimes(
        every.replicas,
        every.replica[first],
        every.unit[first],
        every.begin[first],
        np.maximum.reduceat(every.end, first),
    )


def counts(spans: DownTimes) -> DownTimes:
    """How many of the spans hold at once, as steps from one change to the next: `unit` is that number."""
    replica = np.tile(spans.replica, 2)
    day = np.concatenate((spans.begin, spans.end))
    change = np.repeat(np.array([1, -1]), spans.begin.size)
    order = np.lexsort((day, replica))
    replica, day, count = replica[order], day[order], np.cumsum(change[order])
    end = np.append(day[1:], np.inf) if day.size else day
    return DownTimes(spans.replicas, replica, count, day, end).select(count > 0)


def at_least(spans: DownTimes, least: int) -> DownTimes:
    """The spans in which `least` or more of the spans hold at once, as unit 0."""
    steps = counts(spans)
    enough = steps.select(steps.unit >= least)
    return joined(replace(enough, unit=0 * enough.unit))


class DownClock:
    """Answers for many instants at once whether, and for how long, the spans of one unit hold.

    Instants are (..., replicas), in days; spans must not overlap.
    """

    def __init__(self, spans: DownTimes, first: float, last: float) -> None:
        self._lift = (last - first + 1) * np.arange(spans.replicas)
        self._bounds = first, last
        ends = (
            np.clip(day, first, last) - first + self._lift[spans.replica] for day in (spans.begin, spans.end)
        )
        self._begin, self._end = ends
        self._knots = np.ravel(np.column_stack((self._begin, self._end)))
        lengths = np.column_stack((np.zeros_like(self._begin), self._end - self._begin))
        self._total = np.cumsum(np.ravel(lengths))

    def _lifted(self, instants: Float) -> Float:
        first, last = self._bounds
        lifted: Float = np.clip(instants, first, last) - first + self._lift
        return lifted

    def holds(self, instants: Float) -> Bool:
        """Whether a span holds at each instant."""
        moments = self._lifted(instants)
        before = np.searchsorted(self._begin, moments, side="right")
        answer: Bool = moments < np.append(-np.inf, self._end)[before]
        return answer

    def between(self, begin: Float, end: Float) -> Float:
        """Days of the spans between two instants each."""
        if not self._knots.size:
            return np.zeros(np.broadcast(begin, end).shape)
        passed = (np.interp(self._lifted(x), self._knots, self._total, left=0.0) for x in (end, begin))
        until_end, until_begin = passed
        days: Float = until_end - until_begin
        return days

    def next_day(self, instants: Float) -> Float:
        """The day on which a span next holds: now, at the begin of the next one, or never (inf)."""
        moments = self._lifted(instants)
        after = np.searchsorted(self._begin, moments, side="right")
        upcoming = np.append(self._begin, np.inf)[after] - self._lift + self._bounds[0]
        beyond = upcoming > self._bounds[1]
        return np.where(self.holds(instants), instants, np.where(beyond, np.inf, upcoming))


def _together(parts: tuple[DownTimes, ...]) -> DownTimes:
    columns = zip(*((part.replica, part.unit, part.begin, part.end) for part in parts), strict=True)
    return DownTimes(parts[0].replicas, *(np.concatenate(column) for column in columns))


def _lift(spans: DownTimes, group: Int64) -> Float:
    """Days to add so that the spans of each group lie behind those of all groups before it."""
    return group.astype(float) * float(spans.end.max() - spans.begin.min() + 1)
