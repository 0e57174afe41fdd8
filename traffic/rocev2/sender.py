"""The requester of a queue pair: windowed, reliable, over one or several paths."""

import struct
from collections.abc import Sequence
from functools import cache, partial

from railweave.framework.hookspecs.congestion import TIMEOUT
from railweave.framework.model import PacketFormat
from railweave.traffic.packets import ACK_REQUEST, PSN_MASK, Addresses, icrc, padding
from railweave.traffic.rocev2.batch import Batch
from railweave.traffic.rocev2.choice import PICOSECONDS, PairChoice
from railweave.traffic.rocev2.control import PairControl
from railweave.traffic.rocev2.headers import Heads
from railweave.traffic.rocev2.loss_detection import LossDetection, PathState
from railweave.traffic.rocev2.messages import Message, holding
from railweave.traffic.rocev2.tuning import SPAN, Tuning, acknowledge_every
from railweave.traffic.rocev2.turns import turns_of

_WORD = struct.Struct("!I").pack


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


class Sender(LossDetection):
    """Sends the messages of one pair, as window, rate and budget allow. `pending` collects the senders that
    may have something to send, `paced` those whose rate lets them send later."""

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
        super().__init__(choice, control, tuning.min_window)
        self._batch = batch
        self._tuning = tuning
        self._packet = packet
        self._mtu = packet.path_mtu
        self._budget = budget
        self._pending = pending
        self._paced = {} if paced is None else paced
        self._heads = cache(partial(Heads, to))
        self._entropies: list[int] = []
        self._untried = True  # nothing has been sent again over these yet
        self._paths: list[PathState] = []
        self._order = turns_of((1.0,))
        self._turns = [0, 0]
        self.retransmitted = self.wire_bytes = 0
        self.reset(0)

    def reset(self, number: int) -> None:
        """Forget everything in flight; the next message starts at `number`."""
        super().reset(number)
        self.messages: list[Message] = []
        self._current = self._repetition = 0

    def make_room(self, count: int) -> None:
        self._budget.left += count
        self._pending[self] = None

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
            if self._entropies != list(udp_src):
                self._untried = True
            self._entropies, self._order = list(udp_src), order
            self._turns = [0, 0]
            if self.choice is not None:
                self.choice.use_paths(weights)
        for left in self._paths:
            left.timeout, left.silence = self.timing.timeout, self.timing.wait
        waited, full = self.timing.wait, self._packet.full_packet_bytes
        self._paths = [PathState(self._heads(entropy), at) for at, entropy in enumerate(udp_src)]
        window = self._tuning.window(rates_bps, depths, latencies_s, full)
        slowest = min(rates_bps)
        self.timing.drain = window * full * 8 / slowest if slowest > 0 else 0.0
        self.timing.travel = 2 * max(latencies_s)
        if self.control is not None:
            self.control.use_paths(now, rates_bps, depths, latencies_s, full, clock)
        self.congestion.allow(SPAN if self.control is not None and self.control.ready else window)
        if self.timing.probes:  # the other end was unreachable: probe the new paths at once
            self.timing.probes = 0
            self._active_at = now - self.timing.wait
        elif self.outstanding:  # what is under way was sent when the old wait held
            due_at = min(self._active_at + waited, now + self.timing.timeout)
            self._active_at = due_at - self.timing.wait

    def retry(self, now: float) -> None:
        """Probe at once where the last probe has no answer: the paths may pass again."""
        if self.timing.probes:
            self._active_at = now - self.timing.wait

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
        most = self.congestion.window if self.timing.overloaded else self.congestion.limit
        return most if self.control is None else self.control.packets(self._packet.full_packet_bytes, most)

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
            # Without an answer to the last packet of the budget no pair could send; to one that is followed
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
            varying = _WORD(number & PSN_MASK | ACK_REQUEST if request else number & PSN_MASK)
            if index == 0:
                varying += message.reth
            crc = icrc(view[low:high], icrc(varying, head.crc))
            if head.pad_bytes:
                crc = icrc(bytes(head.pad_bytes), crc)
            add(head, varying, address + low, crc)
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

    def check(self, now: float) -> None:
        """Act on the clock: declare overtaken packets lost, and probe after silence."""
        if now >= self._suspect_at:
            self._detect(now)
        if self.control is not None:
            self.control.catch_up(now)
        if self.outstanding and now >= self._active_at + self.timing.wait + self.gap_s:
            if self._untried:  # its silence until now says nothing of these paths
                self._untried = False
                self.progress_at = max(self.progress_at, now - self.timing.wait - self.gap_s)
            if self.timing.probes and self.timing.overloaded:
                self.congestion.silent()
            number = next(iter(self.outstanding))
            self._note_loss(self.outstanding.pop(number)[2], now)
            if self.control is not None:
                self.control.lost(now, [number], TIMEOUT)
            self._repeat(number, now)
            self._probe = self._repetition
            self.timing.probes += 1
