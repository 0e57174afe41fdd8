"""The sorted rails: lookups against a plain scan, comparisons counted, staleness noticed."""

from __future__ import annotations

import math
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import HealthError
from railweave.framework.health import RailRegistry

TWENTIETHS = st.integers(0, 20).map(lambda n: n / 20)
SETUP_A = [0.4, 0.5, 0.7, 0.9, 0.64]
"""The source's rails 1..5, here 0..4."""


class Counting(float):
    """A score that counts how often it is compared."""

    comparisons: ClassVar[int] = 0

    def __lt__(self, other: float) -> bool:
        Counting.comparisons += 1
        return float.__lt__(self, other)

    def __gt__(self, other: float) -> bool:
        Counting.comparisons += 1
        return float.__gt__(self, other)


def scan(scores: list[float], m: float, margin: float = 1.0) -> int | None:
    above = [(h, rail) for rail, h in enumerate(scores) if h > m * margin + 1e-12]
    return min(above)[1] if above else None


def test_best_fit_is_the_lowest_rail_above_not_the_best() -> None:
    """H-O2: m = 0.625 on setup A gives rail 5 (here 4) of 0.64, not rail 4 of 0.9."""
    registry = RailRegistry(SETUP_A)
    assert registry.order == (0, 1, 4, 2, 3)
    assert registry.ordered_scores == (0.4, 0.5, 0.64, 0.7, 0.9)
    assert registry.best_fit(0.625) == 4
    assert registry.best_fit(0.9) is None
    assert registry.best_fit(math.inf) is None


def test_margin_raises_the_bar() -> None:
    registry = RailRegistry(SETUP_A)
    assert registry.best_fit(0.625, margin=1.1) == 2
    assert registry.best_fit(0.625, margin=1.44) is None  # 0.625 x 1.44 = 0.9, and equal is not above


def test_spray_windows_of_the_source() -> None:
    """H-O4/5: delta 0.1 on setup A gives rails {5, 3} (here {4, 2}) in either mode."""
    registry = RailRegistry(SETUP_A)
    assert registry.window(0.625, 0.1, "blog") == (4, 2)
    assert registry.window(0.625, 0.1, "strict") == (4, 2)
    assert registry.window(0.625, 0.125, "blog") == (1, 4, 2)  # 0.5 stands on the edge: included
    assert registry.window(0.625, 1.0) == (4, 2, 3)
    assert registry.window(0.95, 1.0) == ()


@settings(deadline=None)
@given(st.lists(TWENTIETHS, min_size=1, max_size=40), TWENTIETHS, TWENTIETHS)
def test_windows_agree_with_a_scan(scores: list[float], m: float, delta: float) -> None:
    registry, ranked = RailRegistry(scores), sorted((h, rail) for rail, h in enumerate(scores))
    strict = tuple(rail for h, rail in ranked if h > m + 1e-12 and h <= m + delta + 1e-12)
    blog = tuple(rail for h, rail in ranked if m - delta - 1e-12 <= h <= m + delta + 1e-12)
    assert registry.window(m, delta, "strict") == strict
    assert registry.window(m, delta, "blog") == blog


@settings(deadline=None)
@given(st.lists(TWENTIETHS, min_size=1, max_size=40), st.floats(0, 2), st.floats(1, 2))
def test_best_fit_agrees_with_a_scan(scores: list[float], m: float, margin: float) -> None:
    assert RailRegistry(scores).best_fit(m, margin) == scan(scores, m, margin)


def test_float_noise_does_not_break_ties() -> None:
    m = 0.3 * 3  # 0.8999999999999999
    assert m < 0.9
    assert RailRegistry([0.9]).best_fit(m) is None
    assert RailRegistry([0.9 - 1e-13, 0.9 + 2e-12]).best_fit(0.9) == 1
    assert RailRegistry([0.7, 0.7, 0.7]).best_fit(0.5) == 0


@pytest.mark.parametrize("rails", [1, 2, 3, 7, 8, 9, 100, 1023, 1024, 1025])
def test_a_lookup_takes_a_binary_search(rails: int) -> None:
    registry = RailRegistry([Counting((rail * 7919 % rails) / rails) for rail in range(rails)])
    for step in range(-1, 2 * rails + 2):
        Counting.comparisons = 0
        registry.best_fit(step / (2 * rails))
        assert Counting.comparisons <= math.floor(math.log2(rails)) + 1


@settings(deadline=None)
@given(
    st.lists(TWENTIETHS, min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 11), TWENTIETHS), max_size=30),
)
def test_updates_keep_the_order(scores: list[float], updates: list[tuple[int, float]]) -> None:
    registry, plain = RailRegistry(scores), list(scores)
    for rail, score in updates:
        if rail >= len(scores):
            continue
        changed = plain[rail] != score
        before, plain[rail] = registry.version, score
        assert registry.update(rail, score) == before + changed
        assert registry.order == tuple(sorted(range(len(plain)), key=lambda r: (plain[r], r)))
        assert registry.ordered_scores == tuple(sorted(plain))
        assert registry.score(rail) == score


def test_a_lost_rail_is_out_of_every_lookup_after_one_update() -> None:
    registry = RailRegistry(SETUP_A)
    registry.update(4, 0.0)
    assert registry.best_fit(0.625) == 2
    assert 4 not in registry.window(0.625, 1.0)


def test_a_stale_copy_is_noticed() -> None:
    registry = RailRegistry(SETUP_A, version=6)
    copy = registry.copy()
    copy.check(registry.version)
    registry.update(4, 0.2)
    with pytest.raises(HealthError, match="version 6 is out of date: the registry is at version 7"):
        copy.check(registry.version)
    assert copy.best_fit(0.625) == 4  # what it answers is still of its own version
    registry.copy().check(registry.version)


def test_a_known_order_is_taken_over_and_checked() -> None:
    assert RailRegistry(SETUP_A, order=[0, 1, 4, 2, 3]).order == (0, 1, 4, 2, 3)
    with pytest.raises(HealthError, match="rail 1 must stand before rail 4"):
        RailRegistry(SETUP_A, order=[0, 4, 1, 2, 3])
    with pytest.raises(HealthError, match="does not name each of 5 rails once"):
        RailRegistry(SETUP_A, order=[0, 0, 1, 2, 3])
    with pytest.raises(HealthError, match="rail 0 must stand before rail 1"):
        RailRegistry([0.5, 0.5], order=[1, 0])


def test_scores_that_are_no_numbers_are_refused_and_overshoot_is_held() -> None:
    with pytest.raises(HealthError, match="rail 1: score nan is not a number"):
        RailRegistry([0.5, math.nan])
    registry = RailRegistry([0.5, 1.0 + 1e-9])
    assert registry.score(1) == 1.0
    with pytest.raises(HealthError, match="rail 0: score inf is not a number"):
        registry.update(0, math.inf)
    with pytest.raises(HealthError, match="no rail 2; the registry holds"):
        registry.update(2, 0.5)
    with pytest.raises(HealthError, match="one of strict, blog"):
        registry.window(0.5, 0.1, "wide")  # type: ignore[arg-type]
    with pytest.raises(HealthError, match="must be 0 or more"):
        registry.window(0.5, math.nan)
