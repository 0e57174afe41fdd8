"""Who is cut off, against networkx; and what the failures are."""

from __future__ import annotations

import networkx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.kit.soundness import (
    connected,
    failures,
    no_path,
    paths_text,
    scored,
    shortest_paths,
)
from railweave.framework.model import Fabric, HealthSnapshot, Path
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.ring import Ring
from railweave.topologies.torus import Torus

FABRICS = (
    RailOnly().build({"domains": 2, "rails": 2}),
    Torus().build({"shape": "3x3"}),
    Ring().build({"nodes": 5, "directions": 1}),
)


@given(st.sampled_from(FABRICS), st.integers(0, 2**32 - 1), st.floats(0, 0.7))
def test_the_search_reaches_what_networkx_reaches_by_as_few_links(
    fabric: Fabric, seed: int, share: float
) -> None:
    dead = np.random.default_rng(seed).random(fabric.n_links) < share
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(fabric.n_nodes))
    graph.add_edges_from((int(fabric.link_src[i]), int(fabric.link_dst[i])) for i in np.flatnonzero(~dead))
    for source in range(fabric.n_gpus):
        lengths = networkx.single_source_shortest_path_length(graph, source)
        assert {node: len(path) for node, path in shortest_paths(fabric, dead, source).items()} == dict(
            lengths
        )


def test_every_link_cable_and_switch_fails_once() -> None:
    """2 x 2: 16 links in 8 cables, 2 domains and 2 rails, 4 NIC switches."""
    found = list(failures(FABRICS[0]))
    assert len(found) == 16 + 8 + 4 + 4
    down = [int(health.down.sum()) for _, health in found]
    assert down == [1] * 16 + [2] * 8 + [4] * 4 + [4] * 4
    assert found[0][0] == "link g0.0->d0 down" and found[-1][0] == "NIC switch of g1.1 down"
    assert all((health.link_score[health.down] == 0).all() for _, health in found)


def test_large_fabrics_have_some_of_each_sort() -> None:
    found = list(failures(Torus().build({"shape": "8x8x8"})))
    assert 12 <= len(found) <= 24 and len({name for name, _ in found}) == len(found)


def test_scores_repeat_by_seed_and_agree_within_a_switch() -> None:
    fabric = FABRICS[0]
    assert scored(fabric, 1) == scored(fabric, 1) != scored(fabric, 2)
    health = scored(fabric, 1)
    for node in range(fabric.n_gpus, fabric.n_nodes):
        assert set(health.link_score[fabric.element_links(node)]) == {health.element_score[node]}


def test_what_carries_nothing_reaches_nobody() -> None:
    """A ring of 5 in one direction with its link 0 -> 1 down: 1 reaches all, 0 none but itself."""
    fabric = FABRICS[2]
    pairs = np.array([[0, 2], [1, 0], [1, 4], [2, 1]])
    assert fabric.usable.sum() == 5 and len(connected(fabric, HealthSnapshot.healthy(fabric), pairs)) == 4
    name, health = next(failures(fabric))
    assert name == "link g0->g1 down"
    joined = connected(fabric, health, pairs)
    assert [pair[:2] for pair in joined] == [(1, 0), (1, 4)]
    assert no_path(fabric, *joined[0]).args[1:] == ("g1 -> g0", "g1 -> g2 -> g3 -> g4 -> g0")


def test_of_many_paths_the_first_ones_are_written_out() -> None:
    link = int(FABRICS[1].out_links(0)[0])
    text = paths_text(FABRICS[1], 0, (Path((link,), 1e-6),) * 10**5)
    assert text.count("1e-06 over g0.0 -> ") == 8 and text.endswith("; and 99992 more")
