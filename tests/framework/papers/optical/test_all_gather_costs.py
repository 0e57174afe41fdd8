"""The comparison says of schedules what making them says."""

from __future__ import annotations

import pytest

from railweave.framework.errors import FabricError
from railweave.framework.papers.optical.algorithms import plan_of
from railweave.framework.papers.optical.all_gather_costs import compare
from tests.framework.papers.optical.plan_checks import wavelengths_used


@pytest.mark.parametrize(("nodes", "wavelengths"), [(2, 1), (16, 2), (18, 4), (21, 3), (48, 5)])
def test_schedules_are_as_made(nodes: int, wavelengths: int) -> None:
    rows = compare(nodes, wavelengths, 1000)
    assert len({row.algorithm for row in rows}) == (4 if nodes % 2 else 5)
    for row in rows:
        plan = plan_of(row.algorithm, nodes, wavelengths, row.depth or 0)
        assert (row.schedule_steps, row.item_times) == (plan.n_steps, plan.item_times), row
        assert row.wavelengths == wavelengths_used(plan), row


def test_1024_nodes_by_formula() -> None:
    """Table I, and P-O2 for OpTree at every depth."""
    rows = compare(1024, 64, 4e6)
    steps = {row.algorithm: row.steps for row in rows if row.depth is None}
    assert steps == {"ring": 1023, "neighbor-exchange": 512, "wrht": 259, "one-stage": 2048}
    tree = [row.steps for row in rows if row.depth is not None]
    assert tree == [2048, 192, 101, 80, 72, 70, 70, 72, 74, 76]
    assert next(row for row in rows if row.depth == 6).time_s == pytest.approx(70 * 825e-6)


def test_sixteen_nodes_in_item_times() -> None:
    """After Dai et al., arXiv 2211.15119: ring 15, neighbor-exchange 15, one-stage 16, OpTree 12."""
    items = {(row.algorithm, row.depth): row.item_times for row in compare(16, 2, 1)}
    assert [
        items[key]
        for key in (("ring", None), ("neighbor-exchange", None), ("one-stage", None), ("optree", 2))
    ] == [
        15,
        15,
        16,
        12,
    ]


def test_neighbor_exchange_by_formula_and_as_scheduled() -> None:
    """Equation 3 charges each of its N/2 steps one item, as it does all others; the schedule carries 2 N/2 -
    1."""
    row = next(row for row in compare(16, 2, 5e6, 1e9, 1e-3) if row.algorithm == "neighbor-exchange")
    assert row.time_s == pytest.approx(8 * (0.04 + 1e-3))
    assert row.schedule_s == pytest.approx(15 * 0.04 + 8e-3)


def test_nonsense_is_refused() -> None:
    with pytest.raises(FabricError, match="16 nodes and 0 wavelengths"):
        compare(16, 0, 1)
