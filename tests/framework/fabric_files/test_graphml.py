"""GraphML of other programs, written here by networkx."""

from __future__ import annotations

import io
from pathlib import Path

import networkx as nx
import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.fabric_files import FabricFile, load


def read(tmp_path: Path, graph: nx.Graph | str) -> FabricFile:
    path = tmp_path / "f.graphml"
    if isinstance(graph, str):
        path.write_text(graph)
    else:
        out = io.BytesIO()
        nx.write_graphml(graph, out)
        path.write_bytes(out.getvalue())
    return load(path)


def star(graph: nx.Graph, **data: object) -> nx.Graph:
    """Two GPUs at a switch, in an order and with names that are not ours."""
    graph.add_node("Core Switch", colour="red")
    for name in ("node-b", "node-a"):
        graph.add_node(name, kind="GPU")
        graph.add_edge(name, "Core Switch", rate="400Gb/s", latency="1us", **data)
    return graph


def test_an_undirected_graph_of_strange_names(tmp_path: Path) -> None:
    contents = read(tmp_path, star(nx.Graph(), vendor="x"))
    fabric = contents.fabric
    assert {fabric.link_name(i) for i in range(4)} == {"g0->s0", "s0->g0", "g1->s0", "s0->g1"}
    assert set(fabric.capacity_bps) == {4e11} and set(fabric.latency_s) == {1e-6}
    assert (fabric.link_element == 2).all() and fabric.usable.all()
    assert contents.lost == (
        "the data colour of nodes is ignored",
        "the data vendor of edges is ignored",
        "names of nodes are replaced: node-b is g0 here",
    )


def test_a_directed_edge_alone_carries_traffic_one_way(tmp_path: Path) -> None:
    graph = star(nx.MultiDiGraph())
    graph.add_edge("Core Switch", "node-a", rate="100Gb/s")
    fabric = read(tmp_path, graph).fabric
    assert fabric.n_links == 4 and sorted(fabric.usable) == [False, True, True, True]
    there = fabric.node_ids["g1"]
    assert fabric.capacity_bps[fabric.link_dst == there] == [1e11]


HEAD = (
    '<graphml><key id="k" attr.name="kind"/><key id="r" attr.name="rate"/><graph edgedefault="undirected">\n'
)
GPUS = '<node id="a"><data key="k">gpu</data></node>\n<node id="b"><data key="k">gpu</data></node>\n'
RATE = '<edge source="a" target="b"><data key="r">{}</data></edge></graph></graphml>'


def test_defaults_of_declared_keys_stand_where_nothing_else_does(tmp_path: Path) -> None:
    """Nodes are GPUs, edges have 1 us and 400 Gb/s, and the graph a kind, but where they say otherwise."""
    keys = (
        '<key id="k" for="node" attr.name="kind"><default>gpu</default></key>\n'
        '<key id="r" for="edge" attr.name="rate"><default> 400Gb/s </default></key>\n'
        '<key id="l" attr.name="latency"><default>1us</default></key>\n'
        '<key id="g" for="graph" attr.name="kind"><default>star</default></key>\n'
    )
    graph = (
        '<graph edgedefault="undirected"><node id="a"/><node id="b"/>\n'
        '<node id="s"><data key="k">switch</data></node>\n<edge source="a" target="s"/>\n'
        '<edge source="b" target="s"><data key="r">100Gb/s</data><data key="l">0</data></edge></graph>'
    )
    fabric = read(tmp_path, f"<graphml>{keys}{graph}</graphml>").fabric
    assert (fabric.kind, fabric.n_gpus, fabric.n_nodes) == ("star", 2, 3)
    figures = {(bps, s) for bps, s in zip(fabric.capacity_bps, fabric.latency_s, strict=True)}
    assert figures == {(4e11, 1e-6), (1e11, 0.0)}


@pytest.mark.parametrize(
    "text, why",
    [
        ("<graphml>", ":1: not readable as XML"),
        ("<html/>", ":1: <html> is not GraphML"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><graphml/>', "DOCTYPE is not read here"),
        ("<graphml/>", "no node is a GPU"),
        (HEAD + '<node id="a"/></graph></graphml>', "no node is a GPU"),
        (HEAD + '<node id="a"><data key="k">gpu</data></node></graph></graphml>', "2 GPUs or more"),
        (HEAD + "<node/></graph></graphml>", ":2: <node> lacks id"),
        (HEAD + GPUS + '<node id="a"/></graph></graphml>', ":4: node 'a' is there twice, first on line 2"),
        (HEAD + GPUS + '<edge source="a" target="b"/></graph></graphml>', ":4: an edge has no capacity_bps"),
        (HEAD + GPUS + '<edge source="a" target="a"/></graph></graphml>', ":4: an edge joins a with itself"),
        (HEAD + GPUS + '<edge source="a" target="c"/></graph></graphml>', ":4: there is no node 'c'"),
        (HEAD + GPUS + RATE.format("0"), ":4: .*too small"),
        (HEAD + GPUS + RATE.format("x"), ":4: .*not a rate"),
        (HEAD + GPUS + "<hyperedge/></graph></graphml>", ":4: a hyperedge is no cable"),
        (HEAD + GPUS + "</graph></graphml>", "no cable joins anything"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ExperimentError, match=why):
        read(tmp_path, text)
