"""Dimension order: the source's cases T-O1 and T-O5, plain walking, graph distance by networkx,
channels by hand."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.model import Fabric, HealthSnapshot, all_pairs
from railweave.framework.routing.batches import take
from railweave.framework.routing.torus.lattice import letters
from railweave.plugins.dor.router import DimensionOrder, dimension_order
from tests.fakes.sound_tables import check_table
from tests.fakes.tori import dimension_order_steps, torus, twisted, walk, with_down


def nodes(fabric: Fabric, source: str, target: str) -> list[str]:
    """The nodes passed after the source."""
    ids = fabric.node_ids
    (path,) = DimensionOrder().routes(fabric, HealthSnapshot.healthy(fabric)).path(ids[source], ids[target])
    return [fabric.node_name(int(fabric.link_dst[link])) for link in path.links]


def test_t_o1_half_way_round_from_an_odd_coordinate_goes_down() -> None:
    fabric = torus(8, 8, 8)
    assert nodes(fabric, "g1.0.0", "g5.0.0") == ["g0.0.0", "g7.0.0", "g6.0.0", "g5.0.0"]
    assert nodes(fabric, "g2.0.0", "g6.0.0") == ["g3.0.0", "g4.0.0", "g5.0.0", "g6.0.0"]


@pytest.mark.parametrize(
    ("shape", "order"),
    [((4, 4, 8), "ZXY"), ((8, 8, 8), "XYZ"), ((4, 8, 8), "YZX"), ((3, 5), "YX"), ((4,), "X")],
)
def test_t_o5_the_longest_axis_first_then_x_y_z(shape: tuple[int, ...], order: str) -> None:
    assert letters(dimension_order(shape)) == order


@given(st.lists(st.integers(2, 6), min_size=1, max_size=3))
@settings(max_examples=25)
def test_paths_are_those_walked_step_by_step(shape: list[int]) -> None:
    fabric = torus(*shape)
    order = sorted(range(len(shape)), key=lambda axis: (-shape[axis], axis))
    table = DimensionOrder().routes(fabric, HealthSnapshot.healthy(fabric))
    src, dst = all_pairs(fabric.n_gpus)
    batch = table.paths(src, dst)
    one_by_one = take(table.paths(src[::-1], dst[::-1]), np.arange(len(src))[::-1])
    assert one_by_one == batch, "whole sources are laid out by other means than pairs in any order"
    for i in range(0, len(batch.src), max(1, len(batch.src) // 400)):
        ends = fabric.coordinates(int(batch.src[i])), fabric.coordinates(int(batch.dst[i]))
        steps = dimension_order_steps(shape, *ends, order)
        assert list(batch.paths(i)[0].links) == walk(fabric, int(batch.src[i]), steps)


@pytest.mark.parametrize("fabric", [torus(5, 4), torus(4, 2, 3), twisted(4, 4, 8), twisted(4, 8, 8)])
def test_lengths_are_graph_distances(fabric: Fabric) -> None:
    graph = nx.Graph(list(zip(fabric.link_src.tolist(), fabric.link_dst.tolist(), strict=True)))
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    health = HealthSnapshot.healthy(fabric)
    table = DimensionOrder().routes(fabric, health)
    batch = table.paths(*all_pairs(fabric.n_gpus))
    expected = [distance[a][b] for a, b in zip(batch.src.tolist(), batch.dst.tolist(), strict=True)]
    assert np.diff(batch.hop_start).tolist() == expected
    assert (np.diff(batch.pair_start) == 1).all() and (batch.weight == 1).all()
    check_table(fabric, table, health)


def test_on_a_twisted_torus_the_seam_shortens_the_way() -> None:
    """By hand on 4x4x8: z + 4 is one wrap of x or y away, which costs 4 hops like the straight way."""
    fabric = twisted(4, 4, 8)
    assert nodes(fabric, "g3.0.0", "g0.0.4") == ["g0.0.4"]
    assert nodes(fabric, "g3.0.0", "g0.0.5") == ["g3.0.1", "g0.0.5"]


def test_the_channel_rises_behind_the_wrap_and_falls_on_the_next_axis() -> None:
    """By hand on 8x8: from x = 6 over 7 | 0 to 1, then from y = 1 over 0 | 7 to 6."""
    fabric = torus(8, 8)
    ids = fabric.node_ids
    table = DimensionOrder().routes(fabric, HealthSnapshot.healthy(fabric))
    (path,) = table.path(ids["g6.1"], ids["g1.6"])
    passed = [fabric.node_name(int(fabric.link_dst[link])) for link in path.links]
    assert passed == ["g7.1", "g0.1", "g1.1", "g1.0", "g1.7", "g1.6"]
    assert path.vc == (0, 0, 1, 0, 0, 1)


def test_a_pair_whose_path_is_down_is_cut_off_and_the_others_stay() -> None:
    fabric = torus(4, 4, 4)
    ids = fabric.node_ids
    healthy = HealthSnapshot.healthy(fabric)
    before = DimensionOrder().routes(fabric, healthy)
    link = next(int(x) for x in fabric.out_links(ids["g0.0.0"]) if fabric.link_dst[x] == ids["g1.0.0"])
    damaged = with_down(fabric, [link])
    after = DimensionOrder().routes(fabric, damaged)
    report = check_table(fabric, after, damaged, allow_unreachable=True)
    whole, part = (t.paths(*all_pairs(64)) for t in (before, after))
    crossing = {int(p) for p in whole.path_pair[whole.hop_path[whole.links == link]]}
    assert {int(p) for p in np.flatnonzero(np.diff(part.pair_start) == 0)} == crossing
    assert len(report.unreachable) == len(crossing) > 0
    assert all(part.paths(i) == whole.paths(i) for i in range(len(whole.src)) if i not in crossing)
    assert DimensionOrder().routes(fabric, healthy).paths(*all_pairs(64)) == whole
