"""Rail-only fabrics: counts by hand from the paper's figure, connectivity by networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from railweave.framework.errors import InputError
from railweave.framework.model import Fabric
from railweave.framework.parameters import resolve
from railweave.framework.registry import Registers
from railweave.topologies import plugin
from railweave.topologies.rail_only import RailOnly

SHAPES = [(4, 4), (1, 2), (2, 1), (3, 5), (8, 2)]


def graph(fabric: Fabric) -> nx.Graph:
    cables = nx.MultiGraph()
    cables.add_nodes_from(range(fabric.n_nodes))
    cables.add_edges_from(zip(fabric.link_src[::2].tolist(), fabric.link_dst[::2].tolist(), strict=True))
    return cables


def build(domains: int, rails: int, **more: object) -> Fabric:
    return RailOnly().build({"domains": domains, "rails": rails, **more})  # type: ignore[dict-item]


def test_it_is_registered_under_its_name() -> None:
    registers = Registers([("topologies", plugin)])
    assert "rail-only" in registers["topology"]


@pytest.mark.parametrize(("domains", "rails"), SHAPES)
def test_counts(domains: int, rails: int) -> None:
    fabric = build(domains, rails)
    gpus = domains * rails
    assert fabric.kind == "rail-only"
    assert (fabric.n_gpus, fabric.n_nodes, fabric.n_links) == (gpus, gpus + domains + rails, 4 * gpus)
    degree = dict(graph(fabric).degree())
    assert all(degree[gpu] == 2 for gpu in range(gpus))
    assert all(degree[gpus + d] == rails for d in range(domains))
    assert all(degree[gpus + domains + g] == domains for g in range(rails))


def test_names_coordinates_and_ends() -> None:
    fabric = build(2, 3)
    ids = fabric.node_ids
    assert (ids["g0.0"], ids["g1.2"], ids["d0"], ids["d1"], ids["r0"], ids["r2"]) == (0, 5, 6, 7, 8, 10)
    names = {fabric.link_name(link) for link in range(fabric.n_links)}
    assert {"g1.2->d1", "d1->g1.2", "g1.2->r2", "r2->g1.2"} <= names
    assert "g1.2->r1" not in names


@pytest.mark.parametrize(("domains", "rails"), SHAPES)
def test_nic_ports_are_host_then_domain_then_rail(domains: int, rails: int) -> None:
    fabric = build(domains, rails)
    for gpu in range(fabric.n_gpus):
        ports = {int(fabric.link_port[link]): fabric.link(int(link)) for link in fabric.out_links(gpu)}
        assert sorted(ports) == [2, 3]
        assert (fabric.node_kind(ports[2].b), fabric.node_kind(ports[3].b)) == ("domain", "rail")
        assert (ports[2].kind, ports[3].kind) == ("d", "r")


def test_switch_ports_follow_the_coordinate() -> None:
    fabric = build(3, 4)
    for gpu in range(fabric.n_gpus):
        domain, rail = fabric.coordinates(gpu)
        d_link, r_link = (int(link) for link in fabric.out_links(gpu))
        assert (fabric.link_port[d_link ^ 1], fabric.link_port[r_link ^ 1]) == (rail + 1, domain + 1)


def test_every_link_counts_for_the_switch_at_its_end() -> None:
    fabric = build(3, 4)
    for link in fabric.links():
        switch = link.b if link.a < fabric.n_gpus else link.a
        assert fabric.link_element[link.id] == switch
    assert all(len(fabric.element_links(node)) == 8 for node in range(12, 15))
    assert all(len(fabric.element_links(node)) == 6 for node in range(15, 19))


@pytest.mark.parametrize(("domains", "rails"), SHAPES)
def test_rails_meet_only_inside_domains(domains: int, rails: int) -> None:
    fabric = build(domains, rails)
    assert nx.is_connected(graph(fabric))
    without = graph(fabric)
    without.remove_nodes_from(range(fabric.n_gpus, fabric.n_gpus + domains))
    parts = sorted(map(sorted, nx.connected_components(without)))
    expected = sorted(
        [*(d * rails + g for d in range(domains)), fabric.n_gpus + domains + g] for g in range(rails)
    )
    assert parts == expected


def test_defaults_are_those_of_the_real_machines() -> None:
    topology = RailOnly()
    fabric = topology.build(resolve("rail-only", topology.parameters, {}))
    assert fabric.n_gpus == 16
    kind = np.array(fabric.kinds)[fabric.link_kind]
    assert set(fabric.capacity_bps[kind == "d"]) == {450e9 * 8}
    assert set(fabric.capacity_bps[kind == "r"]) == {400e9}
    assert not fabric.latency_s.any()
    assert fabric.params["domains"] == 4


def test_options_are_used_and_recorded() -> None:
    topology = RailOnly()
    given = {"domains": 2, "rails": 2, "domain_rate": "9GB/s", "rail_rate": "8Gb/s", "rail_latency": "2us"}
    fabric = topology.build(resolve("rail-only", topology.parameters, given))
    d, r = (int(link) for link in fabric.out_links(0))
    assert (fabric.capacity_bps[d], fabric.capacity_bps[r]) == (72e9, 8e9)
    assert (fabric.latency_s[d], fabric.latency_s[r]) == (0.0, 2e-6)
    assert fabric.params["rail_rate"] == 8e9
    assert fabric == topology.build(resolve("rail-only", topology.parameters, given))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"domains": 1, "rails": 1}, "of 1 GPU: a fabric needs 2 or more. Raise"),
        ({"domains": 10**6, "rails": 10**6}, "rail-only of 1000000 x 1000000 GPUs: 1048576 is the most"),
        ({"rails": 0}, "rails: 0 is too small; it takes a whole number, 1 or more"),
        ({"domains": -2}, "domains: -2 is too small"),
        ({"rail_rate": 0.0}, "rail_rate: 0.0 is too small; it takes a rate such as 400Gb/s"),
        ({"domain_rate": float("inf")}, "domain_rate: inf is not a rate"),
        ({"domain_latency": -1e-6}, "domain_latency: -1e-06 is too small"),
        ({"rail_latency": float("nan")}, "rail_latency: nan is not a time"),
    ],
)
def test_impossible_fabrics_are_refused(params: dict[str, float], message: str) -> None:
    with pytest.raises(InputError) as refusal:
        RailOnly().build(params)
    assert message in str(refusal.value)


def test_large_fabrics_are_arrays() -> None:
    fabric = build(256, 256)
    assert (fabric.n_gpus, fabric.n_links) == (65536, 262144)
    assert fabric.link_port[fabric.out_links(65535)].tolist() == [2, 3]
