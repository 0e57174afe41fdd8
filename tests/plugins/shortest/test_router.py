"""Fewest hops, against networkx."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.errors import HealthError
from railweave.framework.model import Fabric, FabricBuilder, HealthSnapshot, NodeGroup, all_pairs
from railweave.framework.routing import search as module
from railweave.framework.routing.batches import take
from railweave.plugins.shortest.router import Shortest
from railweave.topologies.ring import Ring

Build = Callable[[int, int], Fabric]
Make = Callable[..., HealthSnapshot]


def lengths(fabric: Fabric, health: HealthSnapshot) -> dict[tuple[int, int], int]:
    """Hops by networkx of every pair of GPUs that is connected."""
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(fabric.n_nodes))
    up = np.flatnonzero(~health.down)
    graph.add_edges_from(zip(fabric.link_src[up].tolist(), fabric.link_dst[up].tolist(), strict=True))
    found = dict(nx.all_pairs_shortest_path_length(graph))
    gpus = range(fabric.n_gpus)
    return {(a, b): found[a][b] for a in gpus for b in gpus if a != b and b in found[a]}


def compare(fabric: Fabric, health: HealthSnapshot) -> None:
    src, dst = all_pairs(fabric.n_gpus)
    batch = Shortest().routes(fabric, health).paths(src, dst)
    hops = {
        (int(a), int(b)): len(batch.paths(i)[0].links)
        for i, (a, b) in enumerate(zip(src, dst, strict=True))
        if batch.paths(i)
    }
    assert hops == lengths(fabric, health)


@st.composite
def random_fabrics(draw: st.DrawFn) -> tuple[Fabric, HealthSnapshot]:
    gpus, switches = draw(st.integers(2, 7)), draw(st.integers(1, 4))
    ends = st.tuples(st.integers(0, gpus + switches - 1), st.integers(0, gpus + switches - 1))
    cables = draw(st.lists(ends.filter(lambda ab: ab[0] != ab[1]), min_size=1, max_size=25))
    groups = [NodeGroup("gpu", 0, (gpus,), "g"), NodeGroup("switch", gpus, (switches,), "s")]
    builder = FabricBuilder("random", groups, {})
    builder.cables([a for a, _ in cables], [b for _, b in cables], "any", 1e9)
    fabric = builder.build()
    down = draw(st.lists(st.booleans(), min_size=fabric.n_links, max_size=fabric.n_links))
    some = np.array(down) & np.array(draw(st.lists(st.booleans(), min_size=len(down), max_size=len(down))))
    ones = np.ones(fabric.n_links)
    return fabric, HealthSnapshot(3, 0.0, ones, np.ones(fabric.n_nodes), some, np.empty(0, np.int64))


@given(random_fabrics())
def test_hops_are_those_of_networkx_on_any_fabric(case: tuple[Fabric, HealthSnapshot]) -> None:
    compare(*case)


def test_hops_in_blocks_of_destinations(torus: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = torus(5, 4)
    healthy = HealthSnapshot.healthy(fabric)
    pairs = all_pairs(fabric.n_gpus)
    at_once = Shortest().routes(fabric, healthy).paths(*pairs)
    monkeypatch.setattr(module, "STATES", 3 * fabric.n_nodes)
    assert Shortest().routes(fabric, healthy).paths(*pairs) == at_once
    compare(fabric, healthy)


def test_it_answers_alike_whatever_was_asked_before(torus: Build) -> None:
    fabric = torus(5, 4)
    healthy = HealthSnapshot.healthy(fabric)
    src, dst = all_pairs(fabric.n_gpus)
    at_once = Shortest().routes(fabric, healthy).paths(src, dst)
    table = Shortest().routes(fabric, healthy)
    for rows in (
        np.array([7]),
        np.flatnonzero(dst % 3 == 1),
        np.arange(len(src))[::-1],
        np.empty(0, np.int64),
    ):
        assert table.paths(src[rows], dst[rows]) == take(at_once, rows)


def test_a_node_of_many_links(rail_only: Build) -> None:
    """300 GPUs in one domain: more links at its switch than a byte counts."""
    fabric = rail_only(1, 300)
    table = Shortest().routes(fabric, HealthSnapshot.healthy(fabric))
    names = [[fabric.link_name(link) for link in table.path(0, dst)[0].links] for dst in (1, 255, 256, 299)]
    assert names == [["g0.0->d0", f"d0->g0.{dst}"] for dst in (1, 255, 256, 299)]


def test_ties_take_the_lowest_link(rail_only: Build) -> None:
    """Other rail, other domain: by domain first and by rail first are both four hops;
    the domain's link is lower."""
    fabric = rail_only(3, 3)
    (path,) = Shortest().routes(fabric, HealthSnapshot.healthy(fabric)).path(0, 4)
    assert [fabric.link_name(link) for link in path.links] == ["g0.0->d0", "d0->g0.1", "g0.1->r1", "r1->g1.1"]


def test_parallel_links_take_the_lowest_that_is_up(torus: Build, health: Make) -> None:
    fabric = torus(2, 2)
    twins = [int(x) for x in fabric.out_links(0) if fabric.link_dst[x] == 2]
    assert len(twins) == 2
    for down, expected in (((), twins[0]), ((twins[0],), twins[1])):
        (path,) = Shortest().routes(fabric, health(fabric, down=down)).path(0, 2)
        assert path.links == (expected,)


def test_it_goes_around_what_is_down_and_ignores_scores(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 3)
    low = health(fabric, [0.1, 0.1], [0.1, 0.1, 0.1])
    assert len(Shortest().routes(fabric, low).path(0, 3)[0].links) == 2
    cut = health(fabric, down=["g0.0->r0"])
    (path,) = Shortest().routes(fabric, cut).path(0, 3)
    assert len(path.links) == 6 and "g0.0->r0" not in {fabric.link_name(x) for x in path.links}
    assert len(Shortest().routes(fabric, cut).path(3, 0)[0].links) == 2


def test_what_is_cut_off_has_no_path(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 2)
    table = Shortest().routes(fabric, health(fabric, down=["g0.0->r0", "g0.0->d0"]))
    assert [len(table.path(0, gpu)) for gpu in (1, 2, 3)] == [0, 0, 0]
    assert [len(table.path(gpu, 0)) for gpu in (1, 2, 3)] == [1, 1, 1]
    assert table.path(1, 1) == ()


def test_health_of_another_fabric_is_refused(rail_only: Build) -> None:
    with pytest.raises(
        HealthError, match=r"health of 8 links and \d+ nodes does not belong to this rail-only of 16"
    ):
        Shortest().routes(rail_only(2, 2), HealthSnapshot.healthy(rail_only(2, 1)))


@pytest.mark.parametrize(("nodes", "busiest"), [(4, 2), (6, 5), (8, 8), (16, 32)])
def test_pairs_as_far_apart_both_ways_round_a_ring_are_split(nodes: int, busiest: int) -> None:
    """All pairs over a ring of n load every link n^2 / 8 if split evenly (rounded up where half the ring is
    odd), and n (n + 2) / 8 if all antipodal pairs go one way."""
    fabric = Ring().build({"nodes": nodes})
    src, dst = all_pairs(nodes)
    links = Shortest().routes(fabric, HealthSnapshot.healthy(fabric)).paths(src, dst).links
    assert np.bincount(links, minlength=fabric.n_links).max() == busiest
