"""The requester of a queue pair: windowed, reliable, over one or several paths."""

import struct
from collections.abc import Iterable, Sequence
from functools import cache, partial

from railweave.framework.hookspecs.congestion import OVERTAKEN, TIMEOUT
from railweave.framework.model import PacketFormat
from railweave.traffic.packets import ACK_REQUEST, PSN_MASK, Addresses, icrc, padding
from railweave.traffic.rocev2.batch import Batch
from railweave.traffic.rocev2.choice import PICOSECONDS, PairChoice
from railweave.traffic.rocev2.congestion import Congestion
from railweave.traffic.rocev2.control import PairControl
from railweave.traffic.rocev2.headers import Heads
from railweave.traffic.rocev2.messages import Message, holding
from railweave.traffic.rocev2.timing import Timing
from railweave.traffic.rocev2.tuning import SPAN, Tuning, acknowledge_every
from railweave.traffic.rocev2.turns import turns_of

_COUNTS, _BEHIND = struct.Struct("!BBH"), struct.Struct("!I")
_WORD = struct.Struct("!I").pack
_NEVER = float("inf")


class PathState:
    """One path to the other end, `at` among those of its time. `newest`: the latest transmission known to
    have arrived over it; `round_trip`: its time; `timeout`: once the path is left, that of what is still
    under way there. Packets of one path stay in order unless its route changes while they are in flight.
    `arrived`, `lost`, `marked`: packets since `counted`."""

    __slots__ = ("arrived", "at", "heads", "lost", "marked", "newest", "round_trip", "timeout")

    def __init__(self, heads: Heads, at: int) -> None:
        self.heads, self.at = heads, at
        self.newest = 0
        self.round_trip = 0.0
        self.timeout: float | None = None
        self.arrived = self.lost = self.marked = 0

    def counted(self) -> tuple[int, int, int]:
        """What has become of its packets since the last call: how many are known to have arrived or are
        considered lost, those lost, those that came marked."""
        counts = self.arrived + self.lost, self.lost, self.marked
        self.arrived = self.lost = self.marked = 0
        return counts


class Budget:
    """Packets that all ranks together may still send, and the senders that wait for room. A limit of 0 bytes
    is none; at least one packet is always allowed."""

    def __init__(self, limit_bytes: int, packet_bytes: int) -> None:
        self._packets = max(limit_bytes // packet_bytes, 1) if limit_bytes else 1 << 60
        self.reset()

    def reset(self) -> None:
        """Nothing is in flight any more."""
        self.left = self._packets
        self.waiting: dict[Sender, None] = {}


class Sender:
    """Numbers are PSNs that do not wrap. `outstanding`: number -> (sent at, transmission, path, repeated), in
    order of transmission; a packet leaves it when acknowledged or declared lost. `pending` collects the
    senders that may have something to send. `choice`: of paths; None for each in turn. `control`: of window
    and rate; None for the window that links allow."""

    def __init__(
        self,
        to: Addresses,
        batch: Batch,
        tuning: Tuning,
        packet: PacketFormat,
        budget: Budget,
        pending: dict["Sender", None],
        choice: PairChoice | None = None,
        control: PairControl | None = None,
        paced: dict["Sender", float] | None = None,
    ) -> None:
        self._batch = batch
        self._tuning = tuning
        self._packet = packet
        self._mtu = packet.path_mtu
        self._budget = budget
        self._pending = pending
        self._paced = {} if paced is None else paced
        self._heads = cache(partial(Heads, to))
        self._entropies: list[int] = []
        self._paths: list[PathState] = []
        self._order = turns_of((1.0,))
        self._turns = [0, 0]
        self.choice = choice
        self.control = control
        self.congestion = Congestion(tuning.min_window)
        self.timing = Timing()
        self.transmissions = self.retransmitted = self.wire_bytes = self.marked = self.cnps = 0
        self._duplicates = 0
        self.reset(0)

    def reset(self, number: int) -> None:
        """Forget everything in flight; the next message starts at `number`."""
        self.una = self.next = number
        self._sacked = 0
        self.outstanding: dict[int, tuple[float, int, PathState, bool]] = {}
        if self.control is not None:
            self.control.forget()
        self.timing.probes = 0
        self.lost: dict[int, PathState] = {}
        self.messages: list[Message] = []
        self._current = 0
        self._newest, self._newest_sent_at = self.transmissions, 0.0
        self._repetition = self._echoed = 0
        self._repeated: dict[int, tuple[float, int, PathState, bool]] = {}
        self._suspect_at = _NEVER
        self.progress_at = self._active_at = 0.0

    # -- paths -----------------------------------------------------------------------------------------
    def use_paths(
        self,
        now: float,
        udp_src: Sequence[int],
        weights: Sequence[float],
        rates_bps: Sequence[float],
        depths: Sequence[float],
        latencies_s: Sequence[float],
        clock: float = PICOSECONDS,
    ) -> None:
        """Send from now on over these entropies, of each path its own, in shares by `weights`; `rates_bps`
        are those of their paths, 0 if unknown, `depths` the packets that they hold, and `latencies_s` the
        latencies along them; `clock`: declared picoseconds a second.

        If entropies and weights are the same as before, the turn continues, so that shares stay exact.
        """
        order = turns_of(tuple(weights))
        if self._entropies != list(udp_src) or order is not self._order:
            self._entropies, self._order = list(udp_src), order
            self._turns = [0, 0]
            if self.choice is not None:
                self.choice.use_paths(weights)
        for left in self._paths:
            left.timeout = self.timing.timeout
        waited, full = self.timing.wait, self._packet.full_packet_bytes
        self._paths = [PathState(self._heads(entropy), at) for at, entropy in enumerate(udp_src)]
        window = self._tuning.window(rates_bps, depths, latencies_s, full)
        self.congestion.allow(window)
        slowest = min(rates_bps)
        self.timing.drain = window * full * 8 / slowest if slowest > 0 else 0.0
        self.timing.travel = 2 * max(latencies_s)
        if self.control is not None:
            self.control.use_paths(now, rates_bps, depths, latencies_s, full, clock)
        if self.timing.probes:  # the other end was unreachable: probe the new paths at once
            self.timing.probes = 0
            self._active_at = now - self.timing.wait
        elif self.outstanding:  # what is under way was sent when the old wait held
            due_at = min(self._active_at + waited, now + self.timing.timeout)
            self._active_at = due_at - self.timing.wait

    def counted(self) -> list[tuple[int, int, int]]:
        """Of each path in use, what has become of its packets since the last call."""
        return [path.counted() for path in self._paths]

    # -- sending ---------------------------------------------------------------------------------------
    def offer(self, messages: list[Message]) -> None:
        """The messages of an iteration, in order; their numbers start at `next`."""
        self.messages = messages
        self._current = 0
        self._repeated.clear()

    @property
    def waiting_for(self) -> Message | None:
        """The message whose packets are sent next, ready or not."""
        return self.messages[self._current] if self._current < len(self.messages) else None

    @property
    def window(self) -> int:
        """Packets that may be under way: as many as links or the control allow, unless the machine is the
        bottleneck."""
        usual = self.congestion.window if self.timing.overloaded else self.congestion.limit
        return usual if self.control is None else self._controlled(self.control, usual)

    def _controlled(self, control: PairControl, usual: int) -> int:
        """The window of a control, within what the machine carries where that is the bottleneck."""
        most = usual if self.timing.overloaded or not control.ready else SPAN
        return control.packets(self._packet.full_packet_bytes, most)

    @property
    def gap_s(self) -> float:
        """Time from one packet to the next, by the control's rate."""
        return 0.0 if self.control is None else self.control.gap_s(self._packet.full_packet_bytes)

    def _due(self, now: float) -> int:
        """Packets that the rate allows now. Where it allows none, the executor comes back at the time."""
        control = self.control
        if control is None or not control.ready:
            return SPAN + 1  # more than there can be
        control.catch_up(now)
        if control.due_s <= now:
            return 1
        self._paced[self] = control.due_s
        return 0

    @property
    def idle(self) -> bool:
        return not self.outstanding and not self.lost

    @property
    def patience(self) -> float:
        """The longest timeout of what is under way: that of these paths, or of one that was left."""
        left = (path.timeout or 0.0 for _, _, path, _ in self.outstanding.values())
        return max(self.timing.timeout, *left, 0.0) + self.gap_s

    def pump(self, now: float, most: int = SPAN) -> int:
        """Send what the window, the budget and the schedule allow; returns how many packets these are. What
        would be more than `most` stays pending."""
        if self.idle:
            self.progress_at = now
        left = most
        if self.lost:
            left -= self._resend(now, most)
        budget, outstanding = self._budget, self.outstanding
        while (message := self.waiting_for) is not None and message.ready:
            index = self.next - message.first
            room = min(self.window - len(outstanding), self.una + SPAN - self.next, message.packets - index)
            if room > budget.left:
                room = budget.left
                budget.waiting[self] = None
            if room <= 0:
                break
            if left <= 0:
                self._pending[self] = None
                break
            if (due := self._due(now)) == 0:
                break
            room = min(room, left, due)
            # Without an answer to the last packet of the budget nobody could send; to one that is followed
            # by a pause, the next one would bring it.
            self._send(message, self.next, room, now, asking=room == budget.left or room == due)
            self.next += room
            budget.left -= room
            left -= room
            if index + room == message.packets:
                self._current += 1
                self.wire_bytes += self._packet.wire_bytes(message.size)
        return most - left

    def _send(
        self,
        message: Message,
        first: int,
        count: int,
        now: float,
        *,
        repetition: int = 0,
        asking: bool = False,
    ) -> None:
        """Send packets first..first + count - 1 of one message, over the paths in their turns. `asking`: the
        last of them asks for an acknowledgement."""
        mtu, paths, stride = self._mtu, self._paths, acknowledge_every(self.window)
        view, address, message_first, last = message.view, message.address, message.first, message.packets - 1
        add, outstanding, transmission = self._batch.add, self.outstanding, self.transmissions
        again, control = repetition > 0, self.control
        turn, asks = self._turns[again], first + count - 1 if asking else -1
        ways: Sequence[int]
        if self.choice is None:
            self._order.reach(turn + count)
            ways = self._order.order[turn : turn + count]
        else:
            ways = self.choice.ways(message, count, now)
        for number, at in zip(range(first, first + count), ways, strict=True):
            path = paths[at]
            transmission += 1
            index = number - message_first
            low = index * mtu
            if index == last:
                key, high, request = message.last_key, message.size, True
            else:
                key = message.middle_key if index else message.first_key
                high = low + mtu
                request = again or transmission % stride == 0 or number == asks
            head = path.heads[repetition << 24 | key]
            own = _WORD(number & PSN_MASK | ACK_REQUEST if request else number & PSN_MASK)
            if index == 0:
                own += message.reth
            crc = icrc(view[low:high], icrc(own, head.crc))
            if head.pad_bytes:
                crc = icrc(bytes(head.pad_bytes), crc)
            add(head, own, address + low, crc)
            outstanding[number] = (now, transmission, path, again)
            if control is not None:
                control.sent(now, number, high - low + head.pad_bytes + self._packet.HEADERS)
        self.transmissions = transmission
        self._turns[again] = turn + count
        self._active_at = now

    def _resend(self, now: float, most: int) -> int:
        """Send lost packets again, as many as the window, the budget and `most` allow; how many these are."""
        sent = 0
        for number in list(self.lost):
            if len(self.outstanding) >= self.window:
                break
            if self._budget.left <= 0:
                self._budget.waiting[self] = None
                break
            if sent == most:
                self._pending[self] = None
                break
            if self._due(now) == 0:
                break
            del self.lost[number]
            self._budget.left -= 1
            self._repeat(number, now)
            sent += 1
        return sent

    def _repeat(self, number: int, now: float) -> None:
        message = holding(self.messages, number)
        assert message is not None
        self.retransmitted += 1
        self._repetition = self._repetition % 0xFFFF + 1
        self._send(message, number, 1, now, repetition=self._repetition)
        self._repeated[self._repetition] = self.outstanding[number]
        size = min(self._mtu, message.size - (number - message.first) * self._mtu)
        self.wire_bytes += size + padding(size) + self._packet.HEADERS

    # -- acknowledgements ------------------------------------------------------------------------------
    def accept(self, word: int, kind: int, view: memoryview, start: int, end: int, now: float) -> None:
        """Handle an acknowledgement whose payload is view[start:end], as `Receiver.acknowledge` makes it."""
        ahead = ((word & PSN_MASK) + 1 - self.una) & PSN_MASK
        if ahead > self.next - self.una or end - start < _COUNTS.size:
            return  # old and overtaken, or for numbers that were never sent
        duplicates, words, echo = _COUNTS.unpack_from(view, start)
        bitmap_at = start + _COUNTS.size
        marks_at = bitmap_at + 4 * words
        before = len(self.outstanding) + len(self.lost)
        upto = self.una + ahead
        marks = (upto, 0)
        if end >= marks_at + _BEHIND.size:
            first = upto - _BEHIND.unpack_from(view, marks_at)[0]
            marks = first, int.from_bytes(view[marks_at + _BEHIND.size : end], "little")
        if ahead:
            self._arrived(range(self.una, upto), now, *marks)
            self.una = upto
            self._sacked >>= ahead
        if words:
            fresh = int.from_bytes(view[bitmap_at:marks_at], "little") & ~self._sacked
            fresh &= (1 << (self.next - upto)) - 1
            self._sacked |= fresh
            beyond = [upto + bit for bit in range(fresh.bit_length()) if fresh >> bit & 1]
            self._arrived(beyond, now, *marks)
        if self.control is not None:
            self.control.acknowledged(now)
        if len(self.outstanding) + len(self.lost) < before:
            self.progress_at = self._active_at = now
            self.timing.probes = 0
            self._pending[self] = None
        if duplicates != self._duplicates:
            self._duplicates = duplicates
            self.timing.spurious()
        if echo != self._echoed:
            self._echoed = echo
            record = self._repeated.pop(echo, None)
            if record is not None:
                self._learn(record, now)
        if self.outstanding:
            self._detect(now)

    def _arrived(self, numbers: Iterable[int], now: float, marks_from: int, marks: int) -> None:
        """Remove packets that arrived, and learn from those that were sent once. Which copy of a repeated
        packet arrived is unknown until its repetition number is echoed. Bit i of `marks`: number
        `marks_from` + i came marked."""
        take, before, choice, control = self.outstanding.pop, len(self.outstanding), self.choice, self.control
        latest: tuple[float, int, PathState, bool] | None = None
        marked = False
        for number in numbers:
            record = take(number, None)
            if record is None:
                if (late := self.lost.pop(number, None)) is not None:
                    late.lost -= 1
                    late.arrived += 1
                continue
            record[2].arrived += 1
            if marks:
                marked = number >= marks_from and marks >> number - marks_from & 1 == 1
                self.marked += marked
                record[2].marked += marked
            if control is not None:
                control.arrived(number, marked)
            if choice is not None and record[2].timeout is None:
                choice.acknowledged(record[2].at, record[0], now, marked)
            if not record[3]:
                latest = record
                path = record[2]
                if record[1] > path.newest:
                    path.newest, path.round_trip = record[1], now - record[0]
        self._budget.left += before - len(self.outstanding)
        self.congestion.arrived(before - len(self.outstanding))
        if latest is not None:
            self._learn(latest, now)

    def _learn(self, record: tuple[float, int, PathState, bool], now: float) -> None:
        sent_at, transmission, path, _ = record
        if self.control is not None:
            self.control.took(transmission, now - sent_at)
        if transmission > path.newest:
            path.newest, path.round_trip = transmission, now - sent_at
        if transmission > self._newest:
            self._newest, self._newest_sent_at = transmission, sent_at
            self.timing.sample(now - sent_at)

    def notified(self, word: int, kind: int, view: memoryview, start: int, end: int, now: float) -> None:
        """Handle a CNP."""
        self.cnps += 1
        if self.control is not None:
            self.control.notified(now)

    # -- loss ------------------------------------------------------------------------------------------
    def _detect(self, now: float) -> None:
        """Declare lost the packets that a later one on the same path overtook by more than the reordering
        window, and those sent a whole timeout before one that arrived; of paths that were left, a timeout and
        a round trip ago, if any later one arrived. Source: RFC 8985, section 6.2, per path."""
        self._suspect_at = _NEVER
        expired, lost = self._newest_sent_at - self.timing.timeout, []
        for number, (sent_at, transmission, path, _) in self.outstanding.items():
            if transmission > self._newest:
                break
            if transmission < path.newest:
                due = sent_at + path.round_trip + self.timing.reorder
            elif path.timeout is not None:
                due = sent_at + path.timeout + self.timing.smoothed
            else:
                due = now if sent_at < expired else _NEVER
            if due <= now:
                lost.append(number)
            elif due < self._suspect_at:
                self._suspect_at = due
        if lost and self.timing.overloaded:
            self.congestion.lost(self.outstanding[lost[-1]][1], self.transmissions)
        for number in lost:
            self.lost[number] = path = self.outstanding.pop(number)[2]
            self._tell_of_loss(path, now)
        if lost and self.control is not None:
            self.control.lost(now, lost, OVERTAKEN)
        if lost:
            self.timing.lossy()
            self._budget.left += len(lost)
            self._pending[self] = None

    def check(self, now: float) -> None:
        """Act on the clock: declare overtaken packets lost, and probe after silence."""
        if now >= self._suspect_at:
            self._detect(now)
        if self.control is not None:
            self.control.catch_up(now)
        if self.outstanding and now >= self._active_at + self.timing.wait + self.gap_s:
            if self.timing.probes and self.timing.overloaded:
                self.congestion.silent()
            number = next(iter(self.outstanding))
            self._tell_of_loss(self.outstanding.pop(number)[2], now)
            if self.control is not None:
                self.control.lost(now, [number], TIMEOUT)
            self._repeat(number, now)
            self.timing.probes += 1

    def _tell_of_loss(self, path: PathState, now: float) -> None:
        path.lost += 1
        if self.choice is not None and path.timeout is None:
            self.choice.lost(path.at, now)
