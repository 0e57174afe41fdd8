"""Comparisons by hand: medians of repeats, spread, ratio to the first way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from railweave.framework.comparison import Way, compare
from railweave.framework.results import RunResult


def timed(result: RunResult, after_s: float) -> RunResult:
    """The fixture's run (1 s, 1 s, the fault at 2 s, 2.5 s, 1.25 s) with another last iteration."""
    rows = tuple(replace(r, time_us=after_s * 1e6) if r.iteration == 3 else r for r in result.rows)
    return replace(result, rows=rows)


def test_medians_spread_and_ratio(result: RunResult) -> None:
    slow = [timed(result, s) for s in (4.0, 4.2, 4.4)]
    fast = [timed(result, s) for s in (2.1, 2.0, 1.9)]
    first, second = compare([(Way("hscore", "no-feedback"), slow), (Way("hscore", "feedback"), fast)])
    assert (first.healthy_s, first.faulted_s, first.ratio) == (1.0, 4.2, 1.0)
    assert first.spread_s == pytest.approx((4.0, 4.4))
    assert second.faulted_s == 2.0 and second.spread_s == pytest.approx((1.9, 2.1))
    assert second.ratio == pytest.approx(2.1)
    assert [row.way.name for row in (first, second)] == ["hscore (no feedback)", "hscore"]


def test_without_a_fault_there_is_nothing_to_compare_but_health(result: RunResult) -> None:
    (row,) = compare([(Way("hscore", "feedback"), [replace(result, faults=())])])
    assert row.faulted_s is None and row.ratio is None and row.healthy_s is not None
