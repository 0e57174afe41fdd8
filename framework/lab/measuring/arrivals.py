"""Packets lost on links: what one end sent less what arrived at the other.

A veth device counts as received whatever its peer sent, so the far end is asked where it takes packets in:
the packet sockets of the userspace datapath count what passed their filter and what found their buffer full
(PACKET_STATISTICS; nothing else reads it, and reading resets it). The kernel datapath has no sockets; there a
counter at the ingress of each port counts what earlier rules there let through.
"""

import json
import socket
import time
from typing import Protocol

import numpy as np

from railweave.framework.lab.switching.emulation import Emulation
from railweave.framework.model.arrays import Bool, Float
from railweave.framework.processes.namespaces import NetNamespace
from railweave.framework.processes.packet_socket import packet_counts
from railweave.framework.processes.programs import run, tool

TABLE = "netdev arrivals"
BEHIND_FAULTS = 10
"""Priority of the counting chains: packets that a fault drops (priority 0) do not reach them."""


class Arrivals(Protocol):
    """Where packets are counted that reach the far ends of links."""

    def read(self) -> tuple[Float, Bool]:
        """(n_links,) packets that arrived since the last call, and whether that is known."""


class SocketArrivals:
    """The receiving sockets of the userspace datapath. Nothing is known of the interval in which a switch
    opened a new one."""

    def __init__(self, lab: Emulation) -> None:
        self._lab = lab
        self._sockets: list[socket.socket | None] = [None] * lab.fabric.n_links

    def read(self) -> tuple[Float, Bool]:
        n = len(self._sockets)
        arrived, known_links = np.zeros(n), np.zeros(n, bool)
        for link, before in enumerate(self._sockets):
            self._sockets[link] = sock = self._lab.receiver(link)
            if sock is not None:
                packets, overflowed = packet_counts(sock)
                arrived[link], known_links[link] = packets - overflowed, sock is before
        return arrived, known_links


class IngressArrivals:
    """Counters at the ingress of the kernel datapath's ports; the kernel keeps them while switches are
    down."""

    def __init__(self, lab: Emulation) -> None:
        n = lab.fabric.n_links
        self._counters = [
            IngressCounters(shard.namespace, {link: lab.interfaces[link ^ 1] for link in links})
            for shard, links in lab.by_shard(np.arange(n), far=True)
        ]
        self._last = np.zeros(n)

    def read(self) -> tuple[Float, Bool]:
        now = np.zeros(len(self._last))
        for counters in self._counters:
            for link, packets in counters.read().items():
                now[link] = packets
        arrived, self._last = now - self._last, now
        return arrived, np.ones(len(now), bool)


class IngressCounters:
    """Packets taken in at interfaces of one namespace. `interfaces`: where each link is received."""

    def __init__(self, namespace: NetNamespace, interfaces: dict[int, str]) -> None:
        self._namespace = namespace
        lines = [
            f"counter l{link} {{ }}\nchain in{link} {{\n"
            f'type filter hook ingress device "{interface}" priority {BEHIND_FAULTS}\n'
            f"counter name l{link}\n}}\n"
            for link, interface in interfaces.items()
        ]
        with namespace.entered():
            run([tool("nft"), "-f", "-"], stdin=f"table {TABLE} {{\n{''.join(lines)}}}\n")

    def read(self) -> dict[int, int]:
        """By link, since the start."""
        with self._namespace.entered():
            listing = json.loads(run([tool("nft"), "-j", "list", "counters", "table", *TABLE.split()]))
        counters = (entry["counter"] for entry in listing["nftables"] if "counter" in entry)
        return {int(counter["name"][1:]): counter["packets"] for counter in counters}


class LossMeter:
    """Packets lost between the two ends of every link. `total` (n_links,): all so far, of the packets sent
    that are `counted` (n_links,).

    The shapers' counters are read first, so packets that arrive in between are counted too early: the
    difference is too small by as much, and what is lost is how far it rose above its maximum. Now
    and then a packet has not come to the counter of arrivals yet: what two readings miss in a row is lost, of
    the packets sent by the first. `every_s`: no more often than this.
    """

    def __init__(self, arrivals: Arrivals, sent_packets: Float, every_s: float) -> None:
        self._arrivals, self._every_s, self._read_at = arrivals, every_s, time.monotonic()
        self._sent = sent_packets
        self._missing, self._so_far, self.total, self.counted = np.zeros((4, len(sent_packets)))
        arrivals.read()

    @property
    def due(self) -> bool:
        return time.monotonic() >= self._read_at + self._every_s

    def count(self, sent_packets: Float) -> None:
        """Bring `total` and `counted` up to date. `sent_packets`: the shapers' counters, read just now."""
        arrived, known_links = self._arrivals.read()
        sent = np.where(known_links, sent_packets - self._sent, 0.0)
        missing = self._missing + sent - np.where(known_links, arrived, 0.0)
        self.total = np.maximum(self.total, np.minimum(self._missing, missing))
        self.counted, self._so_far = self._so_far, self._so_far + sent
        self._sent, self._missing, self._read_at = sent_packets, missing, time.monotonic()
