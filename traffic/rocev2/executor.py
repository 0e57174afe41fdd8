"""Executes schedules over queue pairs: which transfer starts when, and what one pass of the event loop
does."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import TransportError
from railweave.framework.model import Endpoint, EntropyTable, PacketFormat, Schedule
from railweave.framework.model.addressing import ENTROPY_BASE
from railweave.framework.model.events import PathsCounted
from railweave.traffic.collectives.arithmetic import REDOPS
from railweave.traffic.packets import Addresses, reth
from railweave.traffic.rocev2.batch import SLOTS, Batch
from railweave.traffic.rocev2.buffers import RankBuffers
from railweave.traffic.rocev2.choice import PICOSECONDS, Choosing
from railweave.traffic.rocev2.control import Controlling
from railweave.traffic.rocev2.headers import Heads
from railweave.traffic.rocev2.messages import Message
from railweave.traffic.rocev2.port import Port
from railweave.traffic.rocev2.progress import TransferProgress
from railweave.traffic.rocev2.receiver import Receiver
from railweave.traffic.rocev2.sender import Budget, Sender
from railweave.traffic.rocev2.sockets import RING_SLOTS
from railweave.traffic.rocev2.tuning import SPAN, TIMEOUTS, Tuning

FIRST_QP = 0x100
"""Queue pair numbers are FIRST_QP + (src * ranks + dst) * jobs + job, so that those of two jobs differ; 0 and
1 are reserved in InfiniBand."""
MOST_QP = 0xFFFFFF
"""A queue pair number has 24 bits."""
PASS_PACKETS = RING_SLOTS
"""Packets after which one pass of the event loop sends no more: about as many arrive meanwhile, and all of
them may do so at one rank."""
_UNKNOWN: list[list[Any]] = [[ENTROPY_BASE], [1.0], [0.0], [1.0], [0.0]]
"""The path of a pair that no table names: entropy, rate, depth and latency."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One direction between two ranks: the queue pair's two halves."""

    src: int
    dst: int
    sender: Sender
    receiver: Receiver
    back: Addresses

    @property
    def longest_way_s(self) -> float:
        """The longest round trip, or what the last packet that arrived in order had taken, if that is more
        and no answer to it came."""
        last = self.sender.outstanding.get(self.receiver.expected - 1)
        way_s = 0.0 if last is None else self.receiver.advanced_at - last[0]
        return max(self.sender.timing.longest, way_s)


class Executor:
    """All ranks of a job. Reads no clock, never waits, and makes system calls through its ports only. `job`:
    its number and that of all jobs, whose packets are not for it. `choosing`: of paths; None for in turn.
    `controlling`: of rates and windows; None for the windows that links allow.

    `progress`: of the iteration prepared last; there is none before the first.
    """

    progress: TransferProgress

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        ports: Sequence[Port],
        dirty: list[Batch],
        tuning: Tuning,
        packet: PacketFormat,
        job: tuple[int, int] = (0, 1),
        choosing: Choosing | None = None,
        controlling: Controlling | None = None,
    ) -> None:
        self._job, self._choosing, self._controlling, self._rate_scale = job, choosing, controlling, 1.0
        if (last := FIRST_QP + len(endpoints) ** 2 * job[1]) > MOST_QP:
            raise TransportError(
                f"{len(endpoints)} ranks in each of {job[1]} jobs need queue pair numbers up to {last}, and "
                f"the last is {MOST_QP}. Take fewer ranks or jobs."
            )
        self.endpoints = endpoints
        self.ports = ports
        self.tuning = tuning
        self.pairs: dict[tuple[int, int], Pair] = {}
        self._dirty = dirty
        self._packet = packet
        self._budget = Budget(tuning.send_budget_bytes, packet.full_packet_bytes)
        self._owing: dict[Receiver, None] = {}
        self._pending: dict[Sender, None] = {}
        self._paced: dict[Sender, float] = {}
        self._busy: dict[Sender, None] = {}
        self._rank_of = {endpoint.gpu: rank for rank, endpoint in enumerate(endpoints)}
        self._paths: dict[tuple[int, int], list[list[Any]]] = {}
        self._now, self._version = 0.0, 0

    # -- pairs -----------------------------------------------------------------------------------------
    def pair(self, src: int, dst: int) -> Pair:
        """The queue pair from rank `src` to rank `dst`, created at its first use."""
        if (pair := self.pairs.get((src, dst))) is not None:
            return pair
        a, b = self.endpoints[src], self.endpoints[dst]
        number, jobs = self._job
        qp = FIRST_QP + (src * len(self.endpoints) + dst) * jobs + number
        forward, back = (Addresses(x.mac, y.mac, x.ip, y.ip, qp) for x, y in ((a, b), (b, a)))
        near, far = self.ports[src], self.ports[dst]
        choice = self._choosing.of_pair(src, dst) if self._choosing else None
        control = self._controlling.of_pair() if self._controlling else None
        notifier = self._controlling.of_receiver() if self._controlling else None
        sender = Sender(
            forward, near.batch, self.tuning, self._packet, self._budget, self._pending, choice,
            control, self._paced,
        )  # fmt: skip
        receiver = Receiver(far.batch, self._packet.path_mtu, self._landed, self._owing, notifier)
        pair = self.pairs[src, dst] = Pair(src, dst, sender, receiver, back)
        near.halves[qp, True], far.halves[qp, False] = sender, receiver
        self._route(pair)
        return pair

    def _route(self, pair: Pair) -> None:
        clock = PICOSECONDS * self._rate_scale
        for clocked in (pair.sender.choice, pair.receiver.notifier):
            if clocked is not None:
                clocked.clock = clock
        udp_src, *of_paths = self._paths.get((pair.src, pair.dst), _UNKNOWN)
        weights, rates_bps, depths, latencies_s = of_paths
        pair.sender.use_paths(self._now, udp_src, weights, rates_bps, depths, latencies_s, clock)
        return_udp_src, *_ = self._paths.get((pair.dst, pair.src), _UNKNOWN)
        pair.receiver.heads = Heads(pair.back, return_udp_src[0])

    def use_entropies(self, table: EntropyTable, now: float) -> None:
        """Send over the table's paths from now on. A pair without paths in it keeps those it has."""
        self._now, self._rate_scale, self._version = now, table.rate_scale, table.version
        ranks = self._rank_of
        pairs = zip(table.src.tolist(), table.dst.tolist(), strict=True)
        arrays = table.udp_src, table.weight, table.rate_bps, table.depth, table.latency_s
        columns = [column.tolist() for column in arrays]
        for (src, dst), (low, high) in zip(pairs, pairwise(table.start.tolist()), strict=True):
            if high > low and src in ranks and dst in ranks:
                self._paths[ranks[src], ranks[dst]] = [column[low:high] for column in columns]
        for pair in self.pairs.values():
            self._route(pair)

    def retry(self, now: float) -> None:
        """Links that were down are up again."""
        for pair in self.pairs.values():
            pair.sender.retry(now)

    def counts(self) -> dict[str, int]:
        """What all pairs have counted until now, by the names in IterationResult: data packets and their wire
        bytes, first transmissions and retransmissions; without acknowledgements, except for `wrong_icrc`."""
        pairs = self.pairs.values()
        return {
            "packets_sent": sum(pair.sender.transmissions for pair in pairs),
            "retransmitted": sum(pair.sender.retransmitted for pair in pairs),
            "marked": sum(pair.sender.marked for pair in pairs),
            "cnps": sum(pair.sender.cnps for pair in pairs),
            "duplicates": sum(pair.receiver.duplicates for pair in pairs),
            "out_of_order": sum(pair.receiver.out_of_order for pair in pairs),
            "bytes_sent": sum(pair.sender.wire_bytes for pair in pairs),
            "wrong_icrc": sum(port.bad_icrc for port in self.ports),
        }

    def path_counts(self) -> PathsCounted:
        """What senders have learnt since the last call of the packets of each path."""
        pairs = [pair for pair in self.pairs.values() if (pair.src, pair.dst) in self._paths]
        counts = [pair.sender.counted() for pair in pairs]
        src, dst = ([self.endpoints[rank].gpu for rank in ranks]
                    for ranks in ([pair.src for pair in pairs], [pair.dst for pair in pairs]))  # fmt: skip
        every = np.array([path for paths in counts for path in paths], np.float64).reshape(-1, 3)
        starts = np.cumsum([0, *map(len, counts)])
        return PathsCounted(self._version, np.array(src), np.array(dst), starts, every.T)

    # -- iterations ------------------------------------------------------------------------------------
    def prepare(self, schedule: Schedule, buffers: RankBuffers) -> None:
        """Offer every pair its messages of the next iteration. All pairs must be drained or abandoned."""
        self.progress = TransferProgress(schedule)
        self._combine = REDOPS[schedule.redop]
        self._messages: dict[int, tuple[Sender, Message]] = {}
        self._local: dict[int, tuple[NDArray[Any], NDArray[Any], bool]] = {}
        mtu = self._packet.path_mtu
        offers: dict[tuple[int, int], list[Message]] = defaultdict(list)
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
            destination = buffers.slice(dst, dst_buffer, dst_at, size)
            if src == dst:
                source = buffers.slice(src, src_buffer, src_at, size)
                self._local[transfer] = source, destination, bool(reduce)
                continue
            sender, offered = self.pair(src, dst).sender, offers[src, dst]
            first = offered[-1].first + offered[-1].packets if offered else sender.next
            payload = buffers.view(src, src_buffer, src_at, size)
            # its announcement: the offset as virtual address, the buffer's number as key
            remote = reth(dst_at, dst_buffer, size)
            message = Message(transfer, first, mtu, payload, destination, remote, reduce=bool(reduce))
            offered.append(message)
            self._messages[transfer] = sender, message
        for ends, pair in self.pairs.items():
            pair.sender.offer(offers[ends])
            pair.receiver.offer(offers[ends])

    def begin(self, now: float) -> None:
        """Start the prepared iteration: send its first messages."""
        self._now = now
        self._start(self.progress.begin(now))
        self._settle(now)

    def _start(self, transfers: list[int]) -> None:
        """Start transfers, and carry out local steps and what they free."""
        for transfer in transfers:
            if transfer in self._local:
                source, destination, reduce = self._local[transfer]
                if reduce:
                    self._combine(destination, source, out=destination)
                else:
                    destination[:] = source
                transfers += self.progress.landed(transfer, self._now)
                continue
            sender, message = self._messages[transfer]
            message.ready = True
            if sender.waiting_for is message:
                self._pending[sender] = None

    def _landed(self, message: Message) -> None:
        if message.reduce and message.size:
            destination = message.destination
            staged = np.frombuffer(message.open(), destination.dtype)
            self._combine(destination, staged, out=destination)
        message.target = None
        self._start(self.progress.landed(message.transfer, self._now))

    @property
    def drained(self) -> bool:
        """Whether every packet sent is acknowledged."""
        return all(pair.sender.idle for pair in self.pairs.values())

    def abandon(self) -> None:
        """Give the iteration up. Packet numbers continue far ahead, so that packets in flight count as
        old."""
        for pair in self.pairs.values():
            number = pair.sender.next + 4 * SPAN
            pair.sender.reset(number)
            pair.receiver.reset(number)
        self._budget.reset()
        self._paced.clear()

    # -- passes of the event loop ----------------------------------------------------------------------
    def step(self, ready: Iterable[Port], now: float) -> None:
        """Take what arrived at the ready ports, and send what that allows. `now` may lie before the beginning
        of an iteration, which took long to prepare: nothing is sent earlier for that."""
        self._now = now = max(now, self._now)
        for port in ready:
            port.receive(now)
        self._settle(now)

    def tick(self, now: float) -> None:
        """Act on the time that has passed: find losses that only silence reveals."""
        self._now = now = max(now, self._now)
        for sender in list(self._busy):
            if sender.idle:
                del self._busy[sender]
            else:
                sender.check(now)
        self._settle(now)

    def _settle(self, now: float) -> None:
        """Send all acknowledgements, and of the senders in turn as much each, until these are `PASS_PACKETS`
        or nothing is left: a link whose first packet waits for whole windows of others loses that time."""
        pending, dirty, budget, paced = self._pending, self._dirty, self._budget, self._paced
        for receiver in self._owing:
            receiver.acknowledge()
        self._owing.clear()
        for sender in [sender for sender, due_s in paced.items() if due_s <= now]:
            del paced[sender]
            pending[sender] = None
        left = PASS_PACKETS
        share = min(SLOTS, max(left // (len(pending) or 1), 1))
        while pending and left > 0:
            sender = next(iter(pending))
            del pending[sender]
            left -= sender.pump(now, share)
            self._busy[sender] = None
            if budget.waiting and budget.left > 0:
                pending.update(budget.waiting)
                budget.waiting.clear()
        for batch in dirty:
            batch.flush()
        dirty.clear()

    @property
    def pending(self) -> bool:
        """Whether the last pass left something to be sent in the next one, after what has arrived is
        read."""
        return bool(self._pending)

    @property
    def next_due(self) -> float | None:
        """When a pair that its rate holds back may send again; None where there is none."""
        return min(self._paced.values(), default=None) if self._paced else None

    def stuck(self, now: float) -> list[Pair]:
        """If a pair was silent with packets in flight for `dead_after`, or if these are longer for four of
        its timeouts or of the longest ways at its ends: all pairs silent for half as long; else none. An
        answer waits behind all that its rank sends, so other pairs show how long one may take: by their round
        trips, and by what has arrived and was not answered yet."""
        waiting = [pair for pair in self.pairs.values() if not pair.sender.idle]
        if all(now - pair.sender.progress_at < self.tuning.dead_after for pair in waiting):
            return []
        longest_s = [0.0] * len(self.endpoints)
        for pair in self.pairs.values():
            for end in (pair.src, pair.dst):
                longest_s[end] = max(longest_s[end], pair.longest_way_s)
        silences = []
        for pair in waiting:
            patience_s = max(pair.sender.patience, longest_s[pair.src], longest_s[pair.dst])
            allowed_s = max(self.tuning.dead_after, TIMEOUTS * patience_s)
            silences.append((pair, (now - pair.sender.progress_at) / allowed_s))
        given_up = any(silence >= 1 for _, silence in silences)
        return [pair for pair, silence in silences if given_up and silence >= 0.5]
