"""Shares of paths: exact after any number of packets, whatever the weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.traffic.rocev2.turns import PathOrder, turns_of


@given(st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=128), st.integers(1, 1500))
def test_after_any_packets_each_path_has_its_share_to_one_packet(weights: list[float], packets: int) -> None:
    """Bennett and Zhang, INFOCOM 1996: WF2Q is never more than a packet from the fluid shares."""
    turns, share = PathOrder(weights), np.array(weights) / sum(weights)
    turns.reach(packets)
    got = np.cumsum(np.eye(len(weights))[np.array(turns.order[:packets])], axis=0)
    wanted = np.arange(1, packets + 1)[:, None] * share
    assert np.abs(got - wanted).max() <= 1 + 1e-6


@pytest.mark.parametrize("paths", [1, 2, 3, 16, 128])
def test_equal_paths_take_turns(paths: int) -> None:
    turns = PathOrder([1 / paths] * paths)
    turns.reach(1000)
    assert turns.order[:1000].tolist() == [packet % paths for packet in range(1000)]


def test_a_heavy_path_is_spread_between_the_others() -> None:
    turns = PathOrder([0.5, 0.25, 0.25])
    turns.reach(8)
    assert turns.order[:8].tolist() == [0, 1, 0, 2, 0, 1, 0, 2]


def test_pairs_of_equal_weights_follow_one_order() -> None:
    assert turns_of((0.25, 0.75)) is turns_of((0.25, 0.75)) is not turns_of((0.75, 0.25))
