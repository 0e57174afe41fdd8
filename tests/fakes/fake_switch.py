"""A switch that is only its flow table, and a fabric of them: where would this packet come out?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from railweave.framework.model import Fabric, Match, Output, RouteTable, Rule, SetDscp
from railweave.framework.model.addressing import ipv4
from railweave.framework.routing.batches import all_paths
from railweave.framework.routing.compiler import compile_batch

HOST_PORT = 1


class OverlapError(AssertionError):
    """Two entries of one priority that match a common packet and do different things with it."""


@dataclass(frozen=True, slots=True)
class Packet:
    """The fields a rule may look at. `udp_src` None: not UDP."""

    src: int
    dst: int
    dscp: int = 0
    udp_src: int | None = 0xC000


def matches(match: Match, in_port: int, packet: Packet) -> bool:
    """Whether the packet carries every field of the match."""
    return (
        match.in_port in (None, in_port)
        and (match.ipv4_src is None or packet.src & match.ipv4_src[1] == match.ipv4_src[0])
        and (match.ipv4_dst is None or packet.dst & match.ipv4_dst[1] == match.ipv4_dst[0])
        and match.ip_dscp in (None, packet.dscp)
        and match.udp_src in (None, packet.udp_src)
    )


def overlap(a: Match, b: Match) -> bool:
    """Whether some packet carries the fields of both."""
    for name in ("in_port", "ip_dscp", "udp_src"):
        x, y = getattr(a, name), getattr(b, name)
        if x is not None and y is not None and x != y:
            return False
    for name in ("ipv4_src", "ipv4_dst"):
        x, y = getattr(a, name), getattr(b, name)
        if x is not None and y is not None and (x[0] ^ y[0]) & x[1] & y[1]:
            return False
    return True


class FakeSwitch:
    """Flow entries of one switch, as OpenFlow 1.3 with CHECK_OVERLAP would keep them."""

    def __init__(self, node: int) -> None:
        self.node = node
        self._rules: dict[tuple[int, Match], Rule] = {}
        self._by_cookie: dict[int, tuple[int, Match]] = {}
        self._ordered: list[Rule] | None = None

    @property
    def rules(self) -> list[Rule]:
        """The entries, highest priority first."""
        if self._ordered is None:
            self._ordered = sorted(self._rules.values(), key=lambda rule: -rule.priority)
        return self._ordered

    def add(self, rule: Rule) -> None:
        """Add an entry; one of the same match and priority is overwritten in a single step."""
        assert rule.switch == self.node
        for match in (rule.match.ipv4_src, rule.match.ipv4_dst):
            assert match is None or match[0] & ~match[1] == 0, "value bits outside the mask"
        assert 0 <= rule.priority <= 0xFFFF
        for other in self._rules.values():
            if (
                other.priority == rule.priority
                and other.match != rule.match
                and other.actions != rule.actions
                and overlap(other.match, rule.match)
            ):
                raise OverlapError(f"{rule} overlaps {other}")
        old = self._rules.get((rule.priority, rule.match))
        if old is not None:
            del self._by_cookie[old.cookie]
        self._rules[rule.priority, rule.match] = rule
        self._by_cookie[rule.cookie] = (rule.priority, rule.match)
        self._ordered = None

    def remove(self, cookie: int) -> None:
        """Remove the entry of this cookie, if there is one."""
        key = self._by_cookie.pop(cookie, None)
        if key is not None:
            del self._rules[key]
            self._ordered = None

    def forward(self, in_port: int, packet: Packet) -> tuple[int | None, Packet]:
        """The port it leaves by (None: dropped) and the packet as it leaves."""
        for rule in self.rules:
            if matches(rule.match, in_port, packet):
                port = None
                for action in rule.actions:
                    match action:
                        case SetDscp(value):
                            packet = replace(packet, dscp=value)
                        case Output(number):
                            port = number
                return port, packet
        return None, packet


@dataclass(frozen=True)
class Trip:
    """How a packet fared: the links it crossed, and the GPU whose host got it, or None."""

    links: tuple[int, ...]
    delivered: int | None


class FakeFabric:
    """A fake switch per node of a fabric, and the cables between them."""

    def __init__(self, fabric: Fabric, rules: Iterable[Rule] = ()) -> None:
        self.fabric = fabric
        self.switches = [FakeSwitch(node) for node in range(fabric.n_nodes)]
        self._out = {
            (int(fabric.link_src[link]), int(fabric.link_port[link])): link for link in range(fabric.n_links)
        }
        self.add(rules)

    def add(self, rules: Iterable[Rule]) -> None:
        for rule in rules:
            self.switches[rule.switch].add(rule)

    def remove(self, rules: Iterable[Rule]) -> None:
        for rule in rules:
            self.switches[rule.switch].remove(rule.cookie)

    def contents(self) -> set[Rule]:
        return {rule for switch in self.switches for rule in switch.rules}

    def send(self, src: int, dst: int, udp_src: int | None = 0xC000) -> Trip:
        """What becomes of a packet that the host of GPU `src` sends to GPU `dst`."""
        packet = Packet(ipv4(self.fabric, src), ipv4(self.fabric, dst), 0, udp_src)
        return self.carry(src, HOST_PORT, packet)

    def carry(self, node: int, in_port: int, packet: Packet) -> Trip:
        """What becomes of a packet that stands before `in_port` of `node`."""
        links: list[int] = []
        for _ in range(4 * self.fabric.n_nodes):
            port, packet = self.switches[node].forward(in_port, packet)
            if port is None:
                return Trip(tuple(links), None)
            if port == HOST_PORT and node < self.fabric.n_gpus:
                return Trip(tuple(links), node)
            link = self._out[node, port]
            links.append(link)
            node, in_port = int(self.fabric.link_dst[link]), int(self.fabric.link_port[link ^ 1])
        raise AssertionError(f"a packet goes round for ever, lately over {links[-4:]}")


def compile_rules(fabric: Fabric, table: RouteTable, tag: int = 0) -> list[Rule]:
    """Every rule that makes the fabric forward as `table` says."""
    return compile_batch(fabric, all_paths(table), tag)
