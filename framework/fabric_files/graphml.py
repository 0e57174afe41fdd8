"""Reads GraphML: what `topo export --format graphml` writes, and graphs of other programs that name GPUs and
rates."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from xml.parsers import expat

import numpy as np

from railweave.framework.errors import ExperimentError, FabricError, did_you_mean
from railweave.framework.fabric_files.cables import AUTO, NONE, CableKind, Cables
from railweave.framework.fabric_files.node_patterns import Names, check_kind, is_number, is_option
from railweave.framework.fabric_files.sections import LATENCY, RATE
from railweave.framework.model import CircuitSwitches, Fabric, NodeGroup

NODE_KEYS = ("kind", "coordinates")
SIDE_KEYS = (
    "kind", "capacity_bps", "rate", "latency_s", "latency", "wavelength", "ocs", "element", "usable",
    "lossless",
)  # fmt: skip
EDGE_KEYS = (*SIDE_KEYS, "link", "name")
MOST_EDGES = 200_000
"""Edges of a GraphML file at most: networkx keeps a dictionary for each."""


_rate, _latency = lru_cache(RATE.parse), lru_cache(LATENCY.parse)
"""Most edges have equal ones."""


@dataclass(slots=True)
class _Element:
    """A node or an edge: its line, XML attributes and data."""

    line: int
    xml: Mapping[str, str]
    directed: bool
    data: dict[str, str]


def read(data: bytes, path: str) -> tuple[Fabric, tuple[str, ...]]:
    """The fabric, and what of the file it leaves out.

    A node's data `kind` is gpu for GPUs; `coordinates` may number it. An edge has `capacity_bps` or `rate`.
    An undirected edge is a cable; so are two opposite directed ones with one another, in the order of the
    file, and a directed edge alone carries traffic one way. Raises ExperimentError with file and line.
    """
    if (edges := data.count(b"<edge")) > MOST_EDGES:
        raise ExperimentError(
            f"{path}: GraphML with {edges} edges, and {MOST_EDGES} are the most. Write railweave's own "
            "format, which takes ten times as many (docs/fabrics.md)."
        )
    graph = _Parser(path).parsed(data)
    groups, ids = _nodes(path, graph.nodes)
    try:
        names = list(Names(groups).ids)
        switches = {name: names[i] for name, i in ids.items() if i >= groups[0].size}
        words = {key: graph.data.get(key, "").split() for key in ("traits", "axes", "ocs")}
        cables = _cables(path, graph, ids, switches, words["ocs"])
        fabric = cables.fabric(
            "-".join(graph.data.get("kind", "graphml").split()),
            groups,
            {names[i]: i for i in range(groups[0].size, len(names))},
            ocs_names=words["ocs"],
            params=_options(graph.data.get("options", "{}")),
            traits=words["traits"],
            axis_names=words["axes"],
            circuits=_circuits(graph.data.get("circuits")),
        )
    except FabricError as error:
        raise ExperimentError(f"{path}: {error}") from error
    return fabric, tuple(_lost(graph, fabric, ids))


def _circuits(text: str | None) -> CircuitSwitches | None:
    if text is None:
        return None
    try:
        return CircuitSwitches.from_document(json.loads(text))
    except (json.JSONDecodeError, AttributeError) as error:
        raise FabricError(f"circuits: {text!r} is no JSON object ({error}).") from None


def _options(text: str) -> dict[str, object]:
    try:
        options = json.loads(text)
    except (ValueError, RecursionError):
        options = None
    if not isinstance(options, dict) or not all(map(is_option, options.values())):
        raise FabricError("the data `options` of the graph is no JSON object of numbers and text: remove it.")
    return options


def _lost(graph: "_Parser", fabric: Fabric, ids: Mapping[str, int]) -> list[str]:
    lost = []
    for kind, elements, keys in (("nodes", graph.nodes, NODE_KEYS), ("edges", graph.edges, EDGE_KEYS)):
        unknown = sorted(set().union(*(element.data for element in elements)) - set(keys))
        if unknown:
            lost.append(f"the data {', '.join(unknown)} of {kind} is ignored")
    if renamed := next((name for name, node in ids.items() if fabric.node_name(node) != name), None):
        lost.append(f"names of nodes are replaced: {renamed} is {fabric.node_name(ids[renamed])} here")
    return lost


class _Parser:
    """The nodes and edges of a document, by expat, which knows lines."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names: dict[str, str] = {}
        self._open: list[dict[str, str]] = []
        self._key, self._text = "", list[str]()
        self._directed = True
        self.nodes: list[_Element] = []
        self.edges: list[_Element] = []
        self.data: dict[str, str] = {}
        self._declared: tuple[str, str] = "", ""
        self._defaults: dict[str, dict[str, str]] = {tag: {} for tag in ("graph", "node", "edge")}

    def parsed(self, data: bytes) -> "_Parser":
        self._expat = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.StartDoctypeDeclHandler = self._doctype
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            why = f"not readable as XML: {expat.ErrorString(error.code)}."
            raise self._refuse(why, error.lineno) from None
        return self

    def _refuse(self, why: str, line: int = 0) -> ExperimentError:
        return ExperimentError(f"{self._path}:{line or self._expat.CurrentLineNumber}: {why}")

    def _doctype(self, *_: object) -> None:
        raise self._refuse("a DOCTYPE is not read here. Remove it.")

    def _start(self, tag: str, xml: dict[str, str]) -> None:
        """Every element opens what its data belong to: its own, or nothing that is read."""
        if ":" in tag:
            tag = tag.rpartition(":")[2]
        if not self._open and tag != "graphml":
            raise self._refuse(f"<{tag}> is not GraphML, which begins with <graphml>.")
        owner = {}
        match tag:
            case "data" | "default":
                self._key, self._text = xml.get("key", ""), []
                self._expat.CharacterDataHandler = self._text.append
            case "graphml":
                owner = self.data
            case "key":
                name = self._names[xml.get("id", "")] = xml.get("attr.name") or xml.get("id", "")
                self._declared = name, xml.get("for", "all")
            case "graph":
                if self._open[-1] is not self.data:
                    raise self._refuse("a graph inside a node is not read here. Write one graph.")
                owner = self.data
                owner |= self._defaults["graph"]
                self._directed = xml.get("edgedefault") != "undirected"
            case "hyperedge":
                raise self._refuse("a hyperedge is no cable. Write a switch, and an edge to each node.")
            case "node" | "edge":
                needed = ("id",) if tag == "node" else ("source", "target")
                if missing := [name for name in needed if name not in xml]:
                    raise self._refuse(f"<{tag}> lacks {missing[0]}.")
                flag = xml.get("directed")
                directed = self._directed if flag is None else flag.lower() != "false"
                owner = self._defaults[tag].copy()
                element = _Element(self._expat.CurrentLineNumber, xml, directed, owner)
                (self.nodes if tag == "node" else self.edges).append(element)
        self._open.append(owner)

    def _end(self, tag: str) -> None:
        self._open.pop()
        if ":" in tag:
            tag = tag.rpartition(":")[2]
        if tag == "data":
            owner, name = self._open[-1], self._names.get(self._key, self._key)
            owner.pop(name, None)  # a default
            if name and (text := "".join(self._text).strip()):
                owner[name] = text
            self._expat.CharacterDataHandler = None
        elif tag == "default":
            name, owners = self._declared
            for element, defaults in self._defaults.items():
                if owners in ("all", element):
                    defaults[name] = "".join(self._text).strip()
            self._expat.CharacterDataHandler = None


def _nodes(path: str, nodes: list[_Element]) -> tuple[list[NodeGroup], dict[str, int]]:
    """The groups by kind, GPUs first, and the ids of nodes by their names in the file."""
    by_kind: dict[str, list[_Element]] = defaultdict(list)
    seen: dict[str, int] = {}
    for node in nodes:
        name = node.xml["id"]
        if name in seen:
            raise ExperimentError(
                f"{path}:{node.line}: node {name!r} is there twice, first on line {seen[name]}."
            )
        seen[name] = node.line
        by_kind[node.data.get("kind", "switch").lower()].append(node)
    if "gpu" not in by_kind:
        raise ExperimentError(f"{path}: no node is a GPU. Give each GPU the data `kind` with the value gpu.")
    groups: list[NodeGroup] = []
    ids: dict[str, int] = {}
    for kind in sorted(by_kind, key=lambda kind: kind != "gpu"):
        first = groups[-1].first + groups[-1].size if groups else 0
        try:
            groups.append(_group(kind, first, by_kind[kind]))
        except FabricError as error:
            raise ExperimentError(f"{path}:{by_kind[kind][0].line}: {error}") from error
        ids |= {node.xml["id"]: first + i for i, node in enumerate(by_kind[kind])}
    if len(by_kind["gpu"]) < 2:
        raise ExperimentError(f"{path}: a fabric has 2 GPUs or more, and this one has 1.")
    try:
        Names(groups)
    except FabricError:
        groups = [NodeGroup(g.kind, g.first, g.shape, f"{g.kind}-", g.places) for g in groups]
        groups[0] = NodeGroup("gpu", 0, groups[0].shape, "g", groups[0].places)
    return groups, ids


def _group(kind: str, first: int, nodes: list[_Element]) -> NodeGroup:
    """The nodes of a kind at their coordinates if all have such, else numbered."""
    texts = [node.data.get("coordinates", "").split(".") for node in nodes]
    numbered = all(len(t) == len(texts[0]) and all(map(is_number, t)) for t in texts)
    places = np.array(texts, np.int64) if numbered else np.arange(len(nodes))[:, None]
    name, end = nodes[0].xml["id"], ".".join(texts[0])
    prefix = name.removesuffix(end) if numbered and name.endswith(end) else "g" if kind == "gpu" else kind[0]
    try:
        check_kind(kind, prefix)
    except FabricError:
        prefix = f"{kind}-"
        check_kind(kind, prefix)
    return NodeGroup.at(kind, first, places, prefix)


def _cables(
    path: str, graph: _Parser, ids: Mapping[str, int], switches: Mapping[str, str], ocs: list[str]
) -> Cables:
    """Every edge, or two opposite ones, as a cable, where the first of them stands. Adds to `ocs`."""
    cables, all_lossless = Cables(), "lossless" in graph.data.get("traits", "").split()
    waiting: dict[tuple[int, int], list[int]] = defaultdict(list)
    variants: dict[tuple[object, ...], int] = {}
    ends: list[tuple[int, int]] = []
    read_sides: dict[tuple[object, ...], tuple[object, ...]] = {}
    sides: list[list[tuple[object, ...]]] = []
    if all(is_number(edge.data.get("link", "")) for edge in graph.edges):
        graph.edges.sort(key=lambda edge: int(edge.data["link"]))
    for edge in graph.edges:
        try:
            a, b = (_node(edge.xml[end], ids) for end in ("source", "target"))
            if a == b:
                raise FabricError(f"an edge joins {edge.xml['source']} with itself. Write two nodes.")
            data = edge.data
            alike = ("link" in data, *map(data.get, SIDE_KEYS))
            if (side := read_sides.get(alike)) is None:
                side = read_sides[alike] = _side(data, switches, all_lossless)
        except (FabricError, ExperimentError) as error:
            raise ExperimentError(f"{path}:{edge.line}: {error}") from error
        if side[5] and side[5] not in ocs:
            ocs.append(str(side[5]))
        if not edge.directed:
            ends.append((a, b))
            sides.append([side, side])
        elif waiting[b, a]:
            sides[waiting[b, a].pop(0)].append(side)
        else:
            waiting[a, b].append(len(ends))
            ends.append((a, b))
            sides.append([side])
    for (a, b), cable in zip(ends, sides, strict=True):
        forth, back = cable[0], cable[1] if len(cable) > 1 else (*cable[0][:6], False, cable[0][7])
        key = (forth, back)
        if key not in variants:
            variants[key] = cables.variant(CableKind(*zip(forth, back, strict=True)))  # type: ignore[arg-type]
        cables.a.append(a)
        cables.b.append(b)
        cables.which.append(variants[key])
    return cables


def _node(name: str, ids: Mapping[str, int]) -> int:
    if name not in ids:
        raise FabricError(f"there is no node {name!r}.{did_you_mean(name, ids) if len(ids) < 2000 else ''}")
    return ids[name]


def _in(text: str, unit: str) -> str:
    """A number in this unit, with it."""
    try:
        return f"{float(text)!r}{unit}"
    except ValueError:
        return text


def _side(data: Mapping[str, str], switches: Mapping[str, str], all_lossless: bool) -> tuple[object, ...]:
    """One direction: the fields of `CableKind`, in their order."""
    rate = _in(data["capacity_bps"], "b/s") if "capacity_bps" in data else data.get("rate")
    if rate is None:
        raise FabricError("an edge has no capacity_bps (bit/s) and no rate (400Gb/s). Give it one of them.")
    element = data.get("element", NONE if "link" in data else AUTO)
    if element not in (AUTO, NONE) and element not in switches:
        raise FabricError(f"element {element!r} is no switch.")
    if len(data.get("ocs", "").split()) > 1:
        raise FabricError(f"ocs {data['ocs']!r} is no single word.")
    wavelength = data.get("wavelength", "-1")
    if wavelength != "-1" and not is_number(wavelength):
        raise FabricError(f"wavelength {wavelength!r} is no whole number.")
    return (
        "-".join(data.get("kind", "").split()) or "link",
        _rate(rate),
        _latency(_in(data["latency_s"], "s") if "latency_s" in data else data.get("latency", "0")),
        switches.get(element, element),
        int(wavelength),
        data.get("ocs", ""),
        data.get("usable", "true").lower() != "false",
        data["lossless"].lower() == "true" if "lossless" in data else all_lossless,
    )
