"""The responder of a queue pair: accepts packets in any order, once each, and acknowledges them."""

import struct
from collections.abc import Callable

from railweave.traffic.packets import ACK_REQUEST, AETH_ACK, PSN_AT, PSN_MASK, Opcode, icrc
from railweave.traffic.rocev2.batch import Batch
from railweave.traffic.rocev2.control import Notifier
from railweave.traffic.rocev2.headers import MARKED, Heads
from railweave.traffic.rocev2.messages import Message, holding, opcode_at
from railweave.traffic.rocev2.tuning import SPAN

_HALF = 1 << 23
"""Half of the sequence numbers: what is further ahead lies behind."""
_ACK, _BEHIND = struct.Struct("!IIBBH").pack, struct.Struct("!I").pack
_REPETITION = 0xFFFF
"""Bits of the repetition in the kind of a packet, above its opcode."""
_MIDDLE = int(Opcode.WRITE_MIDDLE)
_ACK_KEY = int(Opcode.ACKNOWLEDGE) << 16
_COUNTS_BYTES = 4
"""Bytes of an acknowledgement between its AETH and its bitmaps: duplicates, words, repetition."""
_NOTIFICATION_KEY, _NOTIFICATION = int(Opcode.NOTIFICATION) << 16, bytes(4 + 16)
"""Of a CNP: the number of a packet, which it has not, and 16 reserved bytes."""
_ICRC_BYTES = 4
"""At the end of every packet."""


class Receiver:
    """`expected` is the first number that has not arrived (a PSN that does not wrap), since `advanced_at`;
    bit i of `_above` says that number expected + i has, bit i of `_marks` that number `_marks_from` + i came
    marked. `owing` collects the receivers that have an acknowledgement to send; `heads` are the headers of
    those. `out_of_order` counts new packets that arrive behind one of a higher number, repeated ones
    included (RFC 4737, section 3.3). `notifier` says when to send a CNP; None for never."""

    heads: Heads

    def __init__(
        self,
        batch: Batch,
        mtu: int,
        landed: Callable[[Message], None],
        owing: dict["Receiver", None],
        notifier: Notifier | None = None,
    ) -> None:
        self._batch = batch
        self._mtu = mtu
        self._landed = landed
        self._owing = owing
        self.notifier = notifier
        self.duplicates = self.refused = self.out_of_order = 0
        self._completed = 0
        self.reset(0)

    def reset(self, number: int) -> None:
        """Forget everything in flight; the next message starts at `number`."""
        self.expected = number
        self.advanced_at = 0.0
        self._above = 0
        self._echo = 0
        self._marks, self._marks_from = 0, number
        self.offer([])

    def offer(self, messages: list[Message]) -> None:
        """The messages of an iteration, in order; their numbers start at `expected`."""
        self._messages = messages
        self._current = 0
        self._advance()

    def accept(self, word: int, kind: int, view: memoryview, start: int, end: int, now: float) -> None:
        """Handle a packet with a correct ICRC whose payload is view[start:end]; `kind` holds its opcode and,
        above the lowest byte, the number of a repetition and whether it is MARKED."""
        if self.notifier is not None and self.notifier.received(
            now, PSN_AT + 4 + end - start + _ICRC_BYTES, kind >= MARKED
        ):
            self._notify()
        if kind > 0xFF and (repetition := kind >> 8 & _REPETITION):
            self._echo = repetition
        ahead = ((word & PSN_MASK) - self.expected) & PSN_MASK
        if ahead >= _HALF or self._above >> ahead & 1:
            self.duplicates += 1
        elif ahead >= SPAN or not self._place(self.expected + ahead, kind & 0xFF, view, start, end):
            self.refused += 1
            return
        else:
            if kind >= MARKED:
                self._mark(self.expected + ahead)
            if ahead:
                self.out_of_order += self._above >> ahead > 0
                self._above |= 1 << ahead
            elif self._above:
                self.out_of_order += 1
                here = self._above | 1
                run = (~here & here + 1).bit_length() - 1
                self.expected += run
                self._above = here >> run
                self.advanced_at = now
            else:
                self.expected += 1
                self.advanced_at = now
        if word & ACK_REQUEST:
            self._owing[self] = None

    def _notify(self) -> None:
        """Send a CNP."""
        head = self.heads[_NOTIFICATION_KEY]
        self._batch.add(head, _NOTIFICATION, 0, icrc(_NOTIFICATION, head.crc))

    def notified(self, word: int, kind: int, view: memoryview, start: int, end: int, now: float) -> None:
        """A CNP for a receiver means nothing."""

    def _mark(self, number: int) -> None:
        if not self._marks:
            self._marks_from = self.expected
        self._marks |= 1 << number - self._marks_from

    def _place(self, number: int, opcode: int, view: memoryview, start: int, end: int) -> bool:
        """Copy the payload of packet `number` to its place; False if it does not fit the message there."""
        message = self._next
        if message is None:
            return False
        index = number - message.first
        if not 0 <= index < message.packets:
            other = holding(self._messages, number)
            if other is None:
                return False
            message, index = other, number - other.first
        low, size = index * self._mtu, end - start
        if opcode != _MIDDLE or size != self._mtu or not 0 < index < message.packets - 1:
            full = size == min(self._mtu, message.size - low)
            if not full or opcode != opcode_at(index, message.packets):
                return False
            if index == 0 and view[start - len(message.reth) : start] != message.reth:
                return False
        (message.target or message.open())[low : low + size] = view[start:end]
        message.missing -= 1
        if message.missing == 0:
            self._completed += 1
            self._owing[self] = None  # packets that took slower paths came behind the one that asks
            if message is self._next:
                self._advance()
            self._landed(message)
        return True

    def _advance(self) -> None:
        """Find the first message that still misses something."""
        while self._current < len(self._messages) and self._messages[self._current].missing == 0:
            self._current += 1
        self._next = self._messages[self._current] if self._current < len(self._messages) else None

    def acknowledge(self) -> None:
        """Send an acknowledgement: the last number in order, a count of duplicates, the latest repetition
        that arrived, a bitmap of the numbers beyond, and one of the marked ones, up to SPAN before:
        an answer may be lost."""
        words = -(-self._above.bit_length() // 32)
        last, messages = self.expected - 1 & PSN_MASK, self._completed & PSN_MASK
        body = _ACK(last, AETH_ACK | messages, self.duplicates & 0xFF, words, self._echo)
        bitmaps = self._above.to_bytes(4 * words, "little") + (self._marked() if self._marks else b"")
        head = self.heads[_ACK_KEY | _COUNTS_BYTES + len(bitmaps)]
        body += bitmaps
        self._batch.add(head, body, 0, icrc(body, head.crc))

    def _marked(self) -> bytes:
        """By how many numbers the bitmap of marks begins before `expected`, and the bitmap."""
        behind = self.expected - self._marks_from
        if behind > SPAN:
            self._marks >>= behind - SPAN
            self._marks_from, behind = self.expected - SPAN, SPAN
        return _BEHIND(behind) + self._marks.to_bytes(-(-self._marks.bit_length() // 32) * 4, "little")
