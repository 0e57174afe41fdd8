"""The drawn patterns: what a seed draws, and which slice ends where, by tagged elements."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.analysis.link_loads import pattern
from railweave.framework.errors import ExperimentError
from railweave.topologies.fat_tree import FatTree
from railweave.topologies.ring import Ring
from railweave.traffic.collectives.patterns import Incast, MoeAllToAll, Permutation
from tests.traffic.random_execution import execute


@settings(max_examples=30)
@given(n=st.integers(2, 16), seed=st.integers(0, 2**40))
def test_every_rank_sends_once_and_receives_once(n: int, seed: int) -> None:
    schedule = Permutation(seed=seed).schedule(FatTree().build({"k": 4}), range(n), 400, "int32", "sum")
    assert schedule.src.tolist() == sorted(schedule.dst.tolist()) == list(range(n))
    assert (schedule.src != schedule.dst).all() and (schedule.size == 400).all()
    inputs = Permutation(seed=seed).inputs(schedule, 7)
    for src, dst in zip(schedule.src, schedule.dst, strict=True):
        assert np.array_equal(Permutation(seed=seed).expected(schedule, inputs, dst), inputs[src][100:])


def test_all_permutations_without_fixed_points_are_drawn_and_loads_draws_the_same() -> None:
    """Of 4 ranks there are 9 (rencontres numbers); each is drawn by 300 seeds about 33 times."""
    fabric, counts = Ring().build({"nodes": 4}), dict[tuple[int, ...], int]()
    for seed in range(300):
        schedule = Permutation(seed=seed).schedule(fabric, range(4), 4, "int32", "sum")
        drawn = tuple(schedule.dst.tolist())
        counts[drawn] = counts.get(drawn, 0) + 1
        assert pattern("permutation", fabric, seed).dst.tolist() == list(drawn)
    assert set(counts) == {p for p in permutations(range(4)) if all(i != x for i, x in enumerate(p))}
    assert min(counts.values()) > 15 and max(counts.values()) < 60


def test_exponential_sizes_have_their_mean_and_their_shape() -> None:
    """Of 4,096 drawn: mean and standard deviation are the size, 1/e of them are above it."""
    schedule = Permutation("exponential").schedule(
        Ring().build({"nodes": 4096}), range(4096), 4000, "float32", "sum"
    )
    assert schedule.size.mean() == pytest.approx(4000, rel=0.06)
    assert schedule.size.std() == pytest.approx(4000, rel=0.08)
    assert (schedule.size > 4000).mean() == pytest.approx(np.exp(-1), abs=0.03)
    assert schedule.size.min() >= 4 and not (schedule.size % 4).any()
    equal = Permutation().schedule(Ring().build({"nodes": 4096}), range(4096), 4000, "float32", "sum")
    assert np.array_equal(equal.dst, schedule.dst)


def test_one_rank_has_nobody_to_send_to() -> None:
    with pytest.raises(ExperimentError, match="permutation of 1 rank: it needs 2 or more"):
        Permutation().schedule(Ring().build({"nodes": 2}), [0], 64, "int8", "sum")


@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0])
def test_slices_differ_by_the_spread_and_end_in_the_order_of_senders(spread: float) -> None:
    """Element values tell sender and receiver: rank r ends with slices (0, r), (1, r), ..."""
    n, one, fabric = 8, 1000, Ring().build({"nodes": 8})
    moe = MoeAllToAll(spread, seed=5)
    schedule = moe.schedule(fabric, range(n), 4 * n * one, "int32", "sum")
    assert schedule.n_transfers == n * (n - 1) and schedule.size_bytes == 4 * n * one
    assert schedule == MoeAllToAll(spread, seed=5).schedule(fabric, range(n), 4 * n * one, "int32", "sum")
    share = schedule.size / (4 * one)
    assert share.min() >= 1 - spread - 1e-3 and share.max() <= 1 + spread + 1e-3
    if spread:
        assert share.std() == pytest.approx(spread / 3**0.5, rel=0.25)  # of a uniform draw
    length = np.full((n, n), -1)
    length[schedule.src, schedule.dst] = schedule.size // 4
    inputs = moe.inputs(schedule, 3)
    for rank, array in enumerate(inputs):
        sent = schedule.src == rank
        for dst, at, size in zip(
            *(a[sent] for a in (schedule.dst, schedule.src_offset, schedule.size)), strict=True
        ):
            array[at // 4 : (at + size) // 4] = n * rank + dst
    buffers = [np.zeros(schedule.buffer_bytes // 4, np.int32) for _ in inputs]
    for buffer, array in zip(buffers, inputs, strict=True):
        buffer[: len(array)] = array
    after = execute(schedule, buffers, seed=1)
    for rank in range(n):
        expected = moe.expected(schedule, inputs, rank)
        assert np.array_equal(after[rank][: len(expected)], expected)
        tags = [(n * src + rank, length[src, rank]) for src in range(n) if src != rank]
        before = sum(size for _, size in tags[:rank])
        others = np.concatenate(
            [expected[:before], expected[len(expected) - sum(s for _, s in tags[rank:]) :]]
        )
        assert np.array_equal(others, np.repeat(*np.array(tags).T))


# -- incast ----------------------------------------------------------------------------------------------
def test_incast_has_the_first_rank_receive_what_all_others_send() -> None:
    schedule = Incast().schedule(Ring().build({"nodes": 5}), range(5), 400, "int32", "sum")
    assert schedule.src.tolist() == [1, 2, 3, 4] and set(schedule.dst.tolist()) == {0}
    assert set(schedule.size.tolist()) == {400}
    inputs = Incast().inputs(schedule, 7)
    sent = np.concatenate([inputs[rank][400:] for rank in range(1, 5)])
    assert np.array_equal(Incast().expected(schedule, inputs, 0), sent) and sent.all()
    assert not Incast().expected(schedule, inputs, 3).any()


def test_incast_needs_a_sender() -> None:
    with pytest.raises(ExperimentError, match="incast of 1 rank"):
        Incast().schedule(Ring().build({"nodes": 2}), [0], 64, "int8", "sum")
