"""The fat tree: sizes in closed form, wired as its example file, full bisection, distances by counting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from railweave.framework.analysis.topology_metrics import metrics
from railweave.framework.errors import InputError
from railweave.framework.fabric_files import load
from railweave.framework.model import Fabric
from railweave.topologies.fat_tree import FatTree


def build(k: int, **options: float) -> Fabric:
    return FatTree().build({"k": k, **options})


@pytest.mark.parametrize("k", [2, 4, 6, 16])
def test_sizes_and_distances_in_closed_form(k: int) -> None:
    """k^3/4 GPUs, k^2/2 + k^2/2 + k^2/4 switches of k ports, 3 k^3/4 cables; half of the GPUs' rate crosses
    the middle; k/2 - 1 partners are 2 hops away, k^2/4 - k/2 are 4, the others 6."""
    tree, half = build(k), k // 2
    gpus = k**3 // 4
    assert [g.size for g in tree.groups] == [gpus, k * half, k * half, half * half]
    assert tree.n_links == 2 * 3 * gpus
    assert (np.bincount(tree.link_src)[gpus:] == k).all()
    assert (tree.link_port[tree.out_links(0)] == [2]).all()
    figures = metrics(tree)
    at = figures.distances.pairs + (0,) * 7
    assert (at[2], at[4], at[6]) == (
        gpus * (half - 1), gpus * (half * half - half), gpus * (gpus - half * half)
    )  # fmt: skip
    assert figures.bisection.capacity_bps == pytest.approx(gpus / 2 * 400e9)


def test_it_is_wired_as_the_example_file() -> None:
    path = Path(__file__).parents[2] / "examples" / "fat-tree-k4.yaml"
    drawn, built = load(path).fabric, build(4)
    graphs = []
    for fabric in (drawn, built):
        graph = nx.MultiDiGraph()
        for link in fabric.links():
            graph.add_edge(
                fabric.node_name(link.a), fabric.node_name(link.b), key=link.kind, bps=link.capacity_bps
            )
        graphs.append(graph)
    assert nx.utils.graphs_equal(*graphs)
    assert [replace(g, kind="") for g in drawn.groups] == [replace(g, kind="") for g in built.groups]
    assert drawn.axis_names == FatTree.axis_names


def test_every_pair_of_pods_has_a_path_of_its_own_over_every_core_switch() -> None:
    """(k/2)^2 paths without a link in common from edge switches to the edge switches of another pod."""
    tree = build(6)
    graph = nx.DiGraph()
    for link in tree.links():
        graph.add_edge(link.a, link.b, capacity=1)
    ids = tree.node_ids
    for pod, end in ((0, "from"), (3, "to")):
        for edge in range(3):
            pair = ("from", ids[f"e{pod}.{edge}"]), (ids[f"e{pod}.{edge}"], "to")
            graph.add_edge(*pair[end == "to"])
    assert nx.maximum_flow_value(graph, "from", "to") == 9


def test_the_health_of_a_cable_counts_for_its_upper_switch() -> None:
    tree = build(4, link_latency=1e-6, link_rate=1e9)
    names = {tree.link_name(int(link)) for link in tree.element_links(tree.node_ids["c1.0"])}
    assert names == {f"a{p}.1->c1.0" for p in range(4)} | {f"c1.0->a{p}.1" for p in range(4)}
    assert set(tree.latency_s) == {1e-6} and set(tree.capacity_bps) == {1e9}
    assert (tree.link_element >= tree.n_gpus).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 5}, "fat-tree with k = 5: half of a switch's ports go up, so k is even. Use 4 or 6."),
        ({"k": 0}, "k: 0 is too small"),
        ({"k": 130}, "k: 130 is too large"),
        ({"link_rate": 0}, "link_rate: 0 is too small"),
    ],
)
def test_impossible_trees_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError) as refusal:
        FatTree().build(options)
    assert message in str(refusal.value)
