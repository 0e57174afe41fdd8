"""All-to-all on rings and lines: every pair once, nothing overlaps, no fewer colours are possible."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.papers.optical.arcs import colour_intervals, interval_load, ring_exchange
from tests.framework.papers.optical.oracle import cables


@pytest.mark.parametrize("points", [*range(1, 26), 64, 65, 98])
def test_ring_exchange_is_whole_and_disjoint_in_the_fewest_colours(points: int) -> None:
    """Fewest: ceil(floor(n^2 / 4) / 2) (Gu and Peng 2001; Opatrny 2003)."""
    arcs = ring_exchange(points)
    rows = list(
        zip(arcs.src.tolist(), arcs.dst.tolist(), arcs.up.tolist(), arcs.colour.tolist(), strict=True)
    )
    pairs = [(a, b) for a, b, _, _ in rows]
    assert sorted(pairs) == [(a, b) for a in range(points) for b in range(points) if a != b]
    used: Counter[tuple[tuple[int, bool], int]] = Counter()
    for a, b, up, colour in rows:
        links = cables(points, a, b, up)
        assert 2 * len(links) <= points, "not the shorter way"
        used.update((link, colour) for link in links)
    assert not used or max(used.values()) == 1
    assert int(arcs.colour.max(initial=-1)) + 1 == -(-(points**2 // 4) // 2)


intervals = st.lists(
    st.tuples(st.integers(0, 12), st.integers(1, 6), st.integers(1, 4)), min_size=1, max_size=25
)


@given(intervals)
def test_intervals_get_as_many_colours_as_the_busiest_place_needs(
    some: list[tuple[int, int, int]],
) -> None:
    low, length, demand = (np.array(column) for column in zip(*some, strict=True))
    colours = colour_intervals(low, low + length, demand)
    load: Counter[int] = Counter()
    owners: dict[tuple[int, int], int] = {}
    for i, given_ in enumerate(colours):
        assert len(given_) == demand[i] == len(set(given_.tolist()))
        for place in range(low[i], low[i] + length[i]):
            load[place] += int(demand[i])
            for colour in given_.tolist():
                assert owners.setdefault((place, colour), i) == i
    assert max(int(c.max()) for c in colours) + 1 == max(load.values())
    assert interval_load(low, low + length, demand, 20).tolist() == [load[place] for place in range(20)]


def test_a_line_needs_what_lemma_1_says() -> None:
    for points in range(2, 15):
        low, high = (
            np.array(x)
            for x in zip(*[(a, b) for a in range(points) for b in range(a + 1, points)], strict=True)
        )
        colours = colour_intervals(low, high, np.ones(len(low), int))
        assert max(int(c[0]) for c in colours) + 1 == points**2 // 4
