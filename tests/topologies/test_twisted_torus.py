"""Twisted tori: wiring by hand, distances by networkx against lattice arithmetic,
ties as counted in the source."""

from __future__ import annotations

from collections import Counter
from itertools import product

import networkx as nx
import numpy as np
import pytest

from railweave.framework.errors import FabricError
from railweave.framework.model import Fabric
from railweave.framework.registry import Registers
from railweave.topologies import plugin
from railweave.topologies.torus import Torus, TwistedTorus

SHAPES = [(4, 4, 8), (4, 8, 8), (8, 8, 16)]


def build(shape: tuple[int, ...]) -> Fabric:
    return TwistedTorus().build({"shape": "x".join(map(str, shape))})


def graph(fabric: Fabric) -> nx.Graph:
    cables = nx.Graph()
    cables.add_edges_from(zip(fabric.link_src[::2].tolist(), fabric.link_dst[::2].tolist(), strict=True))
    return cables


def names(fabric: Fabric, node: str) -> dict[str, str]:
    """Where each link of a node leads, by kind."""
    return {
        fabric.kinds[fabric.link_kind[link]]: fabric.node_name(int(fabric.link_dst[link]))
        for link in fabric.out_links(fabric.node_ids[node])
    }


def minimal(shape: tuple[int, ...], there: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Every displacement of least 1-norm from the origin to `there`,
    over multiples of the lattice's vectors."""
    twist = TwistedTorus().twist(shape)
    basis = [tuple((shape[a] if a == b else 0) - twist[a][b] for b in range(3)) for a in range(3)]
    vectors = {
        tuple(there[i] + sum(m * v[i] for m, v in zip(many, basis, strict=True)) for i in range(3))
        for many in product(range(-3, 4), repeat=3)
    }
    least = min(sum(map(abs, v)) for v in vectors)
    return [v for v in vectors if sum(map(abs, v)) == least]


def test_it_is_registered_under_its_name() -> None:
    assert isinstance(Registers([("topologies", plugin)])["topology"]["twisted-torus"], TwistedTorus)


def test_the_short_axes_of_k_k_2k_shift_z() -> None:
    fabric = build((4, 4, 8))
    assert names(fabric, "g3.1.2") == {
        "x+": "g0.1.6", "x-": "g2.1.2", "y+": "g3.2.2", "y-": "g3.0.2", "z+": "g3.1.3", "z-": "g3.1.1",
    }  # fmt: skip
    assert names(fabric, "g0.0.1")["x-"] == "g3.0.5" and names(fabric, "g0.0.5")["x-"] == "g3.0.1"
    assert names(fabric, "g1.3.6")["y+"] == "g1.0.2" and names(fabric, "g1.0.2")["y-"] == "g1.3.6"
    assert names(fabric, "g1.1.7")["z+"] == "g1.1.0"


def test_the_short_axis_of_k_2k_2k_shifts_y_and_z() -> None:
    fabric = build((4, 8, 8))
    assert names(fabric, "g3.1.6")["x+"] == "g0.5.2" and names(fabric, "g0.5.2")["x-"] == "g3.1.6"
    assert names(fabric, "g1.7.3")["y+"] == "g1.0.3" and names(fabric, "g1.7.7")["z+"] == "g1.7.0"


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_vertex_symmetric(shape: tuple[int, ...]) -> None:
    """A step along any axis maps links to links of the same kind,
    and such steps lead from any GPU to any other."""
    fabric = build(shape)
    step = np.full((6, fabric.n_nodes), -1)
    step[fabric.link_kind, fabric.link_src] = fabric.link_dst
    assert (step >= 0).all()
    for shift in step:
        assert sorted(shift) == list(range(fabric.n_nodes))
        for kind in range(6):
            assert np.array_equal(step[kind][shift], shift[step[kind]])
    assert nx.is_connected(graph(fabric))


@pytest.mark.parametrize("shape", SHAPES)
def test_distances_by_search_are_those_of_the_lattice(shape: tuple[int, ...]) -> None:
    fabric = build(shape)
    found = nx.single_source_shortest_path_length(graph(fabric), 0)
    for node, place in enumerate(product(*map(range, shape))):
        assert found[node] == sum(map(abs, minimal(shape, place)[0]))


@pytest.mark.parametrize("shape", SHAPES)
def test_ways_are_shorter_than_without_the_twist(shape: tuple[int, ...]) -> None:
    plain = Torus().build({"shape": "x".join(map(str, shape))})
    twisted, flat = (
        Counter(nx.single_source_shortest_path_length(graph(f), 0).values()) for f in (build(shape), plain)
    )
    assert max(twisted) < max(flat)
    assert sum(d * c for d, c in twisted.items()) < sum(d * c for d, c in flat.items())


@pytest.mark.parametrize(("shape", "tied"), [((4, 4, 8), 41), ((4, 8, 8), 61)])
def test_tied_destinations_are_as_many_as_the_reference_counts(shape: tuple[int, ...], tied: int) -> None:
    places = list(product(*map(range, shape)))[1:]
    assert sum(len(minimal(shape, place)) > 1 for place in places) == tied


@pytest.mark.parametrize("shape", SHAPES)
def test_the_twist_is_a_setting_of_the_same_optical_switches(shape: tuple[int, ...]) -> None:
    twisted, plain = build(shape), Torus().build({"shape": "x".join(map(str, shape))})
    assert twisted.ocs_names == plain.ocs_names
    for plane in range(48):
        ends = [np.sort(f.link_src[(f.ocs == plane) & (f.link_kind % 2 == 0)]) for f in (twisted, plain)]
        assert np.array_equal(*ends)


@pytest.mark.parametrize("shape", ["4x4x4", "8x4x4", "4x8x4", "4x8x16", "6x6x12", "4x4", "8x8", "2x2x4"])
def test_shapes_that_do_not_exist_are_refused(shape: str) -> None:
    with pytest.raises(FabricError, match=f"twisted-torus of shape {shape}: there is none. It takes k,k,2k"):
        TwistedTorus().build({"shape": shape})


def test_lengths_of_0_are_refused() -> None:
    with pytest.raises(FabricError, match="length 0 along x is no ring"):
        TwistedTorus().build({"shape": "0x0x0"})
