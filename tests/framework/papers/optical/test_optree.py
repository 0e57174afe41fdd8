"""OpTree's lightpaths, carried out by hand and held against the formulas."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import FabricError
from railweave.framework.papers.optical.algorithms import plan_of
from railweave.framework.papers.optical.closed_forms import (
    arity_for,
    deepest,
    optimal_depth,
    steps,
)
from railweave.framework.papers.optical.lightpath_plan import LightpathPlan
from railweave.framework.papers.optical.optree import (
    best_depth,
    exchanges,
    integer_steps,
    optree_plan,
    wavelengths_needed,
)
from tests.framework.papers.optical.oracle import cables, gathered, item_times, rows, shared
from tests.framework.papers.optical.plan_checks import (
    check_all_gather,
    check_wavelengths,
    stage_wavelengths,
    wavelengths_used,
)


def check(plan: LightpathPlan) -> None:
    check_wavelengths(plan)
    check_all_gather(plan)
    assert shared(plan) == []
    assert all(items == set(range(plan.nodes)) for items in gathered(plan))
    assert len(plan.step) == plan.nodes * (plan.nodes - 1)
    assert item_times(plan) == plan.item_times == plan.n_steps


@settings(max_examples=60)
@given(nodes=st.integers(2, 40), wavelengths=st.integers(1, 9), data=st.data())
def test_any_tree_gathers_everything_and_shares_no_wavelength(
    nodes: int, wavelengths: int, data: st.DataObject
) -> None:
    arity = data.draw(st.integers(2, nodes))
    plan = optree_plan(nodes, wavelengths, arity)
    check(plan)
    assert plan.stage_steps == integer_steps(nodes, wavelengths, arity)


@settings(max_examples=40)
@given(nodes=st.integers(2, 40), wavelengths=st.integers(1, 9), data=st.data())
def test_a_stage_takes_no_more_steps_than_its_busiest_link_asks(
    nodes: int, wavelengths: int, data: st.DataObject
) -> None:
    """Lower bound: a directed link carries w items a step at most. Reached by every stage on lines, and by
    the ring stage where groups are even and the fan-out is odd or a multiple of 4."""
    arity = data.draw(st.integers(2, nodes))
    plan = optree_plan(nodes, wavelengths, arity)
    load: Counter[tuple[int, tuple[int, bool]]] = Counter()
    for (_, src, dst, _, up, _), stage in zip(rows(plan), plan.stage.tolist(), strict=True):
        load.update((stage, link) for link in cables(nodes, src, dst, up))
    for stage, taken in enumerate(plan.stage_steps):
        bound = -(-max(count for (s, _), count in load.items() if s == stage) // wavelengths)
        assert taken >= bound
        if stage > 0 or (nodes % arity == 0 and arity % 4 != 2):
            assert taken == bound


@settings(max_examples=40)
@given(nodes=st.integers(2, 60), data=st.data())
def test_later_stages_stay_in_their_segment(nodes: int, data: st.DataObject) -> None:
    arity = data.draw(st.integers(2, nodes))
    for stage in exchanges(nodes, arity):
        segments: dict[int, set[int]] = {}
        for group, src, dst in zip(stage.group.tolist(), stage.src.tolist(), stage.dst.tolist(), strict=True):
            segments.setdefault(group, set()).update((src, dst))
        spans = sorted((min(nodes_), max(nodes_)) for nodes_ in segments.values())
        assert all(a[1] < b[0] for a, b in pairwise(spans))
        parts = {(g, p) for g, p in zip(stage.group.tolist(), stage.src_part.tolist(), strict=True)}
        assert max(Counter(g for g, _ in parts).values()) <= arity
    plan = optree_plan(nodes, 2, arity)
    later = plan.stage > 0
    assert np.array_equal(plan.up[later], plan.dst[later] > plan.src[later]), (
        "round the ring in a later stage"
    )


@settings(max_examples=40)
@given(nodes=st.integers(2, 80), data=st.data())
def test_a_pair_exchanges_in_one_stage_only(nodes: int, data: st.DataObject) -> None:
    arity = data.draw(st.integers(2, nodes))
    met: set[tuple[int, int]] = set()
    for stage in exchanges(nodes, arity):
        pairs = list(zip(stage.src.tolist(), stage.dst.tolist(), strict=True))
        assert len(set(pairs)) == len(pairs) and not met & set(pairs)
        met.update(pairs)


@pytest.mark.parametrize(
    ("nodes", "arity"), [(16, 4), (16, 2), (27, 3), (64, 4), (64, 8), (81, 3), (81, 9), (125, 5), (256, 4)]
)
def test_powers_need_what_theorem_1_sums_up(nodes: int, arity: int) -> None:
    """By the proof of Theorem 1: m N / 8 wavelengths, then m N / 4 per stage; for odd m, (m^2 - 1) in place
    of m^2 (exact ring, floor of the line)."""
    square = arity**2 - arity % 2
    depth = round(np.log(nodes) / np.log(arity))
    first = nodes // arity * square / 8
    needs = wavelengths_needed(nodes, arity)
    assert needs == (int(np.ceil(first)), *[nodes // arity * square // 4] * (depth - 1))
    assert needs == stage_wavelengths(nodes, arity, published=False) or arity % 4 == 2


@pytest.mark.parametrize(
    ("nodes", "arity", "w"), [(16, 4, 2), (16, 4, 1), (64, 4, 4), (256, 4, 8), (16, 2, 1)]
)
def test_even_powers_whose_needs_divide_take_the_steps_of_the_formula(nodes: int, arity: int, w: int) -> None:
    depth = round(np.log(nodes) / np.log(arity))
    assert sum(integer_steps(nodes, w, arity)) == steps(nodes, w, depth)


def test_p_o5_sixteen_nodes_four_ary() -> None:
    plan = plan_of("optree", 16, 2, 2)
    assert plan.stage_steps == (4, 8)
    assert not plan.spread.any() and wavelengths_used(plan) == 2
    check(plan)


def test_p_o6_three_ary_takes_14_with_the_exact_ring() -> None:
    plan = plan_of("optree", 16, 2, 3)
    assert plan.n_steps == 14
    check(plan)


def test_one_stage_takes_what_table_one_says() -> None:
    for nodes, wavelengths in ((16, 2), (64, 8), (10, 3), (128, 64)):
        assert plan_of("one-stage", nodes, wavelengths).n_steps == steps(nodes, wavelengths, 1)


def test_1024_nodes() -> None:
    """The closed form's plateau at 70 is met within 3 steps, because 4^5 = 1024 and 70 counts a real
    arity."""
    assert sum(integer_steps(1024, 64, 4)) == 72
    plan = plan_of("optree", 1024, 64)
    check_wavelengths(plan)
    check_all_gather(plan)
    assert plan.n_steps == 72


@given(nodes=st.integers(2, 300), wavelengths=st.integers(1, 64))
@settings(max_examples=30)
def test_the_best_depth_is_the_best_of_all(nodes: int, wavelengths: int) -> None:
    counts = {
        k: sum(integer_steps(nodes, wavelengths, arity_for(nodes, k))) for k in range(1, deepest(nodes) + 1)
    }
    assert counts[best_depth(nodes, wavelengths)] == min(counts.values()) <= counts[optimal_depth(nodes)]


@settings(max_examples=40)
@given(nodes=st.integers(2, 40), wavelengths=st.integers(1, 9), data=st.data())
def test_fixed_routes_make_no_step_longer(nodes: int, wavelengths: int, data: st.DataObject) -> None:
    """Each pair on the wavelengths it has, or on all if it is to be spread, in equal shares: then no
    wavelength of a link carries more than one item in a step."""
    plan = optree_plan(nodes, wavelengths, data.draw(st.integers(2, nodes)))
    own: dict[tuple[int, int], set[int]] = {}
    for (_, src, dst, _, _, wavelength), spread in zip(rows(plan), plan.spread.tolist(), strict=True):
        own.setdefault((src, dst), set()).update(range(wavelengths) if spread else {wavelength})
    load: dict[tuple[int, int, bool, int], float] = {}
    for step, src, dst, _, up, _ in rows(plan):
        for node, way in cables(nodes, src, dst, up):
            for wavelength in own[src, dst]:
                place = step, node, way, wavelength
                load[place] = load.get(place, 0.0) + 1 / len(own[src, dst])
    assert max(load.values()) <= 1 + 1e-9


def test_it_is_repeatable() -> None:
    assert plan_of("optree", 23, 3, 3) == plan_of("optree", 23, 3, 3)


def test_nonsense_is_refused() -> None:
    for call, message in (
        (lambda: optree_plan(1, 1, 2), "needs 2 nodes"),
        (lambda: optree_plan(4, 0, 2), "0 wavelengths"),
    ):
        with pytest.raises(FabricError, match=message):
            call()


@pytest.mark.parametrize(("nodes", "wavelengths"), [(7, 1), (15, 3), (16, 3), (21, 2)])
def test_items_that_share_wavelengths_take_no_longer_than_those_that_keep_to_one(
    nodes: int, wavelengths: int
) -> None:
    """Equal shares over all wavelengths can only level the load; with one there is nothing to share."""
    plan = plan_of("optree", nodes, wavelengths, 0)
    assert plan.shared_item_times <= plan.item_times + 1e-9
    assert wavelengths > 1 or plan.shared_item_times == plan.item_times


def test_fifteen_nodes_on_three_wavelengths_take_eight_item_times_and_a_third() -> None:
    """The engine fluid, which knows routes and rates alone, took 0.926 of the nine item times: 8.33."""
    assert plan_of("optree", 15, 3, 0).shared_item_times == pytest.approx(8 + 1 / 3)
