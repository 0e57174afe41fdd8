"""Cycles of channels: against networkx, and against what is known of rings and tori."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.model import Path
from railweave.framework.routing.dependencies import channel_cycle, find_cycle
from tests.fakes.small_fabrics import dimension_order, rail_only, rail_path, ring, table_of, torus


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda e: e[0] != e[1]), max_size=25))
def test_cycles_are_found_where_networkx_finds_one(edges: list[tuple[int, int]]) -> None:
    graph = nx.DiGraph(edges)
    cycle = find_cycle(np.array(edges, np.int64).reshape(-1, 2) * 7 + 3)
    assert (cycle is None) == nx.is_directed_acyclic_graph(graph)
    if cycle is not None:
        nodes = [(c - 3) // 7 for c in cycle]
        assert len(set(nodes)) == len(nodes)
        assert all(graph.has_edge(a, b) for a, b in pairwise([*nodes, nodes[0]]))


def up(src: int, dst: int, n: int, *, dateline: bool) -> Path:
    """Always upwards round a ring; with a dateline the channel changes from 0 to 1 on the link n-1 -> 0."""
    nodes = [(src + i) % n for i in range((dst - src) % n)]
    crossed = [int(any(node == n - 1 for node in nodes[: i + 1])) for i in range(len(nodes))]
    return Path(tuple(2 * node for node in nodes), 1.0, tuple(crossed) if dateline else None)


def test_one_channel_round_a_ring_deadlocks_and_a_dateline_mends_it() -> None:
    """Dally and Seitz's own example."""
    fabric = ring(5)
    cycle = channel_cycle(fabric, table_of(fabric, lambda src, dst: [up(src, dst, 5, dateline=False)]))
    assert cycle is not None
    assert sorted(cycle) == ["g0->g1 vc0", "g1->g2 vc0", "g2->g3 vc0", "g3->g4 vc0", "g4->g0 vc0"]
    assert channel_cycle(fabric, table_of(fabric, lambda src, dst: [up(src, dst, 5, dateline=True)])) is None


def test_a_link_that_drops_breaks_the_cycle() -> None:
    """Nothing waits for it, so the channels behind it empty one after the other."""
    fabric = ring(5)
    table = table_of(fabric, lambda src, dst: [up(src, dst, 5, dateline=False)])
    some = np.ones(fabric.n_links, bool)
    assert channel_cycle(replace(fabric, lossless=some), table) is not None
    for link in range(0, fabric.n_links, 2):
        some = np.ones(fabric.n_links, bool)
        some[link] = False
        assert channel_cycle(replace(fabric, lossless=some), table) is None


@pytest.mark.parametrize(("length", "free"), [(3, True), (4, True), (5, False), (6, False)])
def test_dimension_order_without_channels_on_tori(length: int, free: bool) -> None:
    """A ring of 3 never takes two links in a row. On 4 a tie goes up from even places only, so that not every
    link is followed by the next (a 4-ring with parity ties never uses the second channel). From 5 on the
    waits close round each ring."""
    fabric = torus(length, 3)
    table = table_of(fabric, lambda src, dst: [dimension_order(fabric, src, dst)])
    assert (channel_cycle(fabric, table) is None) == free


def test_dr_on_rail_only_is_free_of_deadlock() -> None:
    """Domain links come before rail links on every path, and nothing follows a rail."""
    fabric = rail_only(3, 3)
    assert channel_cycle(fabric, table_of(fabric, lambda src, dst: [rail_path(fabric, src, dst)])) is None


def test_dr_and_rd_together_are_not() -> None:
    fabric = rail_only(2, 2)
    table = table_of(
        fabric, lambda src, dst: [rail_path(fabric, src, dst, "rd" if (src + dst) % 2 else "dr")]
    )
    mixed = table_of(
        fabric, lambda src, dst: [Path(rail_path(fabric, src, dst, by).links, 0.5) for by in ("dr", "rd")]
    )
    assert channel_cycle(fabric, mixed) is not None
    assert channel_cycle(fabric, table, (np.array([0]), np.array([3]))) is None
