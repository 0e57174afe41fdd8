"""Tori: the OCS cases T-O2, T-O3, T-O6 of the source, degrees and distances by closed form and networkx."""

from __future__ import annotations

from itertools import product
from math import prod

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError, FabricError
from railweave.framework.experiment.faults import parse, resolve
from railweave.framework.model import Fabric
from railweave.framework.parameters import resolve as resolve_options
from railweave.framework.registry import Registers
from railweave.topologies import plugin
from railweave.topologies.torus import Torus


def build(shape: str, **more: object) -> Fabric:
    return Torus().build({"shape": shape, **more})  # type: ignore[dict-item]


def graph(fabric: Fabric) -> nx.MultiGraph:
    cables = nx.MultiGraph()
    cables.add_nodes_from(range(fabric.n_nodes))
    cables.add_edges_from(zip(fabric.link_src[::2].tolist(), fabric.link_dst[::2].tolist(), strict=True))
    return cables


def test_it_is_registered_under_its_name() -> None:
    assert isinstance(Registers([("topologies", plugin)])["topology"]["torus"], Torus)


@given(st.lists(st.integers(2, 6), min_size=1, max_size=3))
@settings(max_examples=30)
def test_every_gpu_has_its_neighbours(shape: list[int]) -> None:
    """By hand: coordinates that differ by one step along one axis, and a single cable where a length is 2."""
    fabric = build("x".join(map(str, shape)))
    n = prod(shape)
    expected = set()
    for place in product(*map(range, shape)):
        for axis, length in enumerate(shape):
            there = tuple((c + 1) % length if i == axis else c for i, c in enumerate(place))
            ends = (int(np.ravel_multi_index(place, shape)), int(np.ravel_multi_index(there, shape)))
            expected.add(tuple(sorted(ends)))
    cables = list(zip(fabric.link_src[::2].tolist(), fabric.link_dst[::2].tolist(), strict=True))
    assert sorted(tuple(sorted(c)) for c in cables) == sorted(expected)
    assert (fabric.n_gpus, fabric.n_nodes) == (n, n)
    assert dict(graph(fabric).degree()) == {v: sum(2 if x > 2 else 1 for x in shape) for v in range(n)}


@given(st.lists(st.integers(2, 6), min_size=1, max_size=3))
@settings(max_examples=20)
def test_distances_are_those_of_rings_added(shape: list[int]) -> None:
    fabric = build("x".join(map(str, shape)))
    found = nx.single_source_shortest_path_length(graph(fabric), 0)
    for node, place in enumerate(product(*map(range, shape))):
        assert found[node] == sum(min(c, length - c) for c, length in zip(place, shape, strict=True))


def test_kinds_say_axis_and_direction() -> None:
    fabric = build("3x4x5")
    assert fabric.kinds == ("x+", "x-", "y+", "y-", "z+", "z-")
    for link in range(fabric.n_links):
        axis, sign = divmod(int(fabric.link_kind[link]), 2)
        a, b = fabric.coordinates(int(fabric.link_src[link])), fabric.coordinates(int(fabric.link_dst[link]))
        step = [y - x for x, y in zip(a, b, strict=True)]
        assert step[axis] % (3, 4, 5)[axis] == (1, (3, 4, 5)[axis] - 1)[sign]
        assert sum(map(bool, step)) == 1


def test_ports_are_host_then_x_y_z() -> None:
    fabric = build("4x3x5")
    for gpu in range(fabric.n_gpus):
        links = fabric.out_links(gpu)
        assert fabric.link_port[links].tolist() == [2, 3, 4, 5, 6, 7]
        assert (fabric.link_kind[links] // 2).tolist() == [0, 0, 1, 1, 2, 2]


def test_t_o2_the_links_of_an_ocs() -> None:
    fabric = build("4x4x8")
    fault = resolve(parse("at=2s down ocs:X:0,0"), fabric)
    assert {fabric.link_name(int(link)) for link in fault.links} == {
        "g3.0.0->g0.0.0", "g0.0.0->g3.0.0", "g3.0.4->g0.0.4", "g0.0.4->g3.0.4",
    }  # fmt: skip


@pytest.mark.parametrize(("shape", "lost"), [("4x4x4", 1), ("4x4x8", 2), ("8x8x8", 8), ("16x16x16", 64)])
def test_t_o3_links_lost_per_x_ocs(shape: str, lost: int) -> None:
    fabric = build(shape)
    for plane in range(16):
        links = np.flatnonzero(fabric.ocs == plane)
        assert fabric.ocs_names[plane].startswith("X:") and len(links) == 2 * lost
        assert set(links ^ 1) == set(links)


def test_t_o6_switches_links_and_ports_of_a_pod() -> None:
    fabric = build("16x16x16")
    assert len(fabric.ocs_names) == 48
    cube = (fabric.gpu_coordinates // 4) @ [16, 4, 1]
    ends = np.bincount(cube[fabric.link_src[fabric.ocs >= 0]], minlength=64)
    assert (ends == 96).all()
    between = (cube[fabric.link_src] != cube[fabric.link_dst]) | (fabric.ocs >= 0)
    assert np.array_equal(between, fabric.ocs >= 0)
    assert (np.bincount(fabric.ocs[fabric.ocs >= 0]) == 128).all()


def test_an_ocs_joins_equal_positions_of_opposite_faces() -> None:
    fabric = build("8x4x12")
    for link in np.flatnonzero(fabric.ocs >= 0):
        name, axis = fabric.ocs_names[fabric.ocs[link]], int(fabric.link_kind[link]) // 2
        for end in (fabric.link_src[link], fabric.link_dst[link]):
            others = [c % 4 for i, c in enumerate(fabric.coordinates(int(end))) if i != axis]
            assert name == f"{'XYZ'[axis]}:{others[0]},{others[1]}"


@pytest.mark.parametrize("shape", ["4x4x6", "8x8", "16", "3x3x3"])
def test_no_ocs_where_cubes_do_not_fit(shape: str) -> None:
    fabric = build(shape)
    assert fabric.ocs_names == () and (fabric.ocs == -1).all()


def test_options_are_used_and_recorded() -> None:
    topology = Torus()
    options = resolve_options("torus", topology.parameters, {"shape": "4, 3", "link_rate": "50GB/s"})
    fabric = topology.build(options)
    assert fabric.groups[0].shape == (4, 3) and fabric.params["shape"] == "4x3"
    assert set(fabric.capacity_bps) == {400e9} and set(fabric.latency_s) == {0.0}
    assert fabric == topology.build(options)
    assert set(build("4", link_latency=1e-6).latency_s) == {1e-6}
    assert Torus().build({}).groups[0].shape == (4, 4, 4)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("0", "length 0 along x is no ring; it takes 3 or more, or 2"),
        ("4x0x4", "length 0 along y is no ring"),
        ("4x4x-4", "length -4 along z is no ring"),
        ("4x1", "length 1 along y is no ring; it takes 3 or more, or 2 for a single link. Leave out"),
        ("4x4x4x4", "a shape is one to three whole lengths, such as 8, 4x4 or 4x4x8"),
        ("", "a shape is one to three whole lengths"),
        ("4x4.5", "a shape is one to three whole lengths"),
        ("4xfour", "torus of shape '4xfour'"),
        ("1000x1000x1000", "1000000000 GPUs are too many; 1048576 is the most"),
    ],
)
def test_shapes_that_cannot_exist_are_refused(shape: str, message: str) -> None:
    with pytest.raises(FabricError) as refusal:
        build(shape)
    assert message in str(refusal.value) and refusal.value.exit_code == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"link_rate": 0.0}, "link_rate: 0.0 is too small"),
        ({"link_rate": float("nan")}, "link_rate: nan is not a rate"),
        ({"link_latency": -1.0}, "link_latency: -1.0 is too small"),
    ],
)
def test_rates_that_cannot_exist_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ExperimentError) as refusal:
        build("4x4", **options)
    assert message in str(refusal.value)
