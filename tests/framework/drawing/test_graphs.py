"""GraphML and node-link JSON, read back by networkx and compared with the fabric."""

from __future__ import annotations

import io
import json
import sys

import networkx as nx
import pytest

from railweave.framework.drawing import graphml, node_link
from railweave.framework.errors import MachineError
from railweave.framework.model import Fabric
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.rail_optimised import RailOptimised
from railweave.topologies.ring import Ring
from tests.fakes.tori import torus, twisted

FABRICS = [
    RailOnly().build({"domains": 2, "rails": 3}),
    RailOptimised().build({"domains": 2, "rails": 2}),
    Ring().build({"nodes": 5, "wavelengths": 2}),
    torus(4, 4, 4),
    torus(2, 3),
    twisted(4, 4, 8),
]


def compare(fabric: Fabric, graph: nx.MultiDiGraph) -> None:
    assert graph.is_directed() and graph.is_multigraph()
    assert set(graph.nodes) == set(fabric.node_ids)
    assert all(graph.nodes[name]["kind"] == fabric.node_kind(node) for name, node in fabric.node_ids.items())
    edges = {data["link"]: (a, b, data) for a, b, data in graph.edges(data=True)}
    assert len(edges) == graph.number_of_edges() == fabric.n_links
    for link in fabric.links():
        a, b, data = edges[link.id]
        assert (a, b) == (fabric.node_name(link.a), fabric.node_name(link.b))
        assert (data["name"], data["kind"]) == (link.name, link.kind)
        assert (data["capacity_bps"], data["latency_s"]) == (link.capacity_bps, link.latency_s)
        ocs, wavelength = int(fabric.ocs[link.id]), int(fabric.wavelength[link.id])
        assert data.get("ocs") == (fabric.ocs_names[ocs] if ocs >= 0 else None)
        assert data.get("wavelength") == (wavelength if wavelength >= 0 else None)


@pytest.mark.parametrize("fabric", FABRICS)
def test_networkx_reads_the_graphml(fabric: Fabric) -> None:
    compare(fabric, nx.read_graphml(io.BytesIO(graphml(fabric).encode()), force_multigraph=True))


@pytest.mark.parametrize("fabric", FABRICS)
def test_networkx_reads_the_node_link_json(fabric: Fabric) -> None:
    document = json.loads(json.dumps(node_link(fabric), allow_nan=False))
    graph = nx.node_link_graph(document, edges="edges")
    compare(fabric, graph)
    assert graph.graph["kind"] == fabric.kind


def test_without_networkx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MachineError, match=r"extra `graph` .*--format json"):
        graphml(FABRICS[0])
