"""Proof that packets follow the route table: marked packets for every pair, and every link's counter
compared."""

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from railweave.framework.errors import LabError
from railweave.framework.lab.tasks.run import LabSession, lab_task
from railweave.framework.model import all_pairs
from railweave.framework.model.addressing import ipv4
from railweave.framework.model.arrays import Int64
from railweave.framework.model.events import Note, RunEvent
from railweave.framework.processes.udp_frame import udp_frame

MARKED_BYTES = 128
"""Bytes of a marked packet: a short one, which takes the first band."""
FLIGHT = 32
"""Marked packets in flight at once: few enough that no queue or buffer can overflow."""

LOST_AFTER_S = 2.0
"""Seconds after which a marked packet is lost."""
SETTLE_S = 1.0
SETTLED_WITHIN_S = 20.0
"""Seconds without a change of routes after which a fault is answered, and after which it never is."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first link whose counter differs from the prediction."""

    link: str
    predicted: int
    counted: int
    pair: str
    hop: str


@dataclass(frozen=True, slots=True)
class Verification:
    """`packets` sent for `pairs`; `hops` predicted over all links; `lost` that did not arrive; `counted`
    (n_links,): what each link's counter says."""

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
    """Sends marked packets from host to host of a lab and counts what arrives and what crosses links."""

    def __init__(self, session: LabSession, sockets: Sequence[socket.socket]) -> None:
        self._fabric, self._source, self._sockets = session.plan.fabric, session.parts.source, sockets

    def counters(self) -> Int64:
        """(n_links,): packets that each link has sent so far."""
        return self._source.totals().sent_packets.astype(np.int64)

    def send(self, src: Int64, dst: Int64, udp_src: Int64) -> int:
        """Send one marked packet each and wait until it has arrived; how many did not."""
        lost = 0
        for begin in range(0, len(src), FLIGHT):
            part = slice(begin, begin + FLIGHT)
            for a, b, port in zip(src[part], dst[part], udp_src[part], strict=True):
                ends = ipv4(self._fabric, int(a)), ipv4(self._fabric, int(b))
                self._sockets[a].send(udp_frame(*ends, MARKED_BYTES, src_port=int(port)))
            for b in dst[part]:
                try:
                    self._sockets[b].recv(64)
                except TimeoutError:
                    lost += 1
        return lost


def verify(session: LabSession) -> Verification:
    """Send one marked packet for every entropy of every pair and compare all links with the table,
    exactly."""
    fabric, entropies = session.plan.fabric, session.control.entropies
    batch = session.control.table.paths(*all_pairs(fabric.n_gpus))
    predicted = np.bincount(batch.links, minlength=fabric.n_links)  # a packet each
    src, dst = (np.repeat(x, np.diff(entropies.start)) for x in (entropies.src, entropies.dst))
    with session.engine.lab.host_sockets(LOST_AFTER_S) as sockets:
        marker = Marker(session, sockets)
        quiet = marker.counters()
        time.sleep(0.2)  # nothing may move in this time
        before = marker.counters()
        if np.any(before != quiet):
            link = int(np.argmax(before != quiet))
            raise LabError(
                f"link {fabric.link_name(link)} carries packets of another sender; nothing can be verified."
            )
        lost = marker.send(src, dst, entropies.udp_src)
        counted = marker.counters() - before
        sound = not lost and np.array_equal(counted, predicted)
        difference = None if sound else _first_difference(session, marker, counted, predicted)
    return Verification(len(batch.src), len(src), int(predicted.sum()), lost, counted, difference)


def _first_difference(session: LabSession, marker: Marker, counted: Int64, predicted: Int64) -> Difference:
    """Send pair by pair until one leaves its paths, and report the first hop that it misses."""
    fabric, entropies = session.plan.fabric, session.control.entropies
    link = int(np.argmax(counted != predicted))
    seen = (fabric.link_name(link), int(predicted[link]), int(counted[link]))
    ports_of_pairs = np.split(entropies.udp_src, entropies.start[1:])
    for src, dst, ports in zip(entropies.src.tolist(), entropies.dst.tolist(), ports_of_pairs, strict=False):
        expected = [link for path in session.control.table.path(src, dst) for link in path.links]
        before = marker.counters()
        marker.send(np.full(len(ports), src), np.full(len(ports), dst), ports)
        crossed = set(np.flatnonzero(marker.counters() - before).tolist())
        if crossed != set(expected):
            missed = next((fabric.link_name(x) for x in expected if x not in crossed), "no more link")
            strays = ", ".join(fabric.link_name(x) for x in sorted(crossed - set(expected)))
            pair = f"{fabric.node_name(src)} -> {fabric.node_name(dst)}"
            return Difference(*seen, pair, f"expected {missed}, took {strays or 'none'}")
    return Difference(*seen, "no pair alone", "the difference did not occur again")


def task(message: Mapping[str, Any], emit: Callable[[RunEvent], None]) -> list[dict[str, Any]]:
    """Verify the fabric of `message["document"]` once it is up, and again after each fault of the
    experiment."""
    with lab_task(message, emit, faults=(), probing=False) as session:
        rows = [_row(session, "bring-up", emit)]
        for fault in session.plan.faults:
            session.settle_after(fault, quiet_s=SETTLE_S, within_s=SETTLED_WITHIN_S)
            rows.append(_row(session, fault.text, emit))
        return rows


def _row(session: LabSession, after: str, emit: Callable[[RunEvent], None]) -> dict[str, Any]:
    result, name = verify(session), session.plan.fabric.link_name
    emit(Note(f"{result.packets} marked packets sent after {after}"))
    return {
        "after": after,
        "counted": {name(link): count for link, count in enumerate(result.counted.tolist())},
        "sound": result.sound, "pairs": result.pairs, "packets": result.packets, "hops": result.hops,
        "lost": result.lost, "rules": len(session.control.rules),
        "unreachable": len(session.control.unreachable()),
        "difference": None if result.difference is None else asdict(result.difference),
    }  # fmt: skip
