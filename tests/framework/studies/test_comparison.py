"""Comparisons by hand: medians of repeats, spread, ratio to the first variant."""

from __future__ import annotations

from dataclasses import replace

import pytest

from railweave.framework.errors import InputError
from railweave.framework.judging.rows import iteration_groups
from railweave.framework.results.result import RunResult
from railweave.framework.studies.comparison import Comparison, Variant, variants_of
from railweave.framework.studies.comparison import compare as compare_rows
from railweave.framework.studies.figures import figures_of

NO_FEEDBACK, FEEDBACK = Variant("hscore", "no-feedback"), Variant("hscore")


def compare(results: dict[Variant, list[RunResult]]) -> list[Comparison]:
    return compare_rows({variant: [figures_of(run) for run in runs] for variant, runs in results.items()})


def timed(result: RunResult, after_s: float, scale: float = 1.0) -> RunResult:
    """The fixture's run (1 s, 1 s, the fault at 2 s, 2.5 s, 1.25 s) with another last iteration, all in
    emulated time, at another rate scale."""
    rows = tuple(
        replace(r, time_us=time_us, declared_time_us=time_us * scale)
        for r in result.rows
        for time_us in (after_s * 1e6 if r.iteration == 3 else r.time_us,)
    )
    groups = iteration_groups(rows, result.faults, result.reroutes)
    fabric = replace(result.fabric, rate_scale=scale)
    return replace(result, rows=rows, iterations=groups, fabric=fabric)


def test_medians_spread_and_ratio(result: RunResult) -> None:
    slow = [timed(result, s) for s in (4.0, 4.2, 4.4)]
    fast = [timed(result, s) for s in (2.1, 2.0, 1.9)]
    first, second = compare({NO_FEEDBACK: slow, FEEDBACK: fast})
    assert (first.healthy_us, first.faulted_us, first.ratio) == pytest.approx((1.0e6, 4.2e6, 1.0))
    assert first.spread_us == pytest.approx((4.0e6, 4.4e6))
    assert second.faulted_us == pytest.approx(2.0e6) and second.spread_us == pytest.approx((1.9e6, 2.1e6))
    assert second.ratio == pytest.approx(2.1)
    assert [row.variant.name for row in (first, second)] == ["hscore (no feedback)", "hscore"]


def test_runs_at_different_rate_scales_compare_in_declared_time(result: RunResult) -> None:
    # 2 s emulated at scale 2 are 4 s declared: as slow as 4 s at scale 1
    first, second = compare({NO_FEEDBACK: [timed(result, 4.0, 1.0)], FEEDBACK: [timed(result, 2.0, 2.0)]})
    assert second.ratio == pytest.approx(1.0)
    assert (first.rate_scales, second.rate_scales) == ((1.0,), (2.0,))


def test_without_a_fault_there_is_nothing_to_compare_but_health(result: RunResult) -> None:
    (row,) = compare({FEEDBACK: [replace(result, faults=())]})
    assert row.faulted_us is None and row.ratio is None and row.healthy_us is not None


def test_an_unknown_mode_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean no-feedback"):
        variants_of(["hscore"], ["feedback", "nofeedback"])
