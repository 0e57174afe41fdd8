"""What programs have sent each other: wire bytes by pair of hosts, counted by nftables where they arrive.

A sender's kernel counts what TCP hands down, of which a device makes several packets; what a host receives
are packets as links carried them. Packet sockets, which the transport uses, are not counted.

Netlink is read directly: starting `nft` takes some milliseconds for every host, and this happens at every
iteration. Source of the formats: linux/netfilter/nf_tables.h, nfnetlink.h and netlink.h.
"""

import os
import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from railweave.framework.errors import MachineError
from railweave.framework.model.traffic import ETHERNET_HEADER, PairBytes
from railweave.framework.processes.namespaces import NetNamespace
from railweave.framework.processes.programs import run, tool

RULES = """table ip received {
set from { type ipv4_addr; size 65535; flags dynamic; }
chain in { type filter hook prerouting priority -300; update @from { ip saddr counter }; }
}
"""
_NETFILTER = 12
_GET_ELEMENTS, _ERROR, _DONE = 10 << 8 | 13, 2, 3
_DUMP_REQUEST = 0x301
_HEADER, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
_ELEMENTS, _KEY, _EXPRESSION, _EXPRESSION_DATA = 3, 1, 7, 2


class PairCounters:
    """Counters in the hosts of some GPUs. `hosts`: by GPU, its namespace and IPv4 address."""

    def __init__(self, hosts: Mapping[int, tuple[NetNamespace, str]]) -> None:
        self._gpus = {socket.inet_aton(ip): gpu for gpu, (_, ip) in hosts.items()}
        self._sockets: dict[int, socket.socket] = {}
        for gpu, (namespace, _) in hosts.items():
            with namespace.entered():
                run([tool("nft"), "-f", "-"], stdin=RULES)
                self._sockets[gpu] = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER)

    def read(self, gpus: Sequence[int]) -> PairBytes:
        """What the hosts of these GPUs have received from each other so far."""
        own = set(gpus)
        received = {
            (src, dst): bytes_ + ETHERNET_HEADER * packets
            for dst in gpus
            for address, bytes_, packets in _elements(self._sockets[dst])
            if (src := self._gpus.get(address, -1)) in own and src != dst
        }
        pairs = np.array(sorted(received), np.int64).reshape(-1, 2)
        return PairBytes(pairs[:, 0], pairs[:, 1], np.array([received[pair] for pair in sorted(received)]))


def _elements(sock: socket.socket) -> Iterator[tuple[bytes, int, int]]:
    """Address, bytes and packets of every element of the set."""
    body = struct.pack(">BBH", socket.AF_INET, 0, 0) + _text(1, "received") + _text(2, "from")
    sock.send(_HEADER.pack(_HEADER.size + len(body), _GET_ELEMENTS, _DUMP_REQUEST, 1, 0) + body)
    while True:
        data, at = sock.recv(1 << 16), 0
        while at < len(data):
            length, kind, *_ = _HEADER.unpack_from(data, at)
            message, at = data[at + _HEADER.size : at + length], at + (length + 3) // 4 * 4
            if kind == _DONE:
                return
            if kind == _ERROR:
                code = -int.from_bytes(message[:4], sys.byteorder, signed=True)
                raise MachineError(f"what programs received cannot be read: {os.strerror(code)}.")
            for _, element in _attributes(dict(_attributes(message[4:])).get(_ELEMENTS, b"")):
                parts = dict(_attributes(element))
                counter = dict(_attributes(dict(_attributes(parts[_EXPRESSION]))[_EXPRESSION_DATA]))
                (_, address), *_ = _attributes(parts[_KEY])
                yield address, int.from_bytes(counter[1], "big"), int.from_bytes(counter[2], "big")


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and content of netlink attributes, without the flags of the type."""
    at = 0
    while at < len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        yield kind & 0x3FFF, data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) // 4 * 4


def _text(kind: int, text: str) -> bytes:
    data = text.encode() + b"\0"
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(data), kind) + data + bytes(-len(data) % 4)
