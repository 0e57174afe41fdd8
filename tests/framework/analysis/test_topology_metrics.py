"""Metrics of fabrics: distances by networkx, halvings by trying all of them, tori by closed form."""

from __future__ import annotations

from itertools import combinations, product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.analysis import topology_metrics
from railweave.framework.analysis.topology_metrics import bisection, distances, metrics
from railweave.framework.model import Fabric, FabricBuilder, NodeGroup
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.rail_optimised import RailOptimised
from railweave.topologies.ring import Ring
from tests.fakes.tori import torus, twisted


def by_search(fabric: Fabric) -> dict[int, dict[int, int]]:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(fabric.n_nodes))
    for link in range(fabric.n_links):
        if fabric.usable[link]:
            graph.add_edge(int(fabric.link_src[link]), int(fabric.link_dst[link]))
    found = dict(nx.all_pairs_shortest_path_length(graph))
    gpus = range(fabric.n_gpus)
    return {a: {b: found[a][b] for b in gpus if b != a and b in found[a]} for a in gpus}


def compare(fabric: Fabric) -> None:
    expected, found = by_search(fabric), distances(fabric)
    lengths = [d for row in expected.values() for d in row.values()]
    assert found.diameter == max(lengths, default=0)
    sums = [sum(row.values()) for row in expected.values()]
    assert (found.least_sum, found.most_sum) == (min(sums), max(sums))
    assert found.pairs == tuple(np.bincount(lengths).tolist() if lengths else [0])
    assert found.mean == pytest.approx(np.mean(lengths) if lengths else 0)
    assert found.unreachable == fabric.n_gpus * (fabric.n_gpus - 1) - len(lengths)


@pytest.mark.parametrize(
    "fabric",
    [
        torus(4, 4, 4),
        torus(5, 2),
        twisted(4, 4, 8),
        Ring().build({"nodes": 9, "wavelengths": 2}),
        Ring().build({"nodes": 6, "directions": 1}),
        RailOnly().build({"domains": 3, "rails": 4}),
        RailOptimised().build({"domains": 2, "rails": 3}),
    ],
)
def test_distances_are_those_of_a_search(fabric: Fabric) -> None:
    compare(fabric)


@st.composite
def random_fabrics(draw: st.DrawFn) -> Fabric:
    gpus, switches = draw(st.integers(2, 8)), draw(st.integers(1, 4))
    ends = st.tuples(st.integers(0, gpus + switches - 1), st.integers(0, gpus + switches - 1))
    cables = draw(st.lists(ends.filter(lambda ab: ab[0] != ab[1]), min_size=1, max_size=15))
    groups = [NodeGroup("gpu", 0, (gpus,), "g"), NodeGroup("switch", gpus, (switches,), "s")]
    builder = FabricBuilder("random", groups, {})
    builder.cables([a for a, _ in cables], [b for _, b in cables], "any", 1e9, one_way=draw(st.booleans()))
    return builder.build()


@given(random_fabrics())
@settings(max_examples=50)
def test_distances_on_any_fabric(fabric: Fabric) -> None:
    compare(fabric)


def test_blocks_of_destinations_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = torus(4, 4, 8)
    at_once = distances(fabric)
    monkeypatch.setattr(topology_metrics, "WORDS", 1)
    assert distances(fabric) == at_once


@pytest.mark.parametrize("shape", [(4, 4, 4), (4, 4, 8), (6, 5), (8,)])
def test_the_sum_of_distances_on_a_torus(shape: tuple[int, ...]) -> None:
    """Closed form: a ring of k sums to k^2/4 (even) or (k^2 - 1)/4 (odd); n times that over k for every
    axis."""
    n = int(np.prod(shape))
    expected = sum(n // k * (k * k // 4) for k in shape)
    found = distances(torus(*shape))
    assert (found.least_sum, found.most_sum, found.diameter) == (
        expected,
        expected,
        sum(k // 2 for k in shape),
    )


def narrowest(fabric: Fabric) -> float:
    """The capacity of the narrowest halving of the GPUs, wherever the switches stand: all of them tried."""
    n, switches = fabric.n_gpus, fabric.n_nodes - fabric.n_gpus
    best = float("inf")
    for half in combinations(range(1, n), n // 2 - 1):
        for places in product((False, True), repeat=switches):
            side = np.zeros(fabric.n_nodes, bool)
            side[[0, *half]] = True
            side[n:] = places
            across = side[fabric.link_src] & ~side[fabric.link_dst]
            best = min(best, float(fabric.capacity_bps[across].sum()))
    return best


@pytest.mark.parametrize(
    "fabric",
    [
        torus(4, 3),
        torus(6, 2),
        torus(2, 2, 2),
        torus(8),
        RailOnly().build({"domains": 4, "rails": 2}),
        RailOnly().build({"domains": 2, "rails": 4, "domain_rate": 1e9, "rail_rate": 4e9}),
        RailOptimised().build(
            {"domains": 2, "rails": 4, "domain_rate": 1e6, "rail_rate": 1e9, "oversubscription": 4.0}
        ),
        RailOptimised().build({"domains": 4, "rails": 2}),
    ],
)
def test_no_halving_is_narrower(fabric: Fabric) -> None:
    assert bisection(fabric).capacity_bps == pytest.approx(narrowest(fabric))


@pytest.mark.parametrize(
    ("shape", "links"), [((4, 4, 8), 32), ((8, 8, 8), 128), ((16, 16, 16), 512), ((2, 4), 4)]
)
def test_the_bisection_of_tori(shape: tuple[int, ...], links: int) -> None:
    """Closed form 2 n / k across the longest side k, k above 2."""
    found = bisection(torus(*shape))
    n = int(np.prod(shape))
    assert (found.links, found.capacity_bps) == (links, links * 400e9) and found.halves == (n // 2, n // 2)


def test_a_twist_doubles_the_straight_bisection_of_k_k_2k() -> None:
    """By hand: across z the wraps of x and y lie in the cut too; across x it is 2 x k x 2k = 64 links for k =
    4."""
    found = bisection(twisted(4, 4, 8))
    assert found.links == 64 and found.cut.startswith("axis x")


def test_uneven_shapes_are_cut_as_near_to_half_as_they_go() -> None:
    assert bisection(torus(5, 3)).halves == (6, 9)
    assert bisection(RailOnly().build({"domains": 1, "rails": 2})).halves == (1, 1)


def test_links_by_kind_and_by_ocs() -> None:
    found = metrics(torus(4, 4, 8))
    assert found.kind_links == {f"{axis}{sign}": 128 for axis in "xyz" for sign in "+-"}
    assert found.kind_capacity_bps["z-"] == 128 * 400e9
    assert len(found.ocs_cables) == 48
    assert {k[0]: n for k, n in found.ocs_cables.items()} == {"X": 2, "Y": 2, "Z": 2}
    rails = metrics(RailOptimised().build({"domains": 2, "rails": 3}))
    assert rails.kind_links == {"d": 12, "r": 12, "s": 12} and rails.ocs_cables == {}
    assert (rails.gpus, rails.switches, rails.links) == (6, 7, 36)
