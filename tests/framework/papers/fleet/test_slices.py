"""Whole slices, with circuits and without, against closed forms."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from railweave.framework.model.arrays import Float
from railweave.framework.papers.fleet.component_failures import Draws, Period, draw_pod_failures
from railweave.framework.papers.fleet.down_times import DownTimes, joined
from railweave.framework.papers.fleet.pod import FailureRates, Pod
from railweave.framework.papers.fleet.slices import (
    expected_fixed_share,
    expected_reconfigurable_share,
    fixed_share,
    reconfigurable_share,
    slice_sizes,
    up_chances,
    up_share,
)
from railweave.framework.papers.fleet.year import cube_availability

DAYS, REPAIR_DAYS = 365, 3.0


@cache
def cubes_down(cubes: int) -> DownTimes:
    failures = draw_pod_failures(Pod(cubes, 0), FailureRates(), Period(DAYS, 30), Draws(60, 7))
    return joined(failures.hosts.down_times(REPAIR_DAYS), failures.cables.down_times(REPAIR_DAYS))


def assert_expected(values: Float, expected: float) -> None:
    """Within 4 standard errors over the replicas."""
    assert values.mean() == pytest.approx(expected, abs=4 * values.std(ddof=1) / np.sqrt(values.size))


def test_a_cube_down_half_the_time() -> None:
    """By hand: cube 1 of 4 is down from day 2 to day 4 of 4."""
    one = DownTimes(1, np.array([0]), np.array([1]), np.array([2.0]), np.array([4.0]))
    assert reconfigurable_share(one, 4, 1, 4.0).tolist() == fixed_share(one, 4, 1, 4.0).tolist() == [0.875]
    assert reconfigurable_share(one, 4, 2, 4.0).tolist() == [0.75]
    assert up_share(one, 4, 3, 4.0).tolist() == [1.0]
    assert up_share(one, 4, 4, 4.0).tolist() == [0.5]
    both = joined(one, DownTimes(1, np.array([0]), np.array([2]), np.array([2.0]), np.array([4.0])))
    assert reconfigurable_share(both, 4, 2, 4.0).tolist() == [0.75], "cubes 0 and 3 are joined by circuits"
    assert fixed_share(both, 4, 2, 4.0).tolist() == [0.5], "blocks 0-1 and 2-3 are both broken"


@pytest.mark.parametrize("size", slice_sizes(64))
def test_a_fixed_block_is_whole_with_the_power_of_its_components(size: int) -> None:
    """a^n: 16 hosts and 176 cables a cube, `size` cubes a block."""
    block = (1 / (1 + 0.0008 * 3)) ** (16 * size) * (1 / (1 + 0.00005 * 3)) ** (176 * size)
    up = cube_availability(FailureRates(), REPAIR_DAYS)
    assert expected_fixed_share(64, size, up) == pytest.approx(block)
    assert_expected(fixed_share(cubes_down(64), 64, size, DAYS), block)


@pytest.mark.parametrize("size", slice_sizes(64))
def test_circuits_join_any_cubes_that_are_up(size: int) -> None:
    up = cube_availability(FailureRates(), REPAIR_DAYS)
    expected = expected_reconfigurable_share(64, size, up)
    shares = reconfigurable_share(cubes_down(64), 64, size, DAYS)
    assert_expected(shares, expected)
    assert (shares >= fixed_share(cubes_down(64), 64, size, DAYS) - 1e-9).all()


def test_hosts_that_are_up_99_percent() -> None:
    """A quarter of the pod as one slice: circuits give three slices of four, fixed blocks next to none. With
    99 % of hosts up, 54 of 64 cubes are on average."""
    cube = 0.99**16
    assert 54 < 64 * cube < 55
    assert expected_reconfigurable_share(64, 16, cube) == pytest.approx(0.75, abs=0.01)
    assert expected_fixed_share(64, 16, cube) == pytest.approx(0.99**256)
    assert 0.99**256 < 0.08


def at_least_up(least: int, cubes: int, cube_up: float) -> float:
    """The tail of the binomial."""
    return float(up_chances(cubes, cube_up)[least:].sum())


@pytest.mark.parametrize("least", [56, 60, 62, 64])
def test_enough_cubes_are_up_as_the_binomial_says(least: int) -> None:
    up = cube_availability(FailureRates(), REPAIR_DAYS)
    assert_expected(up_share(cubes_down(64), 64, least, DAYS), at_least_up(least, 64, up))
    drawn = np.random.default_rng(3).binomial(64, up, 200_000)
    assert at_least_up(least, 64, up) == pytest.approx((drawn >= least).mean(), abs=0.005)


def test_large_pods_and_cubes_that_never_fail() -> None:
    """By hand: 3000 cubes that are up half the time are 1500 on average; 2 or 3 of 3: 3/8 + 1/8."""
    assert at_least_up(0, 3000, 0.5) == pytest.approx(1)
    assert expected_reconfigurable_share(3000, 1, 0.5) == pytest.approx(0.5)
    assert at_least_up(2, 3, 0.5) == pytest.approx(3 / 8 + 1 / 8)
    assert at_least_up(64, 64, 1.0) == 1 and at_least_up(1, 64, 0.0) == 0


def test_more_spare_cubes_never_lower_availability() -> None:
    """In every replica, because the cubes that were there keep their failures."""
    shares = [up_share(cubes_down(cubes), cubes, 60, DAYS) for cubes in (60, 62, 64, 68)]
    for fewer, more in pairwise(shares):
        assert (more >= fewer - 1e-12).all()
    assert shares[0].mean() < 0.2 and shares[-1].mean() > 0.9
