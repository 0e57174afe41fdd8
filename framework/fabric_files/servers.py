"""The HB domains and NICs of servers, recognised in what their components are joined to.

A server of a real cluster has several parallel NVSwitches, or links between all of its GPUs, and PCIe
between GPUs and NICs. As a fabric it is a switch for the domain, with a cable to every GPU, and a cable from
every GPU to the switch that its NIC leads to.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from railweave.framework.fabric_files.joints import Component, Edge, Joint
from railweave.framework.parameters.units import rate

DOMAIN = (("domain", 0),)
"""The place of a domain switch that stands for links between GPUs."""

Neighbours = dict[Component, list[tuple[Component, Joint, int]]]
"""Of each component the others, what joins them, and the number of that edge."""


class Servers(NamedTuple):
    """`edges`: those of the fabric; `domains`: the switch of every server's domain, where each server has
    one; `notes`: what was recognised, a sentence each."""

    edges: list[Edge]
    domains: set[Component]
    notes: list[str]


def recognised(
    edges: Sequence[Edge], gpus: dict[Component, list[Component]], switches: set[Component]
) -> Servers:
    """The edges with every server's domain as one switch, and its NICs in the cables of its GPUs. `gpus`: of
    every server; `switches`: components of servers that are such.

    A domain is what all GPUs of a server are joined with alike: one or several switches, which lead to
    nothing that cannot be reached without them, or all GPUs directly. A server where neither is so stays as
    it is.
    """
    inside: dict[Component, list[Edge]] = defaultdict(list)
    outside: dict[Component, list[Edge]] = defaultdict(list)
    rest: list[Edge] = []
    for edge in edges:
        near, far = edge[0].box, edge[1].box
        if near == far and near in gpus:
            inside[near].append(edge)
            continue
        for box in {near, far} & gpus.keys():
            outside[box].append(edge)
        rest.append(edge)
    made: list[Edge] = []
    domains: set[Component] = set()
    noted: dict[str, str] = {}
    moved: dict[int, list[Edge]] = {}
    for box, members in gpus.items():
        server = _Server(members, inside[box], outside[box], switches)
        domain = server.domain() if len(members) > 1 else None
        if domain is None:
            made += inside[box]
            continue
        domains.add(domain.switch)
        made += domain.cables
        if domain.note:
            noted.setdefault(domain.note, box.name)
        between = any(edge[0].box in gpus and edge[1].box in gpus for edge in outside[box])
        cables = None if between else server.nic_cables(domain.without)
        if cables is None:
            made += domain.without
        else:
            moved |= cables
            if domain.without:
                noted.setdefault(
                    "what stands between a GPU and its nearest NICs is part of the cable", box.name
                )
    for edge in rest:
        made += moved.get(id(edge), [edge])
    notes = [f"in servers such as {box}, {note}" for note, box in noted.items()]
    return Servers(made, domains if len(domains) == len(gpus) else set(), notes)


class _Domain(NamedTuple):
    """`cables`: of every GPU to the `switch`; `without`: what else is inside the server."""

    switch: Component
    cables: list[Edge]
    without: list[Edge]
    note: str


class _Server:
    def __init__(
        self, gpus: list[Component], inside: list[Edge], outside: list[Edge], switches: set[Component]
    ) -> None:
        self._gpus, self._inside, self._outside = gpus, inside, outside
        self._switches = switches
        self._near = _neighbours(inside)

    def domain(self) -> _Domain | None:
        """That of the server, if it has one."""
        everyone = set(self._gpus)
        groups: dict[object, list[Component]] = defaultdict(list)
        for component, near in self._near.items():
            if component in self._switches and {other for other, *_ in near} >= everyone:
                groups[tuple(name for name, _ in component.place)].append(component)
        for chosen in groups.values():
            without = [edge for edge in self._inside if not {*edge[:2]} & {*chosen}]
            if self._reached(self._inside) <= self._reached(without):  # else this is PCIe
                note = f"{len(chosen)} parallel switches are one domain switch" if len(chosen) > 1 else ""
                return self._joined_by(chosen[0], set(chosen), without, note)
        if all({other for other, *_ in self._near.get(gpu, ())} >= everyone - {gpu} for gpu in self._gpus):
            without = [edge for edge in self._inside if not {*edge[:2]} <= everyone]
            note = "the links among all GPUs are one domain switch, so that one pair may use all of a GPU's"
            return self._joined_by(Component(*self._gpus[0][:2], DOMAIN), everyone, without, note)
        return None

    def _joined_by(
        self, switch: Component, chosen: set[Component], without: list[Edge], note: str
    ) -> _Domain:
        """A domain whose switch stands for what `chosen` components are to each GPU."""
        cables = [
            (gpu, switch, together([joint for other, joint, _ in self._near[gpu] if other in chosen]))
            for gpu in self._gpus
        ]
        rates = {joint.rate_bps for _, _, joint in cables}
        shown = f" ({rate(rates.pop())} for each GPU)" if note and len(rates) == 1 and 0 not in rates else ""
        return _Domain(switch, cables, without, note + shown)

    def _reached(self, edges: Iterable[Edge]) -> set[int]:
        """The numbers of the edges to other boxes that GPUs reach over these edges inside."""
        return {i for i, _ in _ways(_neighbours(edges), self._gpus, self._outside)}

    def nic_cables(self, inside: Sequence[Edge]) -> dict[int, list[Edge]] | None:
        """In place of each edge to another box, by identity: the cable of a GPU, or nothing where it is
        bonded with one before. None unless every GPU has as many edges as the others, its nearest, over links
        that it shares with no other GPU and that do not limit it."""
        count, left_over = divmod(len(self._outside), len(self._gpus))
        if left_over:
            return None
        near = _neighbours(inside)
        ways = {
            (g, i): way for g, gpu in enumerate(self._gpus) for i, way in _ways(near, [gpu], self._outside)
        }
        of_gpu: dict[int, list[int]] = defaultdict(list)
        owner: dict[int, int] = {}
        for g, i in sorted(ways, key=lambda key: (len(ways[key]), key)):
            if i not in owner and len(of_gpu[g]) < count:
                owner[i] = g
                of_gpu[g].append(i)
        used: dict[int, int] = {}
        if len(owner) < len(self._outside) or any(
            used.setdefault(step, g) != g for i, g in owner.items() for step in ways[g, i]
        ):
            return None
        made: dict[int, list[Edge]] = {}
        for g, gpu in enumerate(self._gpus):
            bonds: dict[Component, list[int]] = defaultdict(list)
            for i in sorted(of_gpu[g]):
                bonds[self._far(i)].append(i)
            for step in {step for i in of_gpu[g] for step in ways[g, i]} if len(bonds) > 1 else ():
                behind = [self._outside[i][2].rate_bps for i in of_gpu[g] if step in ways[g, i]]
                if len(behind) > 1 and 0 < inside[step][2].rate_bps < sum(behind):
                    return None
            for far, bonded in bonds.items():
                shared = {step for step in ways[g, bonded[0]] if all(step in ways[g, i] for i in bonded)}
                joint = together([self._cable(inside, i, {*ways[g, i]} - shared) for i in bonded])
                for step in shared:
                    joint = joint.after(inside[step][2])
                made |= {id(self._outside[i]): list[Edge]() for i in bonded}
                first = self._outside[bonded[0]]
                made[id(first)] = [(gpu, far, joint) if first[1] == far else (far, gpu, joint)]
        return made

    def _cable(self, inside: Sequence[Edge], i: int, steps: set[int]) -> Joint:
        """An edge to another box with these edges inside."""
        joint = self._outside[i][2]
        for step in steps:
            joint = joint.after(inside[step][2])
        return joint

    def _far(self, i: int) -> Component:
        """The end of an edge to another box that is there."""
        a, b, _ = self._outside[i]
        return b if a.box == self._gpus[0].box else a


def together(parallel: Sequence[Joint]) -> Joint:
    """Parallel joints as one: the sum of the rates, unknown where one is; the longest latency."""
    rates = [joint.rate_bps for joint in parallel]
    return Joint(
        parallel[0].link,
        sum(rates) if all(rates) else 0.0,
        max(joint.latency_s for joint in parallel),
    )


def _neighbours(edges: Iterable[Edge]) -> Neighbours:
    near: Neighbours = defaultdict(list)
    for number, (a, b, joint) in enumerate(edges):
        near[a].append((b, joint, number))
        near[b].append((a, joint, number))
    return near


def _ways(
    near: Neighbours, gpus: Sequence[Component], outside: Sequence[Edge]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Of each edge to another box that one of these GPUs of a server reaches: its number, and those of the
    fewest edges inside that lead to it."""
    way: dict[Component, tuple[int, ...]] = dict.fromkeys(gpus, ())
    left = deque(gpus)
    while left:
        component = left.popleft()
        for other, _, number in near.get(component, ()):
            if other not in way:
                way[other] = (*way[component], number)
                left.append(other)
    for i, edge in enumerate(outside):
        end = edge[0] if edge[0].box == gpus[0].box else edge[1]
        if end in way:
            yield i, way[end]
