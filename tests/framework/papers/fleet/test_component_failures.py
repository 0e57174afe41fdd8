"""Failures against what Poisson and renewal processes say."""

from __future__ import annotations

import numpy as np
import pytest

from railweave.framework.papers.fleet.component_failures import (
    Draws,
    Failures,
    Period,
    PodFailures,
    draw_pod_failures,
)
from railweave.framework.papers.fleet.pod import FailureRates, Pod
from railweave.framework.papers.fleet.slices import availability

YEAR = Period(365, 40)


def failures(
    cubes: int = 64, seed: int = 1, replicas: int = 40, rates: FailureRates | None = None
) -> PodFailures:
    return draw_pod_failures(Pod(cubes, 0), rates or FailureRates(), YEAR, Draws(replicas, seed))


@pytest.mark.parametrize(
    ("kind", "per_year"),
    [("hosts", 0.0008 * 365 * 1024), ("cables", 0.00005 * 365 * 64 * 176), ("ocs", 0.0004 * 365 * 48)],
)
def test_failures_are_rate_times_days_times_components(kind: str, per_year: float) -> None:
    """Mean and variance of 40 Poisson numbers lie within 4 standard errors of their expectation."""
    number = getattr(failures(), kind).in_days(365)
    assert number.mean() == pytest.approx(per_year, abs=4 * np.sqrt(per_year / 40))
    assert number.var(ddof=1) == pytest.approx(per_year, abs=4 * per_year * np.sqrt(2 / 39))


@pytest.mark.parametrize("repair_days", [0.5, 2.0, 4.0])
def test_a_component_is_up_mtbf_over_mtbf_and_mttr(repair_days: float) -> None:
    """With failures often enough that some come during repair."""
    rate = 0.05
    hosts = failures(cubes=8, rates=FailureRates(hosts=rate, cables=0, ocs=0)).hosts
    up = 1 - hosts.down_times(repair_days).days(365) / (365 * 8 * 16)
    error = up.std(ddof=1) / np.sqrt(up.size)
    assert up.mean() == pytest.approx(availability(rate, repair_days), abs=4 * error)
    assert availability(rate, repair_days) == pytest.approx((1 / rate) / (1 / rate + repair_days))


def test_what_is_down_does_not_fail() -> None:
    """By hand, of one component: 1 to 4 swallows 2 and 3.5; 4.5 stays, 4.6 falls into its repair."""
    day = np.array([1.0, 2.0, 3.5, 4.5, 4.6])
    zero = np.zeros(5, int)
    one = Failures(1, zero, zero, zero, day, np.array([3.0, 9.0, 2.0, 1.0, 1.0]))
    spans = one.down_times(1.0)
    assert list(zip(spans.begin, spans.end, strict=True)) == [(1.0, 4.0), (4.5, 5.5)]


def test_a_larger_pod_keeps_its_first_cubes() -> None:
    small, large = failures(cubes=6, replicas=3), failures(cubes=9, replicas=3)
    for kind in ("hosts", "cables"):
        few, many = getattr(small, kind), getattr(large, kind)
        first = many.unit < 6
        assert 0 < few.day.size == first.sum() < many.day.size
        for column in ("replica", "unit", "part", "day", "repair"):
            assert np.array_equal(getattr(few, column), getattr(many, column)[first])
    assert np.array_equal(small.ocs.day, large.ocs.day)


def test_equal_seeds_give_equal_failures() -> None:
    assert np.array_equal(failures(replicas=2).hosts.day, failures(replicas=2).hosts.day)
    assert failures(replicas=2).hosts.day[0] != failures(replicas=2, seed=2).hosts.day[0]
    alone, among = failures(replicas=1).hosts, failures(replicas=2).hosts
    assert np.array_equal(alone.day, among.day[among.replica == 0])
