"""Times of hierarchical collectives, and the bounds of equations 8 and 9 over every subset of GPUs."""

from __future__ import annotations

from itertools import combinations

import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.papers.training.all_gather import (
    Grid,
    ag_time_s,
    all_to_all_s,
    bound_by_search_s,
    bound_s,
    domain_phase_bytes,
    rail_phase_bytes,
)

SHAPES = [(x, y) for x in range(1, 8) for y in range(1, 8) if 1 < x * y <= 14]
RATES = [(450e9, 50e9), (1e15, 1.0), (1.0, 1.0), (1.0, 3.0)]


def test_all_gather_time() -> None:
    """R-O2."""
    assert ag_time_s(1e9, Grid(8, 4, 300e9, 25e9)) == pytest.approx(0.00666667, rel=1e-6)


def test_all_to_all_times() -> None:
    """R-O3."""
    found = all_to_all_s(1e6, Grid(8, 4, 300e9, 25e9))
    assert found.full_s == pytest.approx(0.00096)
    assert found.rail_only_s == pytest.approx(0.00105333, rel=1e-5)
    assert found.slowdown == pytest.approx(0.097222, rel=1e-5)


def test_phases_receive_what_is_missing() -> None:
    """Section 3.2; together every GPU receives all but its own shard, plus what its rail gave the domain."""
    grid = Grid(8, 4, 1.0, 1.0)
    assert rail_phase_bytes(3200, grid) == 3 * 100
    assert domain_phase_bytes(3200, grid) == 7 * 400
    assert rail_phase_bytes(3200, grid) + domain_phase_bytes(3200, grid) == 3200 - 100


def _by_definition(grid: Grid, *, rail_only: bool) -> float:
    """Equations 8 and 9 word for word, with sets of Python."""
    x, y = grid.x, grid.y
    gpus = [(row, column) for row in range(y) for column in range(x)]

    def leaving(a: frozenset[tuple[int, int]]) -> float:
        rows = sum(all((r, c) in a for c in range(x)) for r in range(y))
        columns = sum(all((r, c) in a for r in range(y)) for c in range(x)) if rail_only else 0
        both = grid.domain_bytes_per_s + grid.rail_bytes_per_s
        return both * len(a) - x * rows * grid.domain_bytes_per_s - y * columns * grid.rail_bytes_per_s

    found = 0.0
    for size in range(1, len(gpus)):
        for chosen in combinations(gpus, size):
            a = frozenset(chosen)
            rest = frozenset(gpus) - a
            found = max(found, max(len(a), len(rest)) / min(leaving(a), leaving(rest)))
    return found


@pytest.mark.parametrize("rail_only", [False, True])
@pytest.mark.parametrize(("x", "y"), [(1, 4), (4, 1), (2, 3), (3, 2), (3, 3), (2, 4)])
@pytest.mark.parametrize("rates", RATES)
def test_search_is_the_definition(x: int, y: int, rates: tuple[float, float], rail_only: bool) -> None:
    grid = Grid(x, y, *rates)
    expected = _by_definition(grid, rail_only=rail_only)
    assert bound_by_search_s(grid, grid.gpus, rail_only=rail_only) == pytest.approx(expected)


@pytest.mark.parametrize("rail_only", [False, True])
@pytest.mark.parametrize(("x", "y"), SHAPES)
@pytest.mark.parametrize("rates", RATES)
def test_rows_and_columns_are_enough(x: int, y: int, rates: tuple[float, float], rail_only: bool) -> None:
    """The short search finds what all subsets give, also where x < y."""
    grid = Grid(x, y, *rates)
    every = bound_by_search_s(grid, 1e9, rail_only=rail_only)
    assert bound_s(grid, 1e9, rail_only=rail_only) == pytest.approx(every)


@pytest.mark.parametrize("rail_only", [False, True])
@pytest.mark.parametrize(("x", "y"), [(2, 2), (3, 3), (4, 3), (2, 5), (256, 16), (8, 4096)])
def test_fast_domains_leave_only_the_rails(x: int, y: int, rail_only: bool) -> None:
    """Both bounds are (y-1)/C_S per shard for C_F far above C_S: rail-only loses nothing. Source: section
    3.2."""
    grid = Grid(x, y, 1e15, 1.0)
    assert bound_s(grid, grid.gpus, rail_only=rail_only) == pytest.approx(y - 1)
    assert ag_time_s(grid.gpus, grid) == pytest.approx(y - 1, rel=1e-6)


@pytest.mark.parametrize(("x", "y"), SHAPES)
@pytest.mark.parametrize("rates", RATES)
def test_nothing_beats_the_bounds(x: int, y: int, rates: tuple[float, float]) -> None:
    grid = Grid(x, y, *rates)
    looser, tighter = (bound_s(grid, 1e9, rail_only=only) for only in (False, True))
    assert looser <= tighter * (1 + 1e-12) and tighter <= ag_time_s(1e9, grid) * (1 + 1e-12)


def test_degenerate_grids() -> None:
    assert bound_s(Grid(1, 1, 1.0, 1.0), 9, rail_only=True) == 0
    assert bound_by_search_s(Grid(1, 1, 1.0, 1.0), 9, rail_only=True) == 0
    assert all_to_all_s(9, Grid(1, 1, 1.0, 1.0)).slowdown == 0
    for bad in ((0, 4, 1.0, 1.0), (4, 0, 1.0, 1.0)):
        with pytest.raises(ExperimentError):
            Grid(*bad)
    with pytest.raises(ExperimentError, match="too many subsets"):
        bound_by_search_s(Grid(7, 3, 1.0, 1.0), 9, rail_only=True)
