"""Flows over one port, to check congestion controls: every packet, in plain Python."""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Any

from railweave.framework.experiment.control_calls import ControlFunctions, out_of_bounds
from railweave.framework.hookspecs import CongestionControl
from railweave.framework.hookspecs.congestion import NEVER, OVERTAKEN
from railweave.framework.kit.check_report import Broken

PICOSECONDS = 1e12
"""In a second."""
BEGIN, SEND, ACKNOWLEDGE, NOTIFY, LOSE, WAKE = range(6)
"""What happens at a time."""


@dataclass(frozen=True, slots=True)
class SharedPort:
    """Where all flows meet, and the way there and back: the rate of every line (bytes/s), the round trip of a
    packet and its answer on idle links (ps), wire bytes of a packet, room (bytes), and the ramp of marks at
    enqueue: none up to a queue of `kmin` bytes, `pmax` of all just below `kmax`, all from there on."""

    line: float = 12.5e9
    base_rtt: int = 8_000_000
    mtu: int = 4160
    room: float = float("inf")
    kmin: float = 25e3
    kmax: float = 100e3
    pmax: float = 0.1

    @property
    def packet_ps(self) -> float:
        return self.mtu / self.line * PICOSECONDS

    def marks(self, queue: float, draw: float) -> bool:
        """Whether a packet that finds this queue is marked; `draw`: 0..1."""
        if queue >= self.kmax:
            return True
        return queue > self.kmin and draw * (self.kmax - self.kmin) < self.pmax * (queue - self.kmin)


@dataclass(slots=True)
class GreedyFlow:
    """A flow that always has something to send, from `begins` on."""

    number: int
    s: Any
    r: Any
    in_flight: int = 0
    sent_at: float = float("-inf")
    sends_at: int = NEVER
    wakes_at: int = NEVER
    arrived: int = 0


@dataclass(slots=True)
class Carried:
    """What happened between two times: bytes of each flow that arrived, mean queue in bytes, share of the
    time that the port was busy, mean delay from sending to the acknowledgement, marked packets, lost
    ones."""

    arrived: list[int] = field(default_factory=list)
    queue: float = 0.0
    busy: float = 0.0
    delay: float = 0.0
    packets: int = 0
    marked: int = 0
    lost: int = 0


class PortRun:
    """A run of flows over one port. Raises Broken for a control whose window, rate or wake is out of its
    bounds."""

    def __init__(
        self,
        control: CongestionControl,
        port: SharedPort,
        begins: list[int],
        functions: ControlFunctions | None = None,
    ) -> None:
        self.port, self.now, self.seen = port, 0, Carried()
        self._calls, self._least = functions or ControlFunctions.of(control), control.least_rate * port.line
        self._draws, self._heap = Random(1), list[tuple[int, int, int, int, int, bool]]()
        self._order, self._busy_until, self._packet_ps = 0, 0.0, port.packet_ps
        self.flows = []
        for number, at in enumerate(begins):
            far = control.receiver_record()
            flow = GreedyFlow(number, control.sender_record()[0], None if far is None else far[0])
            self.flows.append(flow)
            self._at(at, BEGIN, flow)

    def run(self, until: int, since: int = 0) -> Carried:
        """Carry on up to the time `until`; what happened from `since` on."""
        before, heap = [flow.arrived for flow in self.flows], self._heap
        seen = self.seen = Carried()
        measured = self.now >= since
        while heap and heap[0][0] <= until:
            self.now, _, what, number, sent_at, marked = heappop(heap)
            if not measured and self.now >= since:
                measured, before, seen = True, [flow.arrived for flow in self.flows], Carried()
                self.seen = seen
            self._happen(what, self.flows[number], sent_at, marked)
        self.now = until
        lasts = until - since
        seen.arrived = [flow.arrived - was for flow, was in zip(self.flows, before, strict=True)]
        seen.queue, seen.busy = seen.queue / lasts, seen.busy / lasts
        seen.delay /= max(seen.packets, 1)
        return seen

    def _at(self, when: float, what: int, flow: GreedyFlow, sent_at: int = 0, marked: bool = False) -> None:
        self._order += 1
        heappush(self._heap, (int(when), self._order, what, flow.number, sent_at, marked))

    def _happen(self, what: int, flow: GreedyFlow, sent_at: int, marked: bool) -> None:
        calls, now, size = self._calls, self.now, self.port.mtu
        if what == BEGIN:
            self._call(flow, calls.start, now, self.port.line, self.port.base_rtt, 2, size)
        elif what == SEND:
            if now != flow.sends_at:
                return  # the rate has grown since, and what was to leave now has left
            flow.sends_at = NEVER
        elif what == ACKNOWLEDGE:
            flow.in_flight -= size
            flow.arrived += size
            self.seen.delay += now - sent_at
            self.seen.packets += 1
            self._call(flow, calls.acknowledged, now, size, size * marked, now - sent_at, flow.in_flight)
        elif what == NOTIFY:
            self._call(flow, calls.notified, now)
        elif what == LOSE:
            flow.in_flight -= size
            self._call(flow, calls.lost, now, size, OVERTAKEN)
        elif flow.wakes_at == now:
            flow.wakes_at = NEVER
            self._call(flow)
        self._send(flow)

    def _send(self, flow: GreedyFlow) -> None:
        """Send what window and rate allow now, and come back when the rate allows the next one."""
        size, s = self.port.mtu, flow.s
        while flow.in_flight == 0 or flow.in_flight + size <= s["window"]:
            due = flow.sent_at + size / s["rate"] * PICOSECONDS
            if due > self.now + 1:
                if due + 1 < flow.sends_at:
                    flow.sends_at = int(due + 1)
                    self._at(flow.sends_at, SEND, flow)
                return
            flow.sent_at = max(due, self.now)
            flow.in_flight += size
            self._enqueue(flow)
            self._call(flow, self._calls.sent, self.now, size)

    def _enqueue(self, flow: GreedyFlow) -> None:
        """A packet reaches the port at once; the round trip lies behind it."""
        port, now, seen = self.port, self.now, self.seen
        waits = max(self._busy_until - now, 0.0)
        queue = waits / PICOSECONDS * port.line
        if queue + port.mtu > port.room:
            seen.lost += 1
            self._at(now + waits + port.base_rtt, LOSE, flow, now)
            return
        marked = port.marks(queue, self._draws.random())
        seen.marked += marked
        seen.busy += self._packet_ps
        seen.queue += port.mtu * (waits + self._packet_ps)
        self._busy_until = now + waits + self._packet_ps
        answered = self._busy_until - self._packet_ps + port.base_rtt
        if flow.r is not None and self._calls.received(flow.r, int(self._busy_until), port.mtu, marked):
            self._at(answered, NOTIFY, flow)
        self._at(answered, ACKNOWLEDGE, flow, now, marked)

    def _call(self, flow: GreedyFlow, function: Callable[..., Any] | None = None, *arguments: Any) -> None:
        """Call, and `woke` where its time has come; then see to bounds and the next wake."""
        s = flow.s
        if function is not None:
            function(s, *arguments)
        if s["wake"] <= self.now:
            self._calls.woke(s, self.now)
        if why := out_of_bounds(s, self.now, self._least, self.port.line):
            raise Broken(why)
        self.watch(flow)

    def watch(self, flow: GreedyFlow) -> None:
        """Wake a flow in time, as its record says now."""
        if flow.s["wake"] < flow.wakes_at:
            flow.wakes_at = int(flow.s["wake"])
            self._at(flow.wakes_at, WAKE, flow)
