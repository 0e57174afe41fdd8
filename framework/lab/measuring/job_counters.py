"""What programs have sent over each link, by job: wire bytes of every pair of hosts, counted by nftables
where a link ends.

A packet comes to the far end of a link at the moment at which the shaper lets it go, which is when the
shaper counts it, too. So both counters have the same packets at every moment, those that are lost later or
sent again after their program has ended included. RoCEv2, which the transport sends between the same
addresses, is not counted.

Netlink is read directly: starting `nft` takes some milliseconds for every shard, and this happens at every
iteration. Source of the formats: linux/netfilter/nf_tables.h and nfnetlink.h.
"""

import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from railweave.framework.errors import MachineError
from railweave.framework.lab.switching.emulation import Emulation
from railweave.framework.lab.switching.shaping import DEVICES_PER_CHAIN
from railweave.framework.model.addressing import ROCE_PORT, ipv4, ipv4_text
from railweave.framework.model.arrays import Float
from railweave.framework.model.traffic import ETHERNET_HEADER
from railweave.framework.processes.namespaces import NetNamespace
from railweave.framework.processes.netlink import (
    DONE,
    ERROR,
    attributes,
    dump_request,
    messages,
    refusal,
    text_attribute,
)
from railweave.framework.processes.programs import run, tool

TABLE = "jobs"
SET = f"""set carried {{ type iface_index . ipv4_addr . ipv4_addr; size {1 << 20}; flags dynamic; }}
"""
COUNT = f"""udp dport {ROCE_PORT} accept
update @carried {{ iif . ip saddr . ip daddr counter }}
"""
BEFORE_FAULTS = -10
"""Priority of the counting chains: a packet that a fault drops where the link ends was carried by it."""
_NETFILTER, _FAMILY = 12, 5
"""NETLINK_NETFILTER (linux/netlink.h), NFPROTO_NETDEV (linux/netfilter.h)."""
_GET_ELEMENTS, _SUBSYSTEM_HEADER = 10 << 8 | 13, 4
"""NFNL_SUBSYS_NFTABLES and NFT_MSG_GETSETELEM, and bytes of struct nfgenmsg (linux/netfilter/nfnetlink.h)."""
_KEY_FIELDS = struct.Struct("=I4s4s")
_ELEMENTS, _KEY, _EXPRESSION, _EXPRESSION_DATA = 3, 1, 7, 2
"""NFTA_SET_ELEM_LIST_ELEMENTS, NFTA_SET_ELEM_KEY, NFTA_SET_ELEM_EXPR, NFTA_EXPR_DATA
(linux/netfilter/nf_tables.h)."""


class JobCounters:
    """Counters at the far ends of all links. `jobs`: by its number, the GPUs of each job whose pairs no other
    one has; `n_jobs`: how many there are in all."""

    def __init__(self, lab: Emulation, jobs: Mapping[int, Sequence[int]], n_jobs: int) -> None:
        self._job_of = {
            (src, dst): job
            for job, gpus in jobs.items()
            for addresses in [[socket.inet_aton(ipv4_text(ipv4(lab.fabric, gpu))) for gpu in gpus]]
            for src in addresses
            for dst in addresses
            if src != dst
        }
        self._nothing = np.full((n_jobs, lab.fabric.n_links), np.nan)
        self._nothing[list(jobs)] = 0.0
        self._shards = [
            _Shard(shard.namespace, {link: lab.interfaces[link ^ 1] for link in links})
            for shard, links in (lab.by_shard(np.arange(lab.fabric.n_links), far=True) if jobs else ())
        ]

    def read(self) -> Float:
        """(n_jobs, n_links): wire bytes so far of every job on every link; NaN of jobs that are not told
        apart."""
        carried = self._nothing.copy()
        for shard in self._shards:
            for (link, src, dst), wire_bytes in shard.read().items():
                if (job := self._job_of.get((src, dst))) is not None:
                    carried[job, link] += wire_bytes
        return carried


class _Shard:
    """The counters in one namespace. `interfaces`: where each link is received."""

    def __init__(self, namespace: NetNamespace, interfaces: Mapping[int, str]) -> None:
        names, chains = list(interfaces.values()), ""
        for first in range(0, len(names), DEVICES_PER_CHAIN):
            devices = ", ".join(f'"{name}"' for name in names[first : first + DEVICES_PER_CHAIN])
            hook = f"type filter hook ingress devices = {{ {devices} }} priority {BEFORE_FAULTS}"
            chains += f"chain in{first} {{\n{hook}\n{COUNT}}}\n"
        with namespace.entered():
            run([tool("nft"), "-f", "-"], stdin=f"table netdev {TABLE} {{\n{SET}{chains}}}\n")
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER)
            self._link_of = {socket.if_nametoindex(name): link for link, name in interfaces.items()}

    def read(self) -> dict[tuple[int, bytes, bytes], int]:
        """Wire bytes by link and addresses of the sender and the receiver."""
        carried = {}
        for key, bytes_, packets in _elements(self._socket):
            index, src, dst = _KEY_FIELDS.unpack(key)
            carried[self._link_of[index], src, dst] = bytes_ + ETHERNET_HEADER * packets
        return carried


def _elements(sock: socket.socket) -> Iterator[tuple[bytes, int, int]]:
    """Key, bytes and packets of every element of the set."""
    table = struct.pack(">BBH", _FAMILY, 0, 0) + text_attribute(1, TABLE) + text_attribute(2, "carried")
    sock.send(dump_request(_GET_ELEMENTS, table, sequence=1))
    while True:
        data = sock.recv(1 << 16)

        def inside(value: slice, data: bytes = data) -> dict[int, slice]:
            return dict(attributes(data, value))

        for kind, body in messages(data):
            if kind == DONE:
                return
            if kind == ERROR:
                raise MachineError(f"what programs sent cannot be read: {os.strerror(refusal(data))}.")
            elements = inside(slice(body.start + _SUBSYSTEM_HEADER, body.stop)).get(_ELEMENTS, slice(0, 0))
            for _, element in attributes(data, elements):
                parts = inside(element)
                counter = inside(inside(parts[_EXPRESSION])[_EXPRESSION_DATA])
                (_, key), *_ = attributes(data, parts[_KEY])
                bytes_, packets = (int.from_bytes(data[counter[i]], "big") for i in (1, 2))
                yield data[key], bytes_, packets
