"""Rings: counts by hand, connectivity by networkx, one cable per wavelength."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric
from railweave.framework.parameters import resolve
from railweave.framework.registry import Registers
from railweave.topologies import plugin
from railweave.topologies.ring import Ring

SHAPES = [(2, 1), (2, 3), (3, 1), (5, 2), (16, 2), (9, 64)]


def build(nodes: int, wavelengths: int = 1, **more: object) -> Fabric:
    return Ring().build({"nodes": nodes, "wavelengths": wavelengths, **more})  # type: ignore[dict-item]


def test_it_is_registered_under_its_name() -> None:
    assert isinstance(Registers([("topologies", plugin)])["topology"]["ring"], Ring)


@pytest.mark.parametrize(("nodes", "wavelengths"), SHAPES)
def test_counts(nodes: int, wavelengths: int) -> None:
    fabric = build(nodes, wavelengths)
    assert (fabric.kind, fabric.kinds) == ("ring", ("ring",))
    assert (fabric.n_gpus, fabric.n_nodes, fabric.n_links) == (nodes, nodes, 2 * nodes * wavelengths)
    for wavelength in range(wavelengths):
        graph = nx.MultiGraph()
        mine = np.flatnonzero(fabric.wavelength == wavelength)[::2]
        graph.add_edges_from(zip(fabric.link_src[mine].tolist(), fabric.link_dst[mine].tolist(), strict=True))
        assert len(mine) == nodes and all(degree == 2 for _, degree in graph.degree())
        assert nx.is_connected(graph) and len(graph) == nodes


@pytest.mark.parametrize(("nodes", "wavelengths"), SHAPES)
def test_links_of_a_cable_go_up_and_down(nodes: int, wavelengths: int) -> None:
    fabric = build(nodes, wavelengths)
    for link in range(fabric.n_links):
        cable, down = divmod(link, 2)
        wavelength, low = divmod(cable, nodes)
        ends = (low, (low + 1) % nodes)
        assert (fabric.link_src[link], fabric.link_dst[link]) == (ends[::-1] if down else ends)
        assert fabric.wavelength[link] == wavelength
        assert fabric.link_element[link] == fabric.ocs[link] == -1


def test_every_wavelength_has_ports_of_its_own() -> None:
    """Ports 2.. of each NIC switch, two per wavelength; port 1 is the host."""
    fabric = build(5, 3)
    for gpu in range(5):
        assert sorted(fabric.link_port[fabric.out_links(gpu)].tolist()) == list(range(2, 8))


def test_names_tell_wavelengths_apart() -> None:
    fabric = build(4, 2)
    assert fabric.link_name(0) == "g0->g1#0" and fabric.link_name(8) == "g0->g1#1"
    assert len({fabric.link_name(link) for link in range(fabric.n_links)}) == 16
    assert build(4).link_name(1) == "g1->g0"
    twos = build(2, 2)
    assert len({twos.link_name(link) for link in range(8)}) == 8


def test_with_one_direction_the_links_back_are_not_usable() -> None:
    fabric = build(4, 2, directions=1)
    assert fabric.kinds == ("ring",)
    assert fabric.usable.tolist() == [True, False] * 8


def test_defaults_and_options() -> None:
    topology = Ring()
    fabric = topology.build(resolve("ring", topology.parameters, {}))
    assert (fabric.n_gpus, fabric.n_links) == (16, 32)
    assert set(fabric.capacity_bps) == {40e9} and not fabric.latency_s.any()
    given = {"nodes": "3", "wavelengths": 2, "rate": "1GB/s", "latency": "2us"}
    fabric = topology.build(resolve("ring", topology.parameters, given))
    assert set(fabric.capacity_bps) == {8e9} and set(fabric.latency_s) == {2e-6}
    assert fabric.params["wavelengths"] == 2
    assert fabric == topology.build(resolve("ring", topology.parameters, given))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"nodes": 1}, "nodes: 1 is too small"),
        ({"nodes": 65537}, "nodes: 65537 is too large"),
        ({"wavelengths": 0}, "wavelengths: 0 is too small"),
        ({"directions": 3}, "directions: 3 is too large"),
        ({"rate": 0.0}, "rate: 0.0 is too small"),
        ({"rate": float("nan")}, "rate: nan is not a rate"),
        ({"latency": -1.0}, "latency: -1.0 is too small"),
    ],
)
def test_impossible_rings_are_refused(params: dict[str, float], message: str) -> None:
    with pytest.raises(ExperimentError) as refusal:
        Ring().build(params)
    assert message in str(refusal.value)


def test_a_user_is_told_which_option_is_wrong() -> None:
    with pytest.raises(ExperimentError, match="wavelengths: 0 is too small"):
        resolve("ring", Ring().parameters, {"wavelengths": 0})


def test_large_rings_are_arrays() -> None:
    assert build(65536, 4).n_links == 524288
