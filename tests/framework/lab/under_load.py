"""Traffic with sequence numbers between all pairs of a lab, while the routes move under it."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections import Counter
from typing import Any

import numpy as np

from railweave.framework.experiment.plan import load_plan
from railweave.framework.lab.emulated_run import EmulatedRun, lab_session
from railweave.framework.lab.interface_names import host_name, interface_name
from railweave.framework.model import HealthSnapshot, all_pairs
from railweave.framework.model.addressing import ROCE_PORT, ipv4, ipv4_text
from railweave.framework.registry import load_plugins as registers
from railweave.framework.runs.session import Session

FRAME_BYTES = 1400
LOAD = 0.5
UNDER_WAY = 100
"""Packets at most, which any one buffer on their way holds: a process that the machine holds up for a second
or more loses none of them, so what is lost was lost by the rules."""
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23


class Stream:
    """Round after round, one numbered packet for every pair, at half the rate of the busiest link and with at
    most `UNDER_WAY` of them on their way."""

    def __init__(self, session: Session[EmulatedRun]) -> None:
        self._fabric = session.plan.fabric
        self._src, self._dst = all_pairs(self._fabric.n_gpus)
        self._entropy = int(session.control.entropies.udp_src[0])
        batch = session.control.table.paths(self._src, self._dst)
        busiest = np.bincount(batch.links, minlength=self._fabric.n_links)
        seconds = busiest * FRAME_BYTES * 8 / session.parts.fabric.capacity_bps
        # the detour doubles the load of the rail it takes
        self._round_s = 2 * float(seconds.max()) / LOAD
        self._sockets = []
        for gpu in range(self._fabric.n_gpus):
            name = host_name(self._fabric, gpu)
            with session.engine.lab.hosts[name].entered():
                sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
                sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
                sock.bind((interface_name(name, 0), 0x0800))
            self._sockets.append(sock)
        self.sent, self.got = 0, Counter[tuple[int, int]]()
        self._free = threading.Semaphore(UNDER_WAY)
        self._stop, self._drained = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._receive)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> tuple[int, int]:
        """(lost, delivered more than once)."""
        self._stop.set()
        self._free.release()
        self._threads[0].join()
        self._drained.wait(3.0)  # what is still under way
        self._drained.set()
        self._threads[1].join()
        return self.sent - len(self.got), sum(n - 1 for n in self.got.values())

    def _send(self) -> None:
        heads = [self._head(int(a), int(b)) for a, b in zip(self._src, self._dst, strict=True)]
        tail = bytes(FRAME_BYTES - len(heads[0]) - 8)
        number, due = 0, time.monotonic()
        while True:
            for pair, head in enumerate(heads):
                self._free.acquire()
                if self._stop.is_set():
                    return
                self._sockets[self._src[pair]].send(head + struct.pack("!II", pair, number) + tail)
                self.sent += 1
                due += self._round_s / len(heads)
                if (ahead := due - time.monotonic()) > 0.001:
                    time.sleep(ahead)  # the pace of the load
            number += 1

    def _receive(self) -> None:
        selector = selectors.DefaultSelector()
        for sock in self._sockets:
            sock.setblocking(False)
            selector.register(sock, selectors.EVENT_READ)
        while not self._drained.is_set():
            for key, _ in selector.select(0.1):
                packet = struct.unpack_from("!II", key.fileobj.recv(64), 42)  # type: ignore[union-attr]
                if packet not in self.got:
                    self._free.release()
                self.got[packet] += 1
            if self._stop.is_set() and len(self.got) == self.sent:
                self._drained.set()

    def _head(self, src: int, dst: int) -> bytes:
        length = FRAME_BYTES - 14
        ends = b"".join(socket.inet_aton(ipv4_text(ipv4(self._fabric, gpu))) for gpu in (src, dst))
        ip = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, 17, 0) + ends
        udp = struct.pack("!HHHH", self._entropy, ROCE_PORT, length - 20, 0)
        return bytes.fromhex("0200000000010200000000000800") + ip + udp


def rerouted_under_load(kind: str, reroutes: int) -> dict[str, Any]:
    """Move the routes back and forth `reroutes` times under load; what was lost or delivered twice."""
    known = registers()
    chosen = {
        "rail-only": {"router": "hscore", "rate_scale": 1e-5},
        "torus": {
            "topology": "torus",
            "topology.shape": "4x4",
            "router": "wfr",
            "collective": "ring-all-reduce",
            "rate_scale": 2e-5,
        },
    }[kind]
    plan = load_plan(None, {"fault": "none", "health.dwell": 0, **chosen}, known)
    with lab_session(plan, known, lambda _: None) as session:
        session.start()
        link, clock = session.engine.link, session.engine.clock
        stream = Stream(session)
        stream.start()
        moved, rules = [], []
        for i in range(reroutes):
            health = _health(session, kind, healthy=bool(i % 2), version=i + 1)
            reroute = session.control.react(health, float(i))
            assert reroute is not None
            link.reroute(reroute)
            session.engine.until(lambda: link.ready, "the reroute")
            for changed in link.advance(clock.now_s()):
                for traffic in session.parts.traffic:
                    traffic.use_routes(changed)
            moved.append(reroute.pairs_changed)
            rules.append(len(session.control.rules))
        lost, twice = stream.stop()
    return {"sent": stream.sent, "lost": lost, "twice": twice, "moved": moved, "rules": rules}


def _health(session: Session[EmulatedRun], kind: str, *, healthy: bool, version: int) -> HealthSnapshot:
    fabric = session.plan.fabric
    now = HealthSnapshot.healthy(fabric, version=version)
    if healthy:
        return now
    elements, down = now.element_score.copy(), now.down.copy()
    order = now.rail_order
    if kind == "rail-only":
        rails = fabric.group("rail")
        assert rails is not None
        elements[rails.first + 1] = 0.2
        order = np.array([1, 0, 2, 3])
    else:
        down[[0, 1]] = True
    return HealthSnapshot(version, float(version), now.link_score, elements, down, order)
