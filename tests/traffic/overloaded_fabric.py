"""A fabric in memory whose switches are one processor, as those of a lab are when nothing shapes its links.

A packet costs the processor the same at every hop of its path. It takes up to `BATCH` packets from a port,
then from the next one; what finds the queue of a port full is lost, after all the work at the hops before.
The transport is one process, too, as `Service.serve` has it: while it handles packets, others wait in its
receive rings.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

from railweave.traffic.rocev2.port import Port
from tests.traffic.memory_fabric import TICK_S, MemoryFabric

BATCH = 32

Place = tuple[int, int, int]
"""Source and destination rank, and the hop of their path."""


class OverloadedFabric(MemoryFabric):
    """`hops_s`: packets that all switches together take from ports in a second; `room`: what a port holds.
    `hops(src, dst)`: switches on the path of a pair. `cost_s`: of a packet that the transport sends or
    receives. `dropped`: packets lost so far."""

    def __init__(
        self,
        n: int,
        *,
        hops_s: float,
        room: int,
        hops: Callable[[int, int], int],
        cost_s: float,
        **keywords: Any,
    ) -> None:
        super().__init__(n, **keywords)
        self._hop_s, self._room, self._hops, self._cost_s = 1 / hops_s, room, hops, cost_s
        self._queues: dict[Place, deque[bytes]] = {}
        self._turns: deque[Place] = deque()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._counter = itertools.count()
        self._ready: dict[int, None] = {}
        self._switching, self._busy_s = False, 0.0
        self.dropped = 0

    # -- switches --------------------------------------------------------------------------------------
    def _carry(self, src: int, frame: bytes) -> None:
        self._busy_s += self._cost_s
        place = src, self.rank_of[frame[:6]], 0
        self._at(self.now + self._busy_s, lambda: self._enqueue(place, frame))

    def _at(self, when_s: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when_s, next(self._counter), do))

    def _enqueue(self, place: Place, frame: bytes) -> None:
        queue = self._queues.setdefault(place, deque())
        if len(queue) >= self._room:
            self.dropped += 1
            return
        queue.append(frame)
        if len(queue) == 1:
            self._turns.append(place)
        if not self._switching:
            self._switch()

    def _switch(self) -> None:
        """Begin the turn of the next port, if one has packets."""
        self._switching = bool(self._turns)
        if self._switching:
            place = self._turns.popleft()
            queue = self._queues[place]
            taken = [queue.popleft() for _ in range(min(BATCH, len(queue)))]
            if queue:
                self._turns.append(place)
            self._at(self.now + len(taken) * self._hop_s, lambda: self._switched(place, taken))

    def _switched(self, place: Place, taken: list[bytes]) -> None:
        src, dst, hop = place
        for frame in taken:
            if hop + 1 < self._hops(src, dst):
                self._enqueue((src, dst, hop + 1), frame)
            else:
                before = self._writes_at[dst]
                self._deliver(dst, frame)
                self.dropped += self._writes_at[dst] == before
                self._ready[dst] = None
        self._switch()

    # -- the transport's process -----------------------------------------------------------------------
    def advance(self, done: Callable[[], bool]) -> None:
        next_tick = self.now
        self._flush()
        while not done():
            while (
                not self._ready and not self.executor.pending and self._due and self._due[0][0] <= next_tick
            ):
                self._pass(self._due[0][0])
            if not self._ready and not self.executor.pending:
                self._pass(max(next_tick, self.now))
            polled_at, ready = self.now, [self.ports[rank] for rank in self._ready]
            self._ready.clear()
            if ready or self.executor.pending:
                self._busy_s = sum(map(self._unread, ready)) * self._cost_s
                self.executor.step(ready, polled_at)
                self._flush()
            if self.now >= next_tick:
                self.executor.tick(polled_at)
                next_tick = self.now + TICK_S
                self._flush()

    def _flush(self) -> None:
        """Let the time pass that the transport was busy."""
        self._pass(self.now + self._busy_s)
        self._busy_s = 0.0

    def _pass(self, until_s: float) -> None:
        while self._due and self._due[0][0] <= until_s:
            self.now, _, do = heapq.heappop(self._due)
            do()
        self.now = until_s

    @staticmethod
    def _unread(port: Port) -> int:
        return sum(1 for slot in port.ring.slots if port.ring.words[slot >> 2])
