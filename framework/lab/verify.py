"""Proof that packets go where the table says: marked packets for every pair, and every link's counter compared."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from railweave.framework.addressing import ROCE_PORT, ipv4, ipv4_text
from railweave.framework.channel import Channel
from railweave.framework.errors import LabError
from railweave.framework.experiment import from_document
from railweave.framework.lab.conductor import Conductor
from railweave.framework.lab.names import host_name, interface_name
from railweave.framework.model import EntropyTable, all_pairs
from railweave.framework.model.arrays import Int64
from railweave.framework.registry import load

MARKED_BYTES = 128
FLIGHT = 32
"""Marked packets under way at once: few enough that no queue or buffer can overflow."""

LOST_AFTER_S = 2.0
SETTLE_S = 1.0
SETTLED_WITHIN_S = 20.0
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
ETH_P_IP = 0x0800


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where packets did not do what the table says."""

    link: str
    predicted: int
    counted: int
    pair: str
    hop: str


@dataclass(frozen=True, slots=True)
class Verification:
    """`packets` sent for `pairs`; `hops` predicted over all links; `lost` that did not arrive; `counted` (n_links,):
    what each link's counter says."""

    pairs: int
    packets: int
    hops: int
    lost: int
    counted: Int64
    difference: Difference | None

    @property
    def sound(self) -> bool:
        return self.difference is None and self.lost == 0


class Marker:
    """Sends marked packets from host to host of a conductor's lab and counts what arrives and what crosses links."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self._fabric = conductor.plan.fabric
        self._sockets = [self._socket(gpu) for gpu in range(self._fabric.n_gpus)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for sock in self._sockets:
            sock.close()

    def _socket(self, gpu: int) -> socket.socket:
        name = host_name(self._fabric, gpu)
        with self._conductor.lab.hosts[name].entered():
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            sock.bind((interface_name(name, 0), ETH_P_IP))
        sock.settimeout(LOST_AFTER_S)
        return sock

    def counters(self) -> Int64:
        """(n_links,): packets that each link has sent so far."""
        return self._conductor.telemetry.snapshot().sent_packets.astype(np.int64)

    def send(self, src: Int64, dst: Int64, udp_src: Int64) -> int:
        """Send one marked packet each and wait until it has arrived; how many did not."""
        lost = 0
        for begin in range(0, len(src), FLIGHT):
            part = slice(begin, begin + FLIGHT)
            for a, b, port in zip(src[part], dst[part], udp_src[part], strict=True):
                self._sockets[a].send(self._frame(int(a), int(b), int(port)))
            for b in dst[part]:
                try:
                    self._sockets[b].recv(64)
                except TimeoutError:
                    lost += 1
        return lost

    def _frame(self, src: int, dst: int, udp_src: int) -> bytes:
        ethernet = bytes.fromhex("0200000000010200000000000800")
        length = MARKED_BYTES - len(ethernet)
        addresses = b"".join(socket.inet_aton(ipv4_text(ipv4(self._fabric, gpu))) for gpu in (src, dst))
        ip = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, 17, 0) + addresses
        udp = struct.pack("!HHHH", udp_src, ROCE_PORT, length - len(ip), 0)
        return ethernet + ip + udp + bytes(length - len(ip) - len(udp))


def verify(conductor: Conductor) -> Verification:
    """Send one marked packet for every entropy of every pair and compare all links with the table, exactly."""
    fabric, table = conductor.plan.fabric, conductor.control.table
    entropies = conductor.control.entropies
    batch = table.paths(*all_pairs(fabric.n_gpus))
    slots = _slots_per_pair(entropies, batch.src, batch.dst, fabric.n_gpus)
    per_path = np.rint(batch.weight * slots[batch.path_pair]).astype(np.int64)
    predicted = np.bincount(batch.links, per_path[batch.hop_path], fabric.n_links).astype(np.int64)
    src, dst = (np.repeat(x, np.diff(entropies.start)) for x in (entropies.src, entropies.dst))
    with Marker(conductor) as marker:
        quiet = marker.counters()
        time.sleep(0.2)  # silence is what is looked for
        before = marker.counters()
        if np.any(before != quiet):
            link = int(np.argmax(before != quiet))
            raise LabError(
                f"link {fabric.link_name(link)} carries packets that nobody sent; nothing can be verified."
            )
        lost = marker.send(src, dst, entropies.udp_src)
        counted = marker.counters() - before
        difference = None
        if lost or np.any(counted != predicted):
            difference = _first_difference(conductor, marker, counted, predicted)
    return Verification(len(batch.src), len(src), int(predicted.sum()), lost, counted, difference)


def _slots_per_pair(entropies: EntropyTable, src: Int64, dst: Int64, n: int) -> Int64:
    """(P,): how many entropies the senders of each pair cycle through."""
    key = entropies.src * n + entropies.dst
    found = np.searchsorted(key, src * n + dst)
    counts = np.diff(entropies.start)
    known = (found < len(key)) & (key[np.minimum(found, len(key) - 1)] == src * n + dst)
    return np.where(known, counts[np.minimum(found, len(counts) - 1)], 0)


def _first_difference(conductor: Conductor, marker: Marker, counted: Int64, predicted: Int64) -> Difference:
    """Send pair by pair until one goes another way than its path, and say at which hop it left."""
    fabric, entropies = conductor.plan.fabric, conductor.control.entropies
    link = int(np.argmax(counted != predicted))
    pair, hop = "none alone", "the difference did not show again"
    for i in range(len(entropies.src)):
        src, dst = int(entropies.src[i]), int(entropies.dst[i])
        paths = conductor.control.table.path(src, dst)
        ports = entropies.udp_src[entropies.start[i] : entropies.start[i + 1]]
        before = marker.counters()
        marker.send(np.full(len(ports), src), np.full(len(ports), dst), ports)
        crossed = set(np.flatnonzero(marker.counters() - before).tolist())
        wanted = [hop for path in paths for hop in path.links]
        if crossed != set(wanted):
            pair = f"{fabric.node_name(src)} -> {fabric.node_name(dst)}"
            missing = next((x for x in wanted if x not in crossed), None)
            astray = [fabric.link_name(x) for x in sorted(crossed - set(wanted))]
            expected = fabric.link_name(missing) if missing is not None else "no more link"
            hop = f"expected {expected}, went {', '.join(astray) or 'nowhere'}"
            break
    return Difference(fabric.link_name(link), int(predicted[link]), int(counted[link]), pair, hop)


def task(message: Mapping[str, Any], channel: Channel) -> None:
    """Bring the plan's fabric up, verify it, and again after each fault of the plan."""
    registers = load()
    conductor = Conductor(from_document(message["document"], registers), registers, channel.send)
    rows = []
    try:
        conductor.bring_up()
        rows.append({"after": "bring-up", **_row(conductor, verify(conductor))})
        channel.send({"kind": "verified", **rows[-1]})
        for fault in list(conductor.plan.faults):
            conductor.settle_after(fault.counted_from(0.0), quiet_s=SETTLE_S, within_s=SETTLED_WITHIN_S)
            rows.append({"after": fault.text, **_row(conductor, verify(conductor))})
            channel.send({"kind": "verified", **rows[-1]})
    finally:
        conductor.down()
    channel.send({"kind": "result", "rows": rows})


def _row(conductor: Conductor, found: Verification) -> dict[str, Any]:
    difference, name = found.difference, conductor.plan.fabric.link_name
    return {
        "counted": {name(link): count for link, count in enumerate(found.counted.tolist())},
        "sound": found.sound, "pairs": found.pairs, "packets": found.packets, "hops": found.hops, "lost": found.lost,
        "rules": len(conductor.control.rules), "cut": len(conductor.control.cut()),
        "difference": None if difference is None else {
            "link": difference.link, "predicted": difference.predicted, "counted": difference.counted,
            "pair": difference.pair, "hop": difference.hop,
        },
    }  # fmt: skip
