"""Which ports of the optical circuit switches are connected, and which spares are in use."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import FaultError
from railweave.framework.model import Fabric, UnitKind
from railweave.framework.model.arrays import ArrayNoun, Bool, Int64


@dataclass(frozen=True, eq=False, slots=True)
class Reconnection(ArrayNoun):
    """Circuits that are connected anew together.

    `links`: all that are healthy afterwards; `dark`: those of them over the circuits, without light until
    `connect_s` (declared) later; both directions each. `summary`: what is connected, in words; `switches`:
    how many OCS are set for it.
    """

    links: Int64
    dark: Int64
    summary: str
    switches: int
    connect_s: float


class CircuitBoard:
    """The ports of every OCS of a fabric while faults are resolved, in the order in which they are written.

    Raises FaultError for a fabric whose circuits cannot be set.
    """

    def __init__(self, fabric: Fabric) -> None:
        if fabric.circuits is None:
            raise FaultError(
                f"this {fabric.kind} has no optical circuit switches that can be set. There are some on a "
                "torus of 4x4x4 cubes, and on rail-only with `spares` or `spare_domains`."
            )
        self._fabric, self._circuits = fabric, fabric.circuits
        self._ends: dict[int, tuple[str, list[int]]] = {}
        """Of each cable over an OCS: the switch, and the ports of its two ends."""
        used: Counter[str] = Counter()
        for cable in np.flatnonzero(fabric.ocs[0::2] >= 0).tolist():
            switch = fabric.ocs_names[fabric.ocs[2 * cable]]
            self._ends[cable] = switch, [used[switch], used[switch] + 1]
            used[switch] += 2
        self._free: dict[str, list[int]] = {}
        self._spare_port: dict[str, int] = {}
        """The first port of each switch that a spare unit is plugged into which waits."""
        self._n_ports: dict[str, int] = {}
        for switch, count in used.items():
            self._add_switch(switch, count, self._of_spares(switch))
        self._in_place: Counter[tuple[str, tuple[int, ...]]] = Counter()

    def port(self, link: int) -> tuple[str, int]:
        """The OCS over which a link goes, and the port that the fibre of its first end is plugged into."""
        switch, ports = self._ends[link // 2]
        return switch, ports[link % 2]

    def replace(self, kind: str, name: str) -> Reconnection:
        """Let a spare take the place of a unit, such as `cube` `0.0.1`; FaultError where none is left."""
        unit = self._circuits.unit(kind)
        if unit is None:
            kinds = [f"{u.kind}:{'.'.join('0' for _ in u.block)}" for u in self._circuits.units]
            raise FaultError(f"replace takes {' or '.join(kinds) or 'nothing on this fabric'}, not {kind!r}.")
        place, members = unit_named(self._fabric, unit, name)
        shared = place[: unit.shared_axes]
        number = self._in_place[kind, shared]
        if number >= unit.spares:
            raise FaultError(
                f"no spare is left for {kind}:{name}: {unit.spares} can take its place, and earlier faults "
                f"use {number}. Raise the number of spares ({_option(kind)}), or leave the fault out."
            )
        self._in_place[kind, shared] += 1
        fabric = self._fabric
        links = np.flatnonzero(members[fabric.link_src] | members[fabric.link_dst])
        dark = links[fabric.ocs[links] >= 0]
        self._plug_in(unit, number, dark, members)
        summary = f"spare {kind} {number} in the place of {kind}:{name}"
        switches = len(np.unique(fabric.ocs[dark]))
        return Reconnection(links, dark, summary, switches, self._circuits.connect_s)

    def reconnect(self, link: int, port: int | None) -> Reconnection:
        """Plug the fibre of a link's first end into another port of its OCS, by default the first free one.
        The port that it leaves is not used again. FaultError for a port that cannot take it."""
        fabric, name = self._fabric, self._fabric.link_name(link)
        if link // 2 not in self._ends:
            first = fabric.link_name(2 * min(self._ends))
            raise FaultError(f"link {name} passes no OCS. Name a link that does, such as link:{first}.")
        switch, ports = self._ends[link // 2]
        free = self._free[switch]
        if port is None and not free:
            raise FaultError(f"ocs {switch} has no free port. Raise topology.spare_ports.")
        chosen = free[0] if port is None else port
        if chosen not in free:
            choose = f"Free ports: {', '.join(map(str, free)) or 'none; raise topology.spare_ports'}."
            raise FaultError(f"{self._why_not(switch, chosen, link)} {choose}")
        free.remove(chosen)
        ports[link % 2] = chosen
        dark = np.sort(np.array([link, link ^ 1]))
        summary = f"{name} at port {chosen} of ocs {switch}"
        return Reconnection(dark, dark, summary, 1, self._circuits.connect_s)

    def _why_not(self, switch: str, port: int, link: int) -> str:
        """Why a port cannot take the fibre of a link's first end."""
        name = self._fabric.link_name(link)
        if port == self.port(link ^ 1)[1]:
            return (
                f"port {port} of ocs {switch} is the far end of {name}, which would be connected to itself."
            )
        if port == self.port(link)[1]:
            return f"{name} is at port {port} of ocs {switch} already."
        for cable, (other, ports) in self._ends.items():
            if other == switch and port in ports:
                first = self._fabric.link_name(2 * cable + ports.index(port))
                return f"port {port} of ocs {switch} carries {first} and would be connected twice."
        if port < self._n_ports[switch]:
            return f"port {port} of ocs {switch} is that of a spare or of what was replaced."
        return f"ocs {switch} has no port {port}, its ports are 0 to {self._n_ports[switch] - 1}."

    # -- ports -------------------------------------------------------------------------------------------
    def _add_switch(self, switch: str, used: int, of_spares: int) -> None:
        self._spare_port[switch], first = used, used + of_spares
        self._n_ports[switch] = first + self._circuits.spare_ports
        self._free[switch] = list(range(first, self._n_ports[switch]))

    def _of_spares(self, switch: str) -> int:
        """How many ports of a switch are those of spare units."""
        fabric, ports = self._fabric, 0
        src = fabric.link_src[fabric.ocs == fabric.ocs_names.index(switch)]
        for unit in self._circuits.units:
            if unit.spares and not unit.own_switches:
                places = unit.places(fabric.gpu_coordinates[src[src < fabric.n_gpus]])
                ports += unit.spares * int(np.unique(places, axis=0, return_counts=True)[1].max())
        return ports

    def _plug_in(self, unit: UnitKind, number: int, dark: Int64, members: Bool) -> None:
        """Give the circuits of a unit the ports of its spare."""
        ports_used: Counter[str] = Counter()
        for link in dark[dark % 2 == 0].tolist():
            switch, ports = self._ends[link // 2]
            if unit.own_switches:
                name = f"{switch} of spare {unit.kind} {number}"
                self._ends[link // 2] = name, [ports_used[name], ports_used[name] + 1]
                ports_used[name] += 2
                continue
            for end, node in enumerate((self._fabric.link_src[link], self._fabric.link_dst[link])):
                if members[node]:
                    ports[end] = self._spare_port[switch]
                    self._spare_port[switch] += 1
        for name, count in ports_used.items():
            self._add_switch(name, count, self._of_spares(name.partition(" of ")[0]))


def unit_named(fabric: Fabric, unit: UnitKind, name: str) -> tuple[tuple[int, ...], Bool]:
    """The coordinates of a unit such as `0.0.1`, and (n_nodes,) whether a node is one of its GPUs. Raises
    FaultError for a unit that is not there."""
    places = unit.places(fabric.gpu_coordinates)
    words = name.split(".")
    wanted = [int(word) if word.isascii() and word.isdecimal() else -1 for word in words]
    members = np.zeros(fabric.n_nodes, bool)
    if len(wanted) == len(unit.block):
        members[: fabric.n_gpus] = (places == wanted).all(axis=1)
    if not members.any():
        ranges = ".".join(f"0..{last}" for last in places.max(axis=0).tolist())
        raise FaultError(f"there is no {unit.kind}:{name}; this fabric has {unit.kind}:{ranges}.")
    return tuple(wanted), members


def _option(kind: str) -> str:
    return {"gpu": "topology.spares", "domain": "topology.spare_domains"}.get(kind, f"topology.spare_{kind}s")
