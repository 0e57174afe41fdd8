"""The formulas against the paper's numbers (cases P-O1 to P-O8 of the notes on arXiv 2211.15119)."""

from __future__ import annotations

from math import isclose
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.errors import FabricError
from railweave.framework.papers.optical import closed_forms as forms
from tests.framework.papers.optical.plan_checks import line_wavelengths, stage_wavelengths

PUBLISHED = {512: (6, 32), 1024: (6, 70), 2048: (7, 155), 4096: (8, 340)}


@pytest.mark.parametrize("nodes", PUBLISHED)
def test_p_o1_optimal_depth_and_steps(nodes: int) -> None:
    depth, steps = PUBLISHED[nodes]
    assert forms.optimal_depth(nodes) == depth
    assert forms.steps(nodes, 64, depth) == steps


def test_p_o2_the_curve_of_1024_nodes() -> None:
    found = [forms.steps(1024, 64, depth) for depth in range(1, 10)]
    assert found == [2048, 192, 101, 80, 72, 70, 70, 72, 74]


def test_p_o4_sixteen_nodes_two_wavelengths() -> None:
    assert [forms.steps(16, 2, depth) for depth in (1, 2, 3)] == [16, 12, 13]


def test_p_o5_and_p_o6_whole_numbers() -> None:
    """4-ary: 8 and 16 wavelengths, 4 + 8 steps. 3-ary: 12, 12, 9 with Lemma 1's ring, 6 + 6 + 5 steps; 14
    with the exact ring."""
    assert stage_wavelengths(16, 4) == (8, 16)
    assert stage_wavelengths(16, 3) == (12, 12, 9)
    assert sum(-(-need // 2) for need in stage_wavelengths(16, 4)) == 12
    assert sum(-(-need // 2) for need in stage_wavelengths(16, 3)) == 17
    assert sum(-(-need // 2) for need in stage_wavelengths(16, 3, published=False)) == 14


def test_p_o8_mean_reduction_against_one_stage() -> None:
    shares = [1 - steps / forms.steps(nodes, 64, 1) for nodes, (_, steps) in PUBLISHED.items()]
    assert sum(shares) / 4 == pytest.approx(0.9685, abs=5e-5)


def test_lemma_1_for_four_nodes_and_the_exact_ring() -> None:
    """The source's example: 8 and 16 wavelengths for rings and lines of 4, i.e. 2 and 4 each. Odd rings: 1
    for 2, 3 for 4, 6 for 7 (Gu and Peng 2001; Opatrny 2003)."""
    assert (forms.ring_wavelengths(4), line_wavelengths(4)) == (2, 4)
    assert [forms.ring_wavelengths(n, published=True) for n in (3, 5, 7)] == [2, 4, 7]
    assert [forms.ring_wavelengths(n) for n in (3, 5, 7)] == [1, 3, 6]
    assert all(forms.ring_wavelengths(n) == -(-n * n // 8) for n in range(2, 200, 2))


@pytest.mark.parametrize(("wavelengths", "steps"), [(64, 259), (96, 387), (128, 515)])
def test_wrht_grows_with_wavelengths_and_not_with_nodes(wavelengths: int, steps: int) -> None:
    """The source: 515 is slightly larger than neighbor-exchange's 512; the same at 2048 nodes."""
    assert forms.wrht_steps(1024, wavelengths) == forms.wrht_steps(2048, wavelengths) == steps


def test_neighbor_exchange_refuses_odd_rings() -> None:
    with pytest.raises(FabricError, match=r"7 nodes.*even"):
        forms.neighbor_exchange_steps(7)


def test_sixteen_nodes_in_item_times() -> None:
    """After Dai et al., arXiv 2211.15119: 8 steps of neighbor-exchange are 15 item-times."""
    assert forms.neighbor_exchange_steps(16) == 8
    assert forms.neighbor_exchange_item_times(16) == 15


def test_equation_3() -> None:
    """70 steps of 4 MB at 40 Gb/s and 25 us: 70 x (800 us + 25 us), by hand."""
    assert isclose(forms.time_s(70, 70, 4e6), 70 * 825e-6)
    assert isclose(forms.time_s(15, 8, 5e6, 1e9, 1e-3), 15 * 0.04 + 8e-3)


@given(arity=st.integers(2, 12), depth=st.integers(1, 5))
def test_float_noise_adds_no_step(arity: int, depth: int) -> None:
    """Where N = m^k all is whole: (2k - 1) m^(k + 1) / 8w, once rounded up."""
    nodes = arity**depth
    for wavelengths in (1, 3, 64):
        exact = -(-((2 * depth - 1) * nodes * arity) // (8 * wavelengths))
        assert forms.steps(nodes, wavelengths, depth) == exact


@given(nodes=st.integers(2, 10**6), depth=st.integers(1, 25))
def test_the_arity_is_the_least_that_reaches_all_leaves(nodes: int, depth: int) -> None:
    arity = forms.arity_for(nodes, depth)
    assert arity**depth >= nodes > (arity - 1) ** depth


@given(nodes=st.integers(2, 5000))
def test_depths_end_where_the_tree_is_binary(nodes: int) -> None:
    deepest = forms.deepest(nodes)
    assert 2**deepest >= nodes
    assert deepest == 1 or 2 ** (deepest - 1) < nodes
    assert 1 <= forms.optimal_depth(nodes) <= deepest
    assert nodes >= 8 or forms.optimal_depth(nodes) == 1


@given(nodes=st.integers(8, 5000))
def test_the_optimum_is_that_of_the_real_valued_curve(nodes: int) -> None:
    """Searched: no whole depth is lower by more than the slope between k* and its real root, which is
    flat."""

    def real(depth: int) -> float:
        return (2 * depth - 1) * nodes ** (1 + 1 / depth)

    best = min(range(1, 20), key=real)
    assert abs(best - forms.optimal_depth(nodes)) <= 1
    assert real(forms.optimal_depth(nodes)) <= 1.02 * real(best)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: forms.steps(1, 2, 1), "1 nodes and 2 wavelengths"),
        (lambda: forms.steps(16, 0, 1), "and 0 wavelengths"),
        (lambda: forms.steps(16, 2, 0), "depth 0"),
    ],
)
def test_numbers_that_cannot_be_are_refused(call: object, message: str) -> None:
    with pytest.raises(FabricError, match=message):
        call()  # type: ignore[operator]


def test_a_step_beyond_its_data_by_hand() -> None:
    """1000 bytes are 8 packets of 128, so 32 flits of 32: 32 ns at a cycle of 1 ns, and 25 us."""
    setup = forms.StepSetup(cycle_s=1e-9)
    assert setup.wire_bytes(1000) == 1024 and setup.flits(1000) == 32
    assert setup.step_s(1000) == pytest.approx(25e-6 + 32e-9)
    assert forms.StepSetup().step_s(1000) == forms.RECONFIGURATION_S


@pytest.mark.parametrize(
    "numbers, message",
    [
        ({"flit_bytes": 48}, "packets of 128 bytes with flits of 48"),
        ({"flit_bytes": 0}, "with flits of 0"),
    ],
)
def test_packets_that_cannot_be_are_refused(numbers: dict[str, Any], message: str) -> None:
    with pytest.raises(FabricError, match=message):
        forms.StepSetup(**numbers)
