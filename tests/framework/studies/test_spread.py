"""Medians over seeds and their intervals, against closed forms."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
import pytest

from railweave.framework.studies.spread import ratio, spread


@pytest.mark.parametrize("n", [400, 1500, 1501])  # more than a thousand are not drawn
def test_the_interval_of_a_median_has_the_width_of_its_asymptotic_distribution(n: int) -> None:
    """The median of n normal values has the variance pi sigma^2 / 2n (Kenney and Keeping 1962, p. 211)."""
    values = np.random.default_rng(5).normal(100.0, 3.0, n)
    shown = spread(values.tolist())
    assert shown is not None and shown.low is not None and shown.high is not None and shown.cv is not None
    width = 2 * 1.96 * 3.0 * sqrt(pi / 2 / n)
    assert shown.high - shown.low == pytest.approx(width, rel=0.3)
    assert shown.low < shown.median < shown.high and shown.n == n
    assert shown.cv == pytest.approx(0.03, rel=0.1)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """95 % of them, or with 200 drawn ones of 25 values each 0.95 +- 4 deviations; a bootstrap of so few
    values is known to be somewhat narrow (Efron and Tibshirani, section 14.3)."""
    rng = np.random.default_rng(1)
    shown = [spread(rng.normal(10, 1, 25).tolist()) for _ in range(200)]
    held = sum(s is not None and s.low is not None and s.low <= 10 <= (s.high or 0) for s in shown)
    assert 0.86 <= held / 200 <= 1.0


def test_one_value_has_no_interval_and_none_has_nothing() -> None:
    one = spread([3.0])
    assert one is not None and (one.n, one.median, one.cv, one.low, one.high) == (1, 3.0, None, None, None)
    assert spread([]) is None and ratio([], [1.0]) is None and ratio([1.0], [0.0]) is None


def test_pairs_know_what_they_have_in_common() -> None:
    """Each of ours is 1.5 times its partner, which vary by a factor of ten: drawn in pairs that is certain,
    drawn alone it is not."""
    theirs = np.geomspace(1, 10, 12)
    ours = (1.5 * theirs).tolist()
    pairs, alone = ratio(ours, theirs.tolist(), paired=True), ratio(ours, theirs.tolist())
    assert pairs is not None and alone is not None
    assert (pairs.median, pairs.low, pairs.high) == pytest.approx((1.5, 1.5, 1.5))
    assert alone.low is not None and alone.low < 1.2 and alone.high is not None and alone.high > 1.8


@pytest.mark.parametrize("n", [1200, 1201])
def test_the_middle_of_many_is_that_of_drawn_samples(n: int) -> None:
    """Against samples that are drawn: both ends of the interval, by their places in order, to four standard
    deviations of a quantile of 2,000 draws, sqrt(p (1 - p) / 2000) over the normal density there, for the
    median's own deviation sqrt(n) / 2."""
    shown, draw = spread([float(i) for i in range(n)]), np.random.default_rng(9)
    drawn = [float(np.median(draw.integers(0, n, n))) for _ in range(2000)]
    deviation = sqrt(0.025 * 0.975 / 2000) / 0.0584 * sqrt(n) / 2
    assert shown is not None
    assert shown.low == pytest.approx(np.percentile(drawn, 2.5), abs=4 * sqrt(2) * deviation)
    assert shown.high == pytest.approx(np.percentile(drawn, 97.5), abs=4 * sqrt(2) * deviation)


def test_many_pairs_know_what_they_have_in_common() -> None:
    theirs = np.geomspace(1, 10, 1100)
    pairs = ratio((1.5 * theirs).tolist(), theirs.tolist(), paired=True)
    assert pairs is not None and (pairs.median, pairs.low, pairs.high) == pytest.approx((1.5, 1.5, 1.5))


def test_it_says_the_same_each_time() -> None:
    values = [1.0, 2.0, 5.0, 3.0]
    assert spread(values) == spread(values) and ratio(values, values) == ratio(values, values)
