"""GraphML and node-link JSON: directed multigraphs whose nodes and links carry the fabric's attributes."""

import json
from typing import Any

from railweave.framework.errors import MachineError
from railweave.framework.model import Fabric


def graphml(fabric: Fabric) -> str:
    """GraphML text. Nodes have their names; each direction of a cable is an edge, parallel ones by their key.

    Attributes of the graph: kind, options (JSON), traits, axes, ocs, circuits (JSON). Of nodes: kind,
    coordinates (`0.1`). Of edges: link (id), name, kind, capacity_bps, latency_s, and where they exist
    wavelength, ocs, element (the switch whose health the link counts for), usable (false where a direction
    carries nothing) and lossless (true, where others are not).
    networkx.read_graphml gives a MultiDiGraph. Raises MachineError without networkx (extra `graph`).
    """
    try:
        import networkx
    except ImportError:
        raise MachineError(
            "GraphML is written by networkx, which is not installed. Install the extra `graph` "
            "(pip install 'railweave[graph]'), or use `--format json`, which needs nothing."
        ) from None
    words = {"traits": fabric.traits, "axes": fabric.axis_names, "ocs": fabric.ocs_names}
    graph = networkx.MultiDiGraph(
        kind=fabric.kind,
        options=json.dumps(fabric.params),
        **({} if fabric.circuits is None else {"circuits": json.dumps(fabric.circuits.document())}),
        **{name: " ".join(values) for name, values in words.items() if values},
    )
    graph.add_nodes_from((fabric.node_name(node), _node(fabric, node)) for node in range(fabric.n_nodes))
    graph.add_edges_from((*_ends(fabric, link), link, _link(fabric, link)) for link in range(fabric.n_links))
    return "\n".join(networkx.generate_graphml(graph, named_key_ids=True)) + "\n"


def node_link(fabric: Fabric) -> dict[str, Any]:
    """The node-link form of networkx.node_link_graph and d3: nodes with `id`, edges with source, target and
    key."""
    ends = [_ends(fabric, link) for link in range(fabric.n_links)]
    return {
        "directed": True,
        "multigraph": True,
        "graph": {"kind": fabric.kind, **fabric.params},
        "nodes": [{"id": fabric.node_name(node), **_node(fabric, node)} for node in range(fabric.n_nodes)],
        "edges": [
            {"source": source, "target": target, "key": link, **_link(fabric, link)}
            for link, (source, target) in enumerate(ends)
        ],
    }


def _node(fabric: Fabric, node: int) -> dict[str, object]:
    return {"kind": fabric.node_kind(node), "coordinates": ".".join(map(str, fabric.coordinates(node)))}


def _ends(fabric: Fabric, link: int) -> tuple[str, str]:
    return fabric.node_name(int(fabric.link_src[link])), fabric.node_name(int(fabric.link_dst[link]))


def _link(fabric: Fabric, link: int) -> dict[str, object]:
    noun = fabric.link(link)
    ocs, element = int(fabric.ocs[link]), int(fabric.link_element[link])
    data: dict[str, object] = {
        "link": link,
        "name": noun.name,
        "kind": noun.kind,
        "capacity_bps": noun.capacity_bps,
        "latency_s": noun.latency_s,
    }
    where_they_exist: dict[str, object] = {
        "wavelength": int(fabric.wavelength[link]) if fabric.wavelength[link] >= 0 else None,
        "ocs": fabric.ocs_names[ocs] if ocs >= 0 else None,
        "element": fabric.node_name(element) if element >= 0 else None,
        "usable": None if fabric.usable[link] else False,
        "lossless": True if fabric.lossless[link] and "lossless" not in fabric.traits else None,
    }
    return data | {name: value for name, value in where_they_exist.items() if value is not None}
