"""Components of servers and switches, and the fabric of GPUs, switches and cables that they amount to."""

import re
from collections import defaultdict
from collections.abc import Container, Iterable
from itertools import chain, count

from railweave.framework.errors import FabricError
from railweave.framework.fabric_files.cables import CableKind, Cables
from railweave.framework.fabric_files.joints import Component, Edge, Joint
from railweave.framework.fabric_files.node_patterns import Names
from railweave.framework.fabric_files.servers import recognised
from railweave.framework.model import Fabric, NodeGroup

KIND = "infragraph"
MOST_JOINTS = 1 << 22
"""Links between components at most: 4 million, and each takes a Python object."""
GPU, SWITCH = "xpu", "switch"
PASSED = ("nic", "port")
"""Types of components inside a server that belong to the cable which passes them."""


class ComponentGraph:
    """Components and joints, reduced to a fabric by `fabric`.

    xpus are GPUs. A device instance without xpus is one switch. In a server, nics and ports between two
    others are part of the cable; other components that lead to two or more others are switches; those that
    lead nowhere are left out.
    """

    def __init__(self) -> None:
        self._types: dict[Component, str] = {}
        self._servers: dict[Component, int] = {}
        self._joints: dict[tuple[Component, Component], Joint] = {}

    @property
    def size(self) -> int:
        return len(self._types)

    def add(self, component: Component, type_: str) -> None:
        self._types[component] = type_
        if type_ == GPU:
            self._servers.setdefault(component.box, len(self._servers))

    def join(self, a: Component, b: Component, joint: Joint) -> None:
        """As in infragraph's own graph, two components are joined once at most; the last joint counts."""
        key = (b, a) if (b, a) in self._joints else (a, b)
        self._joints[key] = joint
        if len(self._joints) > MOST_JOINTS:
            raise FabricError(f"more than {MOST_JOINTS} links between components. Lower the counts.")

    @property
    def links(self) -> set[str]:
        """The names of the links between components that are not one node."""
        return {joint.link for _, _, joint in self._edges()}

    def fabric(self) -> tuple[Fabric, list[str]]:
        """The fabric, and what it leaves out or has in another form. Raises FabricError."""
        if list(self._types.values()).count(GPU) < 2:
            raise FabricError(
                "there are not two components of type xpu, and a fabric has 2 GPUs or more. Give the devices "
                "that compute a component with `choice: xpu`."
            )
        of_server: dict[Component, list[Component]] = defaultdict(list)
        for component, type_ in self._types.items():
            if type_ == GPU:
                of_server[component.box].append(component)
        switches = {c for c, type_ in self._types.items() if type_ == SWITCH and c.place}
        servers = recognised(self._edges(), of_server, switches)
        self._types |= dict.fromkeys(servers.domains, SWITCH)
        edges, dropped = self._without_dead_ends(servers.edges)
        edges = self._passed_through(edges)
        lost = [*servers.notes]
        if dropped:
            example = dropped[0].name
            lost.append(f"{len(dropped)} components that lead nowhere are left out, such as {example}")
        if unknown := sorted({joint.link for _, _, joint in edges if not joint.rate_bps}):
            raise FabricError(
                f"links without a bandwidth: {', '.join(unknown)}. Give them physical.bandwidth in the file, "
                "all of them one with `--default-rate 400Gb/s`, or each its own with "
                f"`--default-rate {','.join(f'{word}=400Gb/s' for word in unknown)}`."
            )
        groups, nodes = self._groups(edges, of_server, servers.domains)
        cables, numbers = Cables(), dict[Joint, int]()
        for a, b, joint in edges:
            if joint not in numbers:
                kind = "-".join(joint.link.split())
                rate, latency = joint.rate_bps, joint.latency_s
                numbers[joint] = cables.variant(CableKind((kind, kind), (rate, rate), (latency, latency)))
            cables.a.append(nodes[a])
            cables.b.append(nodes[b])
            cables.which.append(numbers[joint])
        fabric = cables.fabric(KIND, groups, {})
        first = next(node for node in nodes if nodes[node] == 0)
        lost.append(f"components have other names: {first.name} is {fabric.node_name(0)}")
        return fabric, lost

    def _edges(self) -> list[Edge]:
        """The joints, with every device that is no server as one."""

        def end(component: Component) -> Component:
            return component if component.box in self._servers else component.box

        joined = [(end(a), end(b), joint) for (a, b), joint in self._joints.items()]
        return [(a, b, joint) for a, b, joint in joined if a != b]

    def _without_dead_ends(self, edges: list[Edge]) -> tuple[list[Edge], list[Component]]:
        """Without the components of servers (GPUs aside) that have one neighbour, again and again."""
        neighbours: dict[Component, set[Component]] = defaultdict(set)
        for a, b, _ in edges:
            neighbours[a].add(b)
            neighbours[b].add(a)
        ends = [c for c in neighbours if self._inner(c) and len(neighbours[c]) < 2]
        dropped = []
        while ends:
            component = ends.pop()
            dropped.append(component)
            for neighbour in neighbours.pop(component):
                neighbours[neighbour].discard(component)
                if self._inner(neighbour) and len(neighbours[neighbour]) == 1:
                    ends.append(neighbour)
        return [edge for edge in edges if edge[0] in neighbours and edge[1] in neighbours], dropped

    def _inner(self, component: Component) -> bool:
        """Whether it is a component of a server, and no GPU."""
        return bool(component.place) and self._types[component] != GPU

    def _passed_through(self, edges: list[Edge]) -> list[Edge]:
        """With nics and ports that join two others made part of the cable."""
        at: dict[Component, list[int]] = defaultdict(list)
        kept: list[Edge | None] = list(edges)
        for i, (a, b, _) in enumerate(edges):
            at[a].append(i)
            at[b].append(i)
        for component in [c for c in at if c.place and self._types[c] in PASSED]:
            if len(at[component]) != 2:
                continue
            # the cable stands where its outer part stood, in the same direction
            inner, outer = sorted(at[component], key=lambda i: self._leaves(kept[i]))
            before, after = kept[inner], kept[outer]
            assert before and after
            near = before[0] if before[1] == component else before[1]
            ends = [near if end == component else end for end in after[:2]]
            if ends[0] == ends[1]:
                continue
            kept[outer], kept[inner] = (ends[0], ends[1], after[2].after(before[2])), None
            at[near] = [outer if i == inner else i for i in at[near]]
        return [edge for edge in kept if edge is not None]

    def _leaves(self, edge: Edge | None) -> bool:
        """Whether it joins two boxes."""
        return edge is not None and edge[0].box != edge[1].box

    def _groups(
        self,
        edges: Iterable[Edge],
        of_server: dict[Component, list[Component]],
        domains: Container[Component],
    ) -> tuple[list[NodeGroup], dict[Component, int]]:
        """Groups of nodes and the id of every node: GPUs at (server, number) or numbered, then switches by
        the components or instances that they are."""
        used = {end for a, b, _ in edges for end in (a, b)}
        alone = all(len(gpus) == 1 for gpus in of_server.values())
        numbered = [(s, k) for s, gpus in enumerate(of_server.values()) for k in range(len(gpus))]
        places = [place[:1] for place in numbered] if alone else numbered
        order = [gpu for gpus in of_server.values() for gpu in gpus]
        groups = [NodeGroup.at("gpu", 0, places, "g")]
        nodes = {gpu: i for i, gpu in enumerate(order)}
        members: dict[tuple[str, ...], list[tuple[tuple[int, ...], Component]]] = defaultdict(list)
        boxes = {c.box: None for c in self._types if c.box not in self._servers}
        rails = self._rails(edges, of_server)
        for component in (c for c in (*boxes, *self._types) if c in used and c not in nodes):
            names = tuple(name for name, _ in component.place)
            if component in domains:
                members["domain", ""].append(((self._servers[component.box],), component))
            elif component in rails:
                members["rail", ""].append(((rails[component],), component))
            elif component.place:
                places_ = (self._servers[component.box], *(index for _, index in component.place))
                members["of a server", *names].append((places_, component))
            else:
                members[component.instance,].append(((component.number,), component))
        kinds, prefixes = {"gpu"}, {"g", "h"}
        for names, placed in sorted(members.items(), key=lambda entry: entry[0] != ("domain", "")):
            kind = _word(names[0] if names[-1] == "" else "-".join(names[1:] or names), kinds)
            placed.sort(key=lambda entry: entry[0])
            starts = (kind[:n] for n in range(1, len(kind)) if kind[n - 1].isalpha())
            prefix = next((start for start in starts if start not in prefixes), f"{kind}-")
            kinds.add(kind)
            prefixes.add(prefix)
            first = groups[-1].first + groups[-1].size
            groups.append(NodeGroup.at(kind, first, [place for place, _ in placed], prefix))
            nodes |= {component: first + i for i, (_, component) in enumerate(placed)}
        Names(groups)
        return groups, nodes

    def _rails(
        self, edges: Iterable[Edge], of_server: dict[Component, list[Component]]
    ) -> dict[Component, int]:
        """The number of the rail that each device next to GPUs is, where it joins the GPU of that number of
        every server, and each number has one."""
        number = {gpu: k for gpus in of_server.values() for k, gpu in enumerate(gpus)}
        joined: dict[Component, set[Component]] = defaultdict(set)
        for edge in edges:
            for gpu, other in (edge[:2], edge[1::-1]):
                if gpu in number and not other.place and other.box not in self._servers:
                    joined[other].add(gpu)
        rails = {switch: {number[gpu] for gpu in gpus} for switch, gpus in joined.items()}
        most = max(map(len, of_server.values()))
        if most < 2 or sorted(map(sorted, rails.values())) != [[k] for k in range(most)]:
            return {}
        if sum(map(len, joined.values())) < len(number):
            return {}
        return {switch: min(numbers) for switch, numbers in rails.items()}


def _word(name: str, taken: Container[str]) -> str:
    """A kind of nodes, none of those taken, from a name of any characters."""
    word = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-")
    if not word[:1].isalpha() or word in ("gpu", "link", "nic", "ocs"):
        word = f"x-{word}".rstrip("-")
    return next(w for w in chain([word], (f"{word}-{n}" for n in count(2))) if w not in taken)
