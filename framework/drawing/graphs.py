"""GraphML and node-link JSON: directed multigraphs whose nodes and links carry what the fabric knows of them."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from railweave.framework.model import Fabric

NAMESPACE = "http://graphml.graphdrawing.org/xmlns"

NODE_TYPES = {"kind": "string", "coordinates": "string"}
LINK_TYPES = {
    "link": "int", "name": "string", "kind": "string", "capacity_bps": "double", "latency_s": "double",
    "wavelength": "int", "ocs": "string",
}  # fmt: skip


def graphml(fabric: Fabric) -> str:
    """GraphML text. Nodes are called by name; each direction of a cable is an edge, parallel ones by their key.

    Attributes of nodes: kind, coordinates (`0.1`). Of edges: link (id), name, kind, capacity_bps, latency_s, and
    where they have one wavelength and ocs. networkx.read_graphml gives a MultiDiGraph.
    """
    root = ElementTree.Element("graphml", xmlns=NAMESPACE)
    for target, types in (("node", NODE_TYPES), ("edge", LINK_TYPES)):
        for name, kind in types.items():
            keyed = {"id": f"{target}.{name}", "for": target, "attr.name": name, "attr.type": kind}
            ElementTree.SubElement(root, "key", keyed)
    graph = ElementTree.SubElement(root, "graph", id=fabric.kind, edgedefault="directed")
    for node in range(fabric.n_nodes):
        element = ElementTree.SubElement(graph, "node", id=fabric.node_name(node))
        _data(element, "node", _node(fabric, node))
    for link in range(fabric.n_links):
        ends = {"source": fabric.node_name(int(fabric.link_src[link])), "target": _end(fabric, link)}
        element = ElementTree.SubElement(graph, "edge", {"id": str(link), **ends})
        _data(element, "edge", _link(fabric, link))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def node_link(fabric: Fabric) -> dict[str, Any]:
    """The node-link form of networkx.node_link_graph and d3: nodes with `id`, edges with source, target and key."""
    return {
        "directed": True,
        "multigraph": True,
        "graph": {"kind": fabric.kind, **fabric.params},
        "nodes": [{"id": fabric.node_name(node), **_node(fabric, node)} for node in range(fabric.n_nodes)],
        "edges": [
            {
                "source": fabric.node_name(int(fabric.link_src[link])),
                "target": _end(fabric, link),
                "key": link,
                **_link(fabric, link),
            }
            for link in range(fabric.n_links)
        ],
    }


def _node(fabric: Fabric, node: int) -> dict[str, object]:
    group = fabric.group_of(node)
    return {"kind": group.kind, "coordinates": ".".join(map(str, group.coordinates(node)))}


def _link(fabric: Fabric, link: int) -> dict[str, object]:
    found = fabric.link(link)
    data: dict[str, object] = {
        "link": link,
        "name": found.name,
        "kind": found.kind,
        "capacity_bps": found.capacity_bps,
        "latency_s": found.latency_s,
    }
    if fabric.wavelength[link] >= 0:
        data["wavelength"] = int(fabric.wavelength[link])
    if fabric.ocs[link] >= 0:
        data["ocs"] = fabric.ocs_names[fabric.ocs[link]]
    return data


def _end(fabric: Fabric, link: int) -> str:
    return fabric.node_name(int(fabric.link_dst[link]))


def _data(element: ElementTree.Element, target: str, values: dict[str, object]) -> None:
    for name, value in values.items():
        ElementTree.SubElement(element, "data", key=f"{target}.{name}").text = str(value)
