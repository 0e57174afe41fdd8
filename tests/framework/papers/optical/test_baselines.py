"""Ring, neighbor-exchange and Wrht complete, in the steps that Table I or a count by hand says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import FabricError
from railweave.framework.papers.optical.algorithms import plan_of
from railweave.framework.papers.optical.lightpath_plan import LightpathPlan
from railweave.framework.papers.optical.wrht import levels, stage_needs
from tests.framework.papers.optical.oracle import gathered, item_times, shared
from tests.framework.papers.optical.plan_checks import check_all_gather, check_wavelengths, wavelengths_used


def check(plan: LightpathPlan) -> None:
    check_wavelengths(plan)
    check_all_gather(plan)
    assert shared(plan) == []
    assert all(items == set(range(plan.nodes)) for items in gathered(plan))
    assert item_times(plan) == plan.item_times


@settings(max_examples=25)
@given(nodes=st.integers(2, 40), wavelengths=st.integers(1, 4))
def test_ring(nodes: int, wavelengths: int) -> None:
    plan = plan_of("ring", nodes, wavelengths)
    check(plan)
    assert (plan.n_steps, plan.item_times, wavelengths_used(plan)) == (nodes - 1, nodes - 1, 1)
    assert plan.up.all() and (plan.hops == 1).all()


@pytest.mark.parametrize("nodes", [2, 4, 6, 8, 10, 64])
def test_neighbor_exchange(nodes: int) -> None:
    """N / 2 steps; one item in the first and two in each later one."""
    plan = plan_of("neighbor-exchange", nodes, 2)
    check(plan)
    assert (plan.n_steps, plan.item_times, wavelengths_used(plan)) == (nodes // 2, nodes - 1, 1)
    assert plan.step_items.tolist() == [1] + [2] * (nodes // 2 - 1)
    assert (plan.hops == 1).all()


def test_neighbor_exchange_refuses_odd_rings() -> None:
    with pytest.raises(FabricError, match=r"neighbor-exchange over 9 nodes.*even"):
        plan_of("neighbor-exchange", 9, 2)


@settings(max_examples=40)
@given(nodes=st.integers(2, 60), wavelengths=st.integers(1, 6))
def test_wrht_completes_for_any_numbers(nodes: int, wavelengths: int) -> None:
    plan = plan_of("wrht", nodes, wavelengths)
    check(plan)
    needs = stage_needs(nodes, wavelengths)
    assert plan.stage_steps == tuple(count for _, count, _ in needs)
    assert plan.stage_names == tuple(name for name, _, _ in needs)
    assert wavelengths_used(plan) == max(need for _, _, need in needs) <= wavelengths


def test_wrht_on_sixteen_nodes_by_hand() -> None:
    """Groups of 4 (4 groups of at most 2w + 1 = 5): 1 step up, 4 middles exchange 4 items on 2 wavelengths
    (ceil(16 / 8) = 2), 15 items down to those that hold only their own."""
    plan = plan_of("wrht", 16, 2)
    assert plan.stage_names == ("gather 1", "exchange", "spread 1")
    assert plan.stage_steps == (1, 4, 15)
    tree, top = levels(16, 2)
    assert len(tree) == 1 and top.tolist() == [1, 5, 9, 13]
    assert wavelengths_used(plan) == 2


def test_wrht_groups_hold_2w_plus_1_neighbours_at_most() -> None:
    for nodes in (7, 30, 200):
        for wavelengths in (1, 2, 5):
            tree, top = levels(nodes, wavelengths)
            reached = set(top.tolist())
            for level in reversed(tree):
                heads, sizes = np.unique(level.heads, return_counts=True)
                assert sizes.max() <= 2 * wavelengths
                assert set(heads.tolist()) <= reached
                assert not reached & set(level.members.tolist())
                reached |= set(level.members.tolist())
            assert reached == set(range(nodes))
            assert -(-(len(top) ** 2) // 8) <= wavelengths or len(top) == 1


def test_small_rings_exchange_at_once() -> None:
    """Where ceil(N^2 / 8) <= w, Wrht is the one-stage exchange."""
    assert plan_of("wrht", 4, 2).stage_names == ("exchange",)
    assert plan_of("wrht", 5, 4).n_steps == 1


@pytest.mark.parametrize("algorithm", ["ring", "neighbor-exchange", "wrht"])
def test_nonsense_is_refused(algorithm: str) -> None:
    for nodes, wavelengths in ((1, 1), (4, 0)):
        with pytest.raises(FabricError, match="2 nodes and 1 wavelength or more"):
            plan_of(algorithm, nodes, wavelengths)
