"""All paths of least cost, against networkx and closed forms."""

from __future__ import annotations

from itertools import pairwise
from math import comb, factorial

import networkx as nx
import numpy as np
import pytest

import railweave as rw
from railweave.framework.model import Fabric, all_pairs
from railweave.framework.routing.equal_cost import ShortestPaths


def up(fabric: Fabric) -> np.ndarray:
    return np.zeros(fabric.n_links, bool)


def cheapest(fabric: Fabric, down: np.ndarray, src: int, dst: int) -> set[tuple[int, ...]]:
    """By networkx: fewest GPUs passed through, then fewest hops; parallel cables are different paths."""
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(fabric.n_nodes))
    through = len(fabric.groups) > 1
    for link in np.flatnonzero(~down & fabric.usable).tolist():
        ends = int(fabric.link_src[link]), int(fabric.link_dst[link])
        graph.add_edge(
            *ends, key=link, cost=1 + (fabric.n_nodes if through and ends[0] < fabric.n_gpus else 0)
        )
    simple = nx.DiGraph()
    for a, b, data in graph.edges(data=True):
        simple.add_edge(a, b, cost=data["cost"])
    if src not in simple or dst not in simple or not nx.has_path(simple, src, dst):
        return set()
    found: set[tuple[int, ...]] = set()
    for nodes in nx.all_shortest_paths(simple, src, dst, weight="cost"):
        ways: list[tuple[int, ...]] = [()]
        for a, b in pairwise(nodes):
            ways = [(*way, link) for way in ways for link in graph[a][b]]
        found |= set(ways)
    return found


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("fat-tree", {"k": 4}),
        ("rail-optimised", {"domains": 3, "rails": 2}),
        ("rail-only", {"domains": 3, "rails": 3}),
        ("torus", {"shape": "4x3"}),
        ("ring", {"nodes": 6}),
    ],
)
@pytest.mark.parametrize("cut", [0, 3])
def test_they_are_those_that_a_search_finds(name: str, keys: dict[str, object], cut: int) -> None:
    fabric = rw.topology(name, **keys)
    down = up(fabric)
    down[np.random.default_rng(7).permutation(fabric.n_links)[:cut]] = True
    src, dst = all_pairs(fabric.n_gpus)
    batch = ShortestPaths(fabric, down, 128).batch(src, dst)
    for pair, (a, b) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
        ours = [path.links for path in batch.paths(pair)]
        assert len(ours) == len({*ours}) and {*ours} == cheapest(fabric, down, a, b)
        assert not ours or sum(path.weight for path in batch.paths(pair)) == pytest.approx(1.0)


def test_a_fat_tree_has_a_path_over_every_core_switch() -> None:
    """(k / 2)^2 of them between pods, k / 2 within one: Al-Fares et al., SIGCOMM 2008, section 3."""
    fabric = rw.topology("fat-tree", k=8)
    batch = ShortestPaths(fabric, up(fabric), 128).batch(np.array([0, 0, 0]), np.array([127, 4, 1]))
    assert np.diff(batch.pair_start).tolist() == [16, 4, 1]


@pytest.mark.parametrize("most", [16, 128])
def test_of_very_many_some_are_taken_evenly(most: int) -> None:
    """Between (0, 0, 0) and (3, 3, 3) of a torus of 8x8x8 there are 9! / 3!^3 = 1,680 shortest paths; a third
    of them begins along each axis, and pairs as far apart begin at different ones."""
    fabric = rw.topology("torus", shape="8x8x8")
    dst = 3 * 64 + 3 * 8 + 3
    assert factorial(9) // factorial(3) ** 3 == 1680 == comb(9, 3) * comb(6, 3)
    src = np.array([0, 64])
    batch = ShortestPaths(fabric, up(fabric), most).batch(src, np.array([dst, dst + 64]))
    assert np.diff(batch.pair_start).tolist() == [most, most]
    assert np.diff(batch.hop_start).tolist() == [9] * (2 * most)
    for pair in (0, 1):
        links = [path.links for path in batch.paths(pair)]
        assert len({*links}) == most
        firsts = np.unique([way[0] for way in links], return_counts=True)[1]
        assert len(firsts) == 3 and np.ptp(firsts) <= 1
        for way in links:
            nodes = [int(src[pair]), *(int(fabric.link_dst[link]) for link in way)]
            assert all(int(fabric.link_src[link]) == node for link, node in zip(way, nodes, strict=False))
            assert nodes[-1] == (dst, dst + 64)[pair]


@pytest.mark.parametrize("nodes", [6, 5000])
def test_pair_by_pair_they_are_the_same(nodes: int) -> None:
    """Half-way round a ring there are two paths, of 2,500 links on the longer one."""
    fabric, far = rw.topology("ring", nodes=nodes), nodes // 2
    one_by_one = ShortestPaths(fabric, up(fabric))(0, far)
    batch = ShortestPaths(fabric, up(fabric), 128).batch(np.array([0]), np.array([far]))
    assert [path.links for path in one_by_one] == [path.links for path in batch.paths(0)]
    assert [len(path.links) for path in one_by_one] == [far, far]


def test_a_pair_alone_and_among_others_is_the_same() -> None:
    fabric = rw.topology("torus", shape="4x4x4")
    src, dst = all_pairs(fabric.n_gpus)
    together = ShortestPaths(fabric, up(fabric), 8).batch(src, dst)
    for pair in (0, 17, 1234, len(src) - 1):
        alone = ShortestPaths(fabric, up(fabric), 8).batch(src[[pair]], dst[[pair]])
        assert alone.paths(0) == together.paths(pair)
