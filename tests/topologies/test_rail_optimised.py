"""Rail-optimised fabrics: rail-only's GPUs and rates, plus spines; counts by hand, paths by networkx."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from railweave.framework.errors import InputError
from railweave.framework.model import Fabric
from railweave.framework.registry import Registers
from railweave.topologies import plugin
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.rail_optimised import RailOptimised

SHAPES = [(4, 4, 2), (1, 2, 1), (3, 5, 3), (8, 2, 4)]


def build(domains: int, rails: int, spines: int, **more: object) -> Fabric:
    options: Any = {"domains": domains, "rails": rails, "spines": spines, **more}
    return RailOptimised().build(options)


def outside_domains(fabric: Fabric) -> nx.Graph:
    """The cables that are not of an HB domain."""
    cables = nx.Graph()
    cables.add_nodes_from(range(fabric.n_nodes))
    for link in range(0, fabric.n_links, 2):
        if fabric.kinds[fabric.link_kind[link]] != "d":
            cables.add_edge(int(fabric.link_src[link]), int(fabric.link_dst[link]))
    return cables


def test_it_is_registered_under_its_name() -> None:
    assert isinstance(Registers([("topologies", plugin)])["topology"]["rail-optimised"], RailOptimised)


@pytest.mark.parametrize(("domains", "rails", "spines"), SHAPES)
def test_gpus_rates_and_ports_are_those_of_rail_only(domains: int, rails: int, spines: int) -> None:
    fabric, rail_only = build(domains, rails, spines), RailOnly().build({"domains": domains, "rails": rails})
    assert fabric.groups[:3] == rail_only.groups
    assert [g.kind for g in fabric.groups] == ["gpu", "domain", "rail", "spine"]
    same = slice(0, rail_only.n_links)
    for name in ("link_src", "link_dst", "capacity_bps", "latency_s", "link_element"):
        assert np.array_equal(getattr(fabric, name)[same], getattr(rail_only, name))
    assert fabric.n_links - rail_only.n_links == 2 * rails * spines
    for gpu in range(fabric.n_gpus):
        assert fabric.link_port[fabric.out_links(gpu)].tolist() == [2, 3]


@pytest.mark.parametrize(("domains", "rails", "spines"), SHAPES)
def test_rails_meet_at_every_spine_and_only_there(domains: int, rails: int, spines: int) -> None:
    fabric = build(domains, rails, spines)
    ids = fabric.node_ids
    cables = outside_domains(fabric)
    for spine in range(spines):
        assert set(cables[ids[f"s{spine}"]]) == {ids[f"r{rail}"] for rail in range(rails)}
    if rails > 1:
        path = nx.shortest_path(cables, ids["g0.0"], ids["g0.1"])
        assert [fabric.node_kind(v) for v in path] == ["gpu", "rail", "spine", "rail", "gpu"]
        cables.remove_nodes_from([ids[f"s{spine}"] for spine in range(spines)])
        assert not nx.has_path(cables, ids["g0.0"], ids["g0.1"])


@pytest.mark.parametrize("over", [1.0, 2.0, 0.5])
def test_a_leaf_sends_up_what_its_gpus_send_divided_by_the_oversubscription(over: float) -> None:
    fabric = build(6, 3, 4, oversubscription=over, rail_rate=100e9)
    for rail in range(3):
        leaf = fabric.node_ids[f"r{rail}"]
        out = fabric.out_links(leaf)
        up = out[fabric.link_dst[out] > leaf]
        down = out[fabric.link_dst[out] < fabric.n_gpus]
        up = up[fabric.link_dst[up] >= fabric.node_ids["s0"]]
        assert fabric.capacity_bps[down].sum() == pytest.approx(over * fabric.capacity_bps[up].sum())


def test_the_health_of_a_trunk_counts_for_its_spine() -> None:
    fabric = build(2, 3, 2, spine_latency=1e-6)
    links = fabric.element_links(fabric.node_ids["s1"])
    assert {fabric.link_name(int(link)) for link in links} == {
        *(f"r{r}->s1" for r in range(3)), *(f"s1->r{r}" for r in range(3)),
    }  # fmt: skip
    assert set(fabric.latency_s[links]) == {1e-6}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spines": 0}, "spines: 0 is too small"),
        ({"rails": 0}, "rails: 0 is too small"),
        ({"domains": 1, "rails": 1}, "rail-optimised of 1 GPU: a fabric needs 2 or more"),
        ({"oversubscription": 0.0}, "oversubscription: 0.0 is too small"),
        ({"oversubscription": float("nan")}, "oversubscription: nan is not a number"),
        ({"spine_latency": -1.0}, "spine_latency: -1.0 is too small"),
    ],
)
def test_impossible_fabrics_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError) as refusal:
        RailOptimised().build(options)
    assert message in str(refusal.value)
