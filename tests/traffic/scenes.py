"""What happens inside the namespaces of a test: `python scenes.py NAME [ARGUMENTS]`, JSON on the last line.

Ranks are namespaces with one veth each; the other ends meet in this namespace, on a Linux bridge or in our
hands.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from railweave.framework.model import Endpoint, EntropyTable, PacketFormat, Schedule
from railweave.framework.model.addressing import ENTROPY_BASE
from railweave.framework.parameters import resolve
from railweave.framework.processes.namespaces import NetNamespace, mount, silence_ipv6
from railweave.topologies.rail_only import RailOnly
from railweave.traffic.collectives.rings import RingAllReduce
from railweave.traffic.proxy import RoceV2

LOG = "/run/transport.log"
MTU = 9000


def run(*words: str, given: str | None = None) -> None:
    subprocess.run(words, check=True, input=given, text=True, stdout=subprocess.DEVNULL)


def name_spaces(n: int) -> list[NetNamespace]:
    mount("tmpfs", "/run", "tmpfs")
    silence_ipv6()
    return [NetNamespace.create(f"rank{i}") for i in range(n)]


def cable(n: int, *, bridge: bool) -> None:
    """Rank i's eth0 is cabled to s<i> here; with `bridge` these are joined."""
    if bridge:
        run(
            "ip",
            "link",
            "add",
            "name",
            "bridge0",
            "mtu",
            str(MTU),
            "up",
            "type",
            "bridge",
            "mcast_snooping",
            "0",
        )
    for i in range(n):
        run(
            "ip", "link", "add", f"s{i}", "mtu", str(MTU), "up", "type", "veth", "peer",
            "name", "eth0", "address", endpoint(i).mac, "mtu", str(MTU), "netns", f"rank{i}",
        )  # fmt: skip
        run("ip", "-n", f"rank{i}", "link", "set", "eth0", "up")
        if bridge:
            run("ip", "link", "set", f"s{i}", "master", "bridge0")


def endpoint(i: int) -> Endpoint:
    return Endpoint(
        i, f"g{i}", f"/run/netns/rank{i}", "eth0", f"02:00:00:00:00:{i + 1:02x}", f"10.0.{i}.1", 4096
    )


def schedule(n: int, size: int, dtype: str = "float32", redop: str = "sum") -> Schedule:
    fabric = RailOnly().build({"domains": 1, "rails": n})
    return RingAllReduce().schedule(fabric, range(n), size, dtype, redop).expand()


def entropies(n: int, paths: int = 1, version: int = 1, rate_bps: float = 50e6) -> EntropyTable:
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    return EntropyTable(
        version,
        np.array([a for a, _ in pairs]),
        np.array([b for _, b in pairs]),
        np.arange(len(pairs) + 1) * paths,
        np.tile(ENTROPY_BASE + np.arange(paths), len(pairs)),
        np.full(len(pairs) * paths, 1 / paths),
        np.full(len(pairs) * paths, rate_bps),
        np.ones(len(pairs) * paths),
        np.zeros(len(pairs) * paths),
    )


class Drive:
    """A transport process under test; `meanwhile` is called about every 5 ms while it is waited for.
    `by_path`: senders count by path."""

    def __init__(self, n: int, path_mtu: int = 1024, *, by_path: bool = False, **options: object) -> None:
        self.n = n
        self.transport = RoceV2().configured(resolve("rocev2", RoceV2.parameters, options))
        if by_path:
            self.transport.count_paths()
        self.transport.start([endpoint(i) for i in range(n)], PacketFormat(path_mtu), LOG)
        self.meanwhile: Callable[[], None] = lambda: None
        self.all: list[Any] = []

    def until(self, *kinds: str, within_s: float = 60.0) -> Any:
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            select.select([self.transport], [], [], 0.005)
            self.meanwhile()
            for event in self.transport.events():
                self.all.append(event)
                if event.kind in kinds:
                    return event
        raise TimeoutError(f"no {kinds} within {within_s} s; {self.all[-3:]}")

    def iterate(self, plan: Schedule, iteration: int, *ends: str) -> Any:
        self.transport.begin("ring-all-reduce", {}, plan, iteration, 7 + iteration)
        return self.until(*(ends or ("finished", "failed", "died")))

    def results(self, plan: Schedule, iterations: int) -> list[dict[str, Any]]:
        found = []
        for i in range(iterations):
            event = self.iterate(plan, i)
            if event.kind != "finished":
                raise RuntimeError(f"{event}")
            found.append(asdict(event.result))
        self.transport.stop()
        return found


# -- scenes ---------------------------------------------------------------------------------------------
def healthy(n: str, size: str, dtype: str, redop: str, paths: str) -> object:
    name_spaces(int(n))
    cable(int(n), bridge=True)
    drive = Drive(int(n))
    drive.until("ready")
    drive.transport.use_entropies(entropies(int(n), int(paths)))
    return drive.results(schedule(int(n), int(size), dtype, redop), 3)


def by_path(paths: str) -> object:
    """What is reported by path, of each pair, with what was sent; the table is given twice."""
    name_spaces(2)
    cable(2, bridge=True)
    drive = Drive(2, by_path=True)
    drive.until("ready")
    for version in (1, 2):
        drive.transport.use_entropies(entropies(2, int(paths), version))
    results = drive.results(schedule(2, 1 << 19), 2)
    counted = [event for event in drive.all if event.kind == "paths"]
    pairs = [(event.src.tolist(), event.dst.tolist(), event.start.tolist()) for event in counted]
    return {
        "sent": [result["packets_sent"] for result in results],
        "versions": [event.version for event in counted],
        "pairs": pairs[-1],
        "counts": sum(event.packets for event in counted if event.packets.size).tolist(),
    }


def lossy(percent: str) -> object:
    """Loss in every direction, dropped on its way out by nftables; on a path of its own each."""
    name_spaces(4)
    cable(4, bridge=True)
    chains = "".join(
        f"chain c{i} {{ type filter hook egress device s{i} priority 0; "
        f"numgen random mod 100 < {percent} drop; }}\n"
        for i in range(4)
    )
    run("nft", "-f", "-", given=f"table netdev loss {{\n{chains}}}\n")
    drive = Drive(4)
    drive.until("ready")
    drive.transport.use_entropies(entropies(4))
    return drive.results(schedule(4, 1 << 20), 2)


class Forwarder:
    """Carries frames between s0 and s1 and harms some: held back, doubled, or with one bit turned."""

    def __init__(self, late: float, double: float, damage: float) -> None:
        self._odds = late, double, damage
        self._random = random.Random(3)
        self._ends = []
        self._held: list[tuple[float, socket.socket, bytes]] = []
        self.damaged = 0
        for i in range(2):
            end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            end.setsockopt(263, 23, 1)  # PACKET_IGNORE_OUTGOING
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            end.bind((f"s{i}", 3))
            end.setblocking(False)
            self._ends.append(end)

    def carry(self) -> None:
        for here, there in (self._ends, self._ends[::-1]):
            for frame in iter(lambda here=here: self._receive(here), b""):
                self._harm(there, frame)
        now = time.monotonic()
        for due, out, frame in self._held:
            if due <= now:
                out.send(frame)
        self._held = [held for held in self._held if held[0] > now]

    @staticmethod
    def _receive(end: socket.socket) -> bytes:
        try:
            return end.recv(MTU + 100)
        except BlockingIOError:
            return b""

    def _harm(self, out: socket.socket, frame: bytes) -> None:
        late, double, damage = self._odds
        roll = self._random.random
        if roll() < damage:
            bit = self._random.randrange(14 * 8, len(frame) * 8)
            frame = frame[: bit // 8] + bytes([frame[bit // 8] ^ 1 << bit % 8]) + frame[bit // 8 + 1 :]
            self.damaged += 1
        for _ in range(2 if roll() < double else 1):
            if roll() < late:
                self._held.append((time.monotonic() + roll() * 0.05, out, frame))
            else:
                out.send(frame)


def harmed(late: str, double: str, damage: str) -> object:
    name_spaces(2)
    cable(2, bridge=False)
    forwarder = Forwarder(float(late), float(double), float(damage))
    drive = Drive(2)
    drive.meanwhile = forwarder.carry
    drive.until("ready")
    drive.transport.use_entropies(entropies(2, paths=2))
    return {"results": drive.results(schedule(2, 1 << 19), 2), "damaged": forwarder.damaged}


def interface_down() -> object:
    """Rank 1's interface goes down in mid-run; later it is up again and the next iteration is right."""
    name_spaces(3)
    cable(3, bridge=True)
    drive = Drive(3, dead_after="1s")
    drive.until("ready")
    drive.transport.use_entropies(entropies(3))
    drive.transport.begin("ring-all-reduce", {}, schedule(3, 8 << 20), 0, 1)
    drive.until("progress")
    run("ip", "-n", "rank1", "link", "set", "eth0", "down")
    failed = drive.until("failed", "finished", "died")
    run("ip", "-n", "rank1", "link", "set", "eth0", "up")
    again = drive.iterate(schedule(3, 1 << 16), 1)
    drive.transport.stop()
    return {"kind": failed.kind, **asdict(failed), "again": again.kind, "wrong": again.result.wrong}


def built_late() -> object:
    """The transport starts when there are namespaces only; it is ready once the cables are there."""
    name_spaces(2)
    drive = Drive(2)
    try:
        drive.until("ready", "died", within_s=1.5)
        early = True
    except TimeoutError:
        early = False
    cable(2, bridge=True)
    drive.until("ready")
    return {"early": early, "results": drive.results(schedule(2, 1 << 12), 1)}


def no_namespace() -> object:
    mount("tmpfs", "/run", "tmpfs")
    drive = Drive(2)
    event = drive.until("died", "ready")
    pid = drive.transport.pid()
    drive.transport.stop()
    return {"kind": event.kind, "why": event.why, "left": Path(f"/proc/{pid}").exists()}


def bad_orders() -> object:
    """A collective that does not exist, then one that does."""
    name_spaces(2)
    cable(2, bridge=True)
    drive = Drive(2)
    drive.until("ready")
    plan = schedule(2, 4096)
    drive.transport.begin("all-to-none", {}, plan, 0, 1)
    failed = drive.until("failed")
    return {"why": failed.why, "results": drive.results(plan, 1)}


def killed_parent() -> object:
    """The process that drives the transport is killed; the transport must not stay."""
    name_spaces(2)
    cable(2, bridge=True)
    reads, writes = os.pipe()
    parent = os.fork()
    if parent == 0:
        drive = Drive(2)
        drive.until("ready")
        drive.transport.begin("ring-all-reduce", {}, schedule(2, 64 << 20), 0, 1)
        os.write(writes, str(drive.transport.pid()).encode())
        signal.pause()
    pid = int(os.read(reads, 20))
    pidfd = os.pidfd_open(pid)
    os.kill(parent, signal.SIGKILL)
    gone = bool(select.select([pidfd], [], [], 5)[0])
    return {"gone": gone}


def captured(path: str) -> object:
    """Two links captured while an iteration runs; the file is opened here and written there."""
    name_spaces(2)
    cable(2, bridge=True)
    drive = Drive(2)
    drive.until("ready")
    with Path(path).open("wb") as file:
        links = [("/proc/self/ns/net", f"s{i}", f"g{i}->switch") for i in range(2)]
        capture = drive.transport.capture(links, file.fileno(), LOG)
        results = drive.results(schedule(2, 1 << 16), 1)
        dropped = capture.stop()
    return {"results": results, "dropped": dropped}


def main() -> None:
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:]), default=np.ndarray.tolist))


if __name__ == "__main__":
    main()
