"""A fabric in memory for the transport's executor: virtual time, and whatever harm a test asks for.

The executor, its ports, rings and batches are the real ones; only sendmmsg and the kernel's side of the
receive ring are replaced. Every ordered pair of ranks has a link of its own per UDP source port, first in,
first out.
"""

from __future__ import annotations

import ctypes
import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from railweave.framework.experiment.plugin_calls import CheckedData
from railweave.framework.hookspecs import Collective
from railweave.framework.model import Endpoint, PacketFormat, Schedule
from railweave.traffic.rocev2.batch import Batch
from railweave.traffic.rocev2.buffers import RankBuffers
from railweave.traffic.rocev2.choice import Choosing
from railweave.traffic.rocev2.control import Controlling
from railweave.traffic.rocev2.executor import Executor
from railweave.traffic.rocev2.port import Port
from railweave.traffic.rocev2.sockets import ReceiveRing, RingShape
from railweave.traffic.rocev2.tuning import Tuning

TICK_S = 0.005
FRAME_AT = 66
RATE_BPS = 4e6


def count_wrong(collective: Collective, buffers: RankBuffers, inputs: Sequence[NDArray[Any]]) -> int:
    """Elements of all ranks that are not what the collective's arithmetic says; some must have been
    compared."""
    compared, wrong = buffers.compare(CheckedData("mine", collective, buffers.schedule).results(inputs))
    assert compared or not buffers.schedule.size.any()
    return wrong


def packets_of(batch: Batch, first: int, count: int) -> list[bytes]:
    """The bytes of packets that a batch hands to its `Send`."""
    words, frames = batch._words, []
    for slot in range(first, first + count):
        pieces = [(words[i], words[i + 1]) for i in range(slot * 6, slot * 6 + 6, 2)]
        frames.append(b"".join(ctypes.string_at(base, length) for base, length in pieces if length))
    return frames


@dataclass
class Harm:
    """Probabilities per packet of being lost, doubled, damaged in one bit, and held back for up to
    `late_s`."""

    loss: float = 0.0
    double: float = 0.0
    damage: float = 0.0
    late: float = 0.0
    late_s: float = 0.05


def endpoints(n: int, mtu: int) -> list[Endpoint]:
    return [
        Endpoint(i, f"g{i}", "", f"h{i}", f"02:00:00:00:00:{i:02x}", f"10.0.{i}.1", mtu) for i in range(n)
    ]


class MemoryFabric:
    """`alive(src, dst, udp_src)` says whether a link carries packets; the default is always. `queue`: in
    which one its packets wait, by default its own. `marks(src, dst, udp_src, waits_s)`: whether a packet that
    will wait so long is marked; the default is never."""

    def __init__(
        self,
        n: int,
        *,
        mtu: int = 256,
        tuning: Tuning | None = None,
        harm: Harm | None = None,
        seed: int = 0,
        latency_s: float = 0.001,
        slots: int = 64,
        job: tuple[int, int] = (0, 1),
        choosing: Choosing | None = None,
        controlling: Controlling | None = None,
    ) -> None:
        self.packet = PacketFormat(mtu)
        self.harm = harm or Harm()
        self.now = 0.0
        self.rate_bps: Callable[[int, int, int], float] = lambda src, dst, udp_src: RATE_BPS
        self.alive: Callable[[int, int, int], bool] = lambda src, dst, udp_src: True
        self.queue: Callable[[int, int, int], object] = lambda *link: link
        self.marks: Callable[[int, int, int, float], bool] = lambda *_: False
        self.seen: list[tuple[float, int, int, bytes]] = []
        self._latency_s = latency_s
        self._random = random.Random(seed)
        self._order = itertools.count()
        self._events: list[tuple[float, int, int, bytes]] = []
        self._free_at: dict[object, float] = {}
        shape = RingShape(self.packet.full_packet_bytes + self.packet.RETH, slots, block_bytes=1 << 13)
        dirty: list[Batch] = []
        ends = endpoints(n, mtu)
        self.rank_of = {bytes.fromhex(e.mac.replace(":", "")): i for i, e in enumerate(ends)}
        self._writes_at = [0] * n
        self.ports = [
            Port(ReceiveRing(bytearray(shape.total_bytes), shape), Batch(self._send_from(i), dirty))
            for i in range(n)
        ]
        self.executor = Executor(
            ends, self.ports, dirty, tuning or Tuning(), self.packet, job, choosing, controlling
        )

    def _send_from(self, rank: int) -> Callable[[Batch, int, int], int]:
        def send(batch: Batch, first: int, count: int) -> int:
            for frame in packets_of(batch, first, count):
                self._carry(rank, frame)
            return count

        return send

    def _carry(self, src: int, frame: bytes) -> None:
        dst = self.rank_of[frame[0:6]]
        udp_src = int.from_bytes(frame[34:36], "big")
        self.seen.append((self.now, src, dst, frame))
        link = src, dst, udp_src
        queue = self.queue(*link)
        begins = max(self.now, self._free_at.get(queue, 0.0))
        leaves = begins + len(frame) * 8 / self.rate_bps(*link)
        self._free_at[queue] = leaves
        roll, harm = self._random.random, self.harm
        if not self.alive(*link) or roll() < harm.loss:
            return
        if self.marks(*link, begins - self.now):
            frame = frame[:15] + bytes([frame[15] | 3]) + frame[16:]
        for _ in range(2 if roll() < harm.double else 1):
            late = roll() * harm.late_s if roll() < harm.late else 0.0
            if roll() < harm.damage:
                bit = self._random.randrange(len(frame) * 8)
                frame = frame[: bit // 8] + bytes([frame[bit // 8] ^ 1 << bit % 8]) + frame[bit // 8 + 1 :]
            heapq.heappush(self._events, (leaves + self._latency_s + late, next(self._order), dst, frame))

    def _deliver(self, rank: int, frame: bytes) -> None:
        """What tpacket_rcv does; a full ring drops."""
        ring = self.ports[rank].ring
        slot = ring.slots[self._writes_at[rank]]
        if ring.words[slot >> 2]:
            return
        ring.bytes[slot + FRAME_AT : slot + FRAME_AT + len(frame)] = frame
        ring.halves[(slot >> 1) + 6] = FRAME_AT
        ring.words[(slot >> 2) + 2] = len(frame)
        ring.words[slot >> 2] = 1
        self._writes_at[rank] = (self._writes_at[rank] + 1) % len(ring.slots)

    def run(self, schedule: Schedule, buffers: RankBuffers, within_s: float = 600.0) -> float:
        """Carry out one iteration and drain; its virtual seconds until the last transfer landed.

        Raises TimeoutError after `within_s` of virtual time.
        """
        self.executor.prepare(schedule, buffers)
        self.executor.begin(self.now)
        progress = self.executor.progress
        end = self.now + within_s
        self.advance(lambda: self.now >= end or (progress.complete and self.executor.drained))
        if not progress.complete:
            raise TimeoutError(f"{progress.done} of {progress.total} transfers after {within_s} s")
        return progress.last_at - progress.started_at

    def advance(self, done: Callable[[], bool]) -> None:
        """Let virtual time pass until `done`."""
        next_tick = self.now + TICK_S
        while not done():
            if self.executor.pending:
                self.executor.step([], self.now)
            elif self._due_before(next_tick):
                self.now = max(self.now, self.executor.next_due or 0.0)
                self.executor.step([], self.now)
            elif self._events and self._events[0][0] <= next_tick:
                self.now = self._events[0][0]
                ready = set()
                while self._events and self._events[0][0] <= self.now:
                    _, _, rank, frame = heapq.heappop(self._events)
                    self._deliver(rank, frame)
                    ready.add(rank)
                self.executor.step([self.ports[rank] for rank in sorted(ready)], self.now)
            else:
                self.now = next_tick
                next_tick += TICK_S
                self.executor.tick(self.now)

    def _due_before(self, next_tick: float) -> bool:
        """Whether a pair that its rate holds back is due before anything else happens."""
        due_s = self.executor.next_due
        return due_s is not None and due_s <= min([next_tick, *(event[0] for event in self._events[:1])])
