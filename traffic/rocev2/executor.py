"""Executes schedules over queue pairs: which transfer starts when, and what one pass of the event loop
does."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from railweave.framework.model import Endpoint, EntropyTable, PacketFormat, Schedule
from railweave.framework.model.addressing import ENTROPY_BASE
from railweave.traffic.collectives.arithmetic import redop_of
from railweave.traffic.packets import Addresses
from railweave.traffic.rocev2.batch import Batch
from railweave.traffic.rocev2.budget import Budget
from railweave.traffic.rocev2.buffers import Buffers
from railweave.traffic.rocev2.dependencies import Dependencies
from railweave.traffic.rocev2.headers import Heads
from railweave.traffic.rocev2.messages import Incoming, Outgoing, announcement
from railweave.traffic.rocev2.port import Port
from railweave.traffic.rocev2.receiver import Receiver
from railweave.traffic.rocev2.sender import Sender
from railweave.traffic.rocev2.tuning import SPAN, Tuning

FIRST_QP = 0x100
"""Queue pair numbers are FIRST_QP + src * ranks + dst; 0 and 1 are reserved in InfiniBand."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One direction between two ranks: the queue pair's two halves."""

    src: int
    dst: int
    sender: Sender
    receiver: Receiver
    back: Addresses


class Progress:
    """How far an iteration has come. Times are those of the caller's clock."""

    def __init__(self, schedule: Schedule, now: float) -> None:
        self.total = schedule.n_transfers
        self.done = 0
        self.started_at = self.last_at = now
        self.phase_ends = [now] * len(schedule.phase_names)
        self.phase_of: list[int] = schedule.phase.tolist()

    def landed(self, transfer: int, now: float) -> None:
        self.done += 1
        self.last_at = now
        phase = self.phase_of[transfer]
        if phase < len(self.phase_ends):
            self.phase_ends[phase] = now

    def ended(self, now: float) -> None:
        """Give what landed last the time at the end of its pass: landings are stamped with the beginning of
        theirs."""
        if self.done:
            self.phase_ends = [now if end == self.last_at else end for end in self.phase_ends]
            self.last_at = now

    @property
    def complete(self) -> bool:
        return self.done == self.total

    @property
    def phase_seconds(self) -> tuple[float, ...]:
        """From the end of the phase before each one (or the start) to the landing of its last transfer."""
        ends = np.maximum.accumulate([self.started_at, *self.phase_ends])
        return tuple(float(s) for s in np.diff(ends))


class Executor:
    """All ranks of a run. Reads no clock, never waits, and makes system calls through its ports only."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        ports: Sequence[Port],
        dirty: list[Batch],
        tuning: Tuning,
        packet: PacketFormat,
    ) -> None:
        self.endpoints = endpoints
        self.ports = ports
        self.pairs: dict[tuple[int, int], Pair] = {}
        self.progress: Progress | None = None
        self._dirty = dirty
        self._tuning = tuning
        self._packet = packet
        self._budget = Budget.of_bytes(tuning.send_budget_bytes, packet.full_packet_bytes)
        self._owing: list[Receiver] = []
        self._pending: list[Sender] = []
        self._busy: dict[Sender, None] = {}
        self._rank_of = {endpoint.gpu: rank for rank, endpoint in enumerate(endpoints)}
        self._entropies: dict[tuple[int, int], tuple[list[int], list[float], list[float], list[float]]] = {}
        self._now = 0.0

    @property
    def dead_after(self) -> float:
        return self._tuning.dead_after

    # -- pairs -----------------------------------------------------------------------------------------
    def pair(self, src: int, dst: int) -> Pair:
        """The queue pair from rank `src` to rank `dst`, created at its first use."""
        pair = self.pairs.get((src, dst))
        return pair if pair is not None else self._connect(src, dst)

    def _connect(self, src: int, dst: int) -> Pair:
        a, b = self.endpoints[src], self.endpoints[dst]
        qp = FIRST_QP + src * len(self.endpoints) + dst
        forward, back = (Addresses(x.mac, y.mac, x.ip, y.ip, qp) for x, y in ((a, b), (b, a)))
        near, far = self.ports[src], self.ports[dst]
        sender = Sender(forward, near.batch, self._tuning, self._packet, self._budget, self._pending)
        receiver = Receiver(far.batch, self._packet.path_mtu, self._landed, self._owing)
        pair = self.pairs[src, dst] = Pair(src, dst, sender, receiver, back)
        near.senders[qp], far.receivers[qp] = sender, receiver
        self._route(pair)
        return pair

    def _route(self, pair: Pair) -> None:
        unknown = ([ENTROPY_BASE], [0.0], [1.0], [0.0])
        pair.sender.use_paths(*self._entropies.get((pair.src, pair.dst), unknown), self._now)
        return_udp_src, *_ = self._entropies.get((pair.dst, pair.src), unknown)
        pair.receiver.use_path(Heads(pair.back, return_udp_src[0]))

    def use_entropies(self, table: EntropyTable, now: float) -> None:
        """Send over the table's paths from now on. A pair without paths in it keeps those it has."""
        self._now = now
        starts = table.start.tolist()
        columns = (
            table.udp_src.tolist(),
            table.rate_bps.tolist(),
            table.depth.tolist(),
            table.latency_s.tolist(),
        )
        for i, (src, dst) in enumerate(zip(table.src.tolist(), table.dst.tolist(), strict=True)):
            low, high = starts[i], starts[i + 1]
            if high > low and src in self._rank_of and dst in self._rank_of:
                udp_src, rates, depths, latencies = (column[low:high] for column in columns)
                self._entropies[self._rank_of[src], self._rank_of[dst]] = (udp_src, rates, depths, latencies)
        for pair in self.pairs.values():
            self._route(pair)

    # -- iterations ------------------------------------------------------------------------------------
    def prepare(self, schedule: Schedule, buffers: Buffers) -> None:
        """Offer every pair its messages of the next iteration. All pairs must be drained or abandoned."""
        self._dependencies = Dependencies(schedule)
        self._combine = redop_of(schedule.redop)
        self._outgoing: list[tuple[Sender, Outgoing]] = []
        self._offer(schedule, buffers)
        self._schedule = schedule

    def begin(self, now: float) -> None:
        """Start the prepared iteration: send its first messages."""
        self._now = now
        self.progress = Progress(self._schedule, now)
        for transfer in self._dependencies.ready:
            self._start(transfer)
        self._settle(now)

    def _offer(self, schedule: Schedule, buffers: Buffers) -> None:
        mtu = self._packet.path_mtu
        offers: dict[tuple[int, int], tuple[list[Outgoing], list[Incoming]]] = {}
        numbers: dict[tuple[int, int], int] = {}
        columns = (
            schedule.src,
            schedule.dst,
            schedule.src_buffer,
            schedule.src_offset,
            schedule.dst_buffer,
            schedule.dst_offset,
            schedule.size,
            schedule.reduce,
        )
        for transfer, (src, dst, src_buffer, src_at, dst_buffer, dst_at, size, reduce) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            ends = src, dst
            pair = self.pair(src, dst)
            first = numbers.get(ends, pair.sender.next)
            remote = announcement(dst_buffer, dst_at, size)
            view, address = buffers.view(src, src_buffer, src_at, size)
            outgoing = Outgoing(transfer, first, mtu, view, address, remote)
            incoming = Incoming(
                transfer,
                first,
                mtu,
                buffers.slice(dst, dst_buffer, dst_at, size),
                reduce=bool(reduce),
                remote=remote,
            )
            numbers[ends] = first + outgoing.packets
            to_send, to_receive = offers.setdefault(ends, ([], []))
            to_send.append(outgoing)
            to_receive.append(incoming)
            self._outgoing.append((pair.sender, outgoing))
        for ends, pair in self.pairs.items():
            to_send, to_receive = offers.get(ends, ([], []))
            pair.sender.offer(to_send)
            pair.receiver.offer(to_receive)

    def _start(self, transfer: int) -> None:
        sender, outgoing = self._outgoing[transfer]
        outgoing.ready = True
        if sender.waiting_for is outgoing and not sender.queued:
            sender.queued = True
            self._pending.append(sender)

    def _landed(self, message: Incoming) -> None:
        if message.reduce and message.size:
            held = message.destination
            staged = np.frombuffer(message.open(), held.dtype)
            self._combine(held, staged, out=held)
        message.target = None
        assert self.progress is not None
        self.progress.landed(message.transfer, self._now)
        for freed in self._dependencies.complete(message.transfer):
            self._start(freed)

    @property
    def drained(self) -> bool:
        """Whether every packet sent is acknowledged."""
        return all(pair.sender.idle for pair in self.pairs.values())

    def abandon(self) -> None:
        """Give the iteration up. Packet numbers continue far ahead, so that packets in flight count as
        old."""
        self.progress = None
        for pair in self.pairs.values():
            number = pair.sender.next + 4 * SPAN
            pair.sender.reset(number)
            pair.receiver.reset(number)
        whole = Budget.of_bytes(self._tuning.send_budget_bytes, self._packet.full_packet_bytes)
        self._budget.left, self._budget.waiting = whole.left, []

    # -- passes of the event loop ----------------------------------------------------------------------
    def step(self, ready: Iterable[Port], now: float) -> None:
        """Take what arrived at the ready ports, and send what that allows."""
        self._now = now
        for port in ready:
            port.receive(now)
        self._settle(now)

    def tick(self, now: float) -> None:
        """Act on the time that has passed: find losses that only silence reveals."""
        self._now = now
        for sender in list(self._busy):
            if sender.idle:
                del self._busy[sender]
            else:
                sender.check(now)
        self._settle(now)

    def _settle(self, now: float) -> None:
        owing, pending, dirty, budget = self._owing, self._pending, self._dirty, self._budget
        while owing or pending:
            for receiver in owing:
                receiver.acknowledge()
            owing.clear()
            for sender in pending:
                sender.queued = False
                sender.pump(now)
                self._busy[sender] = None
            pending.clear()
            if budget.waiting and budget.left > 0:
                pending += dict.fromkeys(budget.waiting)
                budget.waiting = []
        for batch in dirty:
            batch.flush()
        dirty.clear()

    def stuck(self, now: float) -> list[Pair]:
        """If a pair was silent for too long with packets in flight: all pairs silent for half as long; else
        none."""
        silent_pairs: list[Pair] = []
        given_up = False
        for pair in self.pairs.values():
            if pair.sender.idle:
                continue
            silent_s = now - pair.sender.progress_at
            limit_s = pair.sender.timing.give_up_after(self._tuning.dead_after)
            given_up |= silent_s >= limit_s
            if silent_s >= limit_s / 2:
                silent_pairs.append(pair)
        return silent_pairs if given_up else []
