"""Spans joined, counted and measured, against instants examined one by one."""

from __future__ import annotations

import numpy as np
import pytest

from railweave.framework.papers.fleet.down_times import DownClock, DownTimes, at_least, counts, joined

REPLICAS, UNITS, DAYS = 3, 4, 10.0


def drawn(seed: int, n: int = 60) -> DownTimes:
    generator = np.random.default_rng(seed)
    begin = generator.uniform(-2, DAYS, n)
    return DownTimes(
        REPLICAS,
        generator.integers(0, REPLICAS, n),
        generator.integers(0, UNITS, n),
        begin,
        begin + generator.exponential(0.5, n),
    )


def holds(spans: DownTimes, replica: int, unit: int, day: float) -> int:
    """How many spans of a unit hold at an instant; the second method."""
    mine = (spans.replica == replica) & (spans.unit == unit)
    return int((mine & (spans.begin <= day) & (day < spans.end)).sum())


INSTANTS = np.random.default_rng(9).uniform(0, DAYS, 200)
NONE = DownTimes(REPLICAS, *(np.zeros(0, kind) for kind in (int, int, float, float)))


@pytest.mark.parametrize("seed", range(3))
def test_joined_spans_hold_when_any_does_and_never_overlap(seed: int) -> None:
    first, second = drawn(seed), drawn(seed + 100)
    together = joined(first, second)
    for replica in range(REPLICAS):
        for unit in range(UNITS):
            for day in INSTANTS:
                either = holds(first, replica, unit, day) + holds(second, replica, unit, day)
                assert holds(together, replica, unit, day) == min(1, either)


@pytest.mark.parametrize("seed", range(3))
def test_counts_and_their_mean(seed: int) -> None:
    spans = joined(drawn(seed))
    steps = counts(spans)
    values = np.array([5.0, 3.0, 2.0, 1.0, 0.5])
    fine = np.arange(0, DAYS, 0.002) + 0.001
    for replica in range(REPLICAS):
        down = np.array(
            [sum(holds(spans, replica, unit, day) for unit in range(UNITS)) for day in fine[::50]]
        )
        mine = steps.replica == replica
        inside = (steps.begin[mine] <= fine[:, None]) & (fine[:, None] < steps.end[mine])
        seen = (inside * steps.unit[mine]).sum(axis=1)
        assert np.array_equal(seen[::50], down)
        assert steps.mean(values, DAYS)[replica] == pytest.approx(values[seen].mean(), abs=0.01)


def test_at_least_two() -> None:
    """By hand: units 0 and 1 are both down from 2 to 3, units 0 and 2 from 4 to 5."""
    begin, end = np.array([1.0, 2.0, 4.0]), np.array([5.0, 3.0, 6.0])
    spans = DownTimes(1, np.zeros(3, int), np.arange(3), begin, end)
    two = at_least(spans, 2)
    assert (two.begin.tolist(), two.end.tolist()) == ([2.0, 4.0], [3.0, 5.0])
    one = at_least(spans, 1)
    assert (one.begin.tolist(), one.end.tolist()) == ([1.0], [6.0])
    assert at_least(spans, 1).days(5.5).tolist() == [4.5]


def test_the_clock_answers_as_instants_do() -> None:
    spans = at_least(drawn(5, 20), 1)
    clock = DownClock(spans, 0, DAYS)
    moments = np.broadcast_to(INSTANTS[:, None], (INSTANTS.size, REPLICAS))
    for replica in range(REPLICAS):
        held = [bool(holds(spans, replica, 0, day)) for day in INSTANTS]
        assert clock.holds(moments)[:, replica].tolist() == held
        begins = spans.begin[spans.replica == replica]
        upcoming = [
            day if now else min((b for b in begins if day < b <= DAYS), default=np.inf)
            for day, now in zip(INSTANTS, held, strict=True)
        ]
        assert clock.next_day(moments)[:, replica] == pytest.approx(upcoming)
    whole = clock.between(np.zeros(REPLICAS), np.full(REPLICAS, DAYS))
    assert whole == pytest.approx(spans.days(DAYS))
    halves = clock.between(np.zeros_like(moments), moments) + clock.between(
        moments, np.full_like(moments, DAYS)
    )
    assert halves == pytest.approx(np.broadcast_to(whole, moments.shape))


def test_no_spans() -> None:
    assert joined(NONE).begin.size == at_least(NONE, 1).begin.size == 0
    assert NONE.days(DAYS).tolist() == [0, 0, 0]
    assert counts(NONE).mean(np.array([0.5, 0.0]), DAYS).tolist() == [0.5, 0.5, 0.5]
    clock, now = DownClock(NONE, 0, DAYS), np.full((1, REPLICAS), 3.0)
    assert not clock.holds(now).any() and not clock.between(now, now + 1).any()
    assert np.isinf(clock.next_day(now)).all()
