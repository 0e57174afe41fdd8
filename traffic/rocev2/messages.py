"""One transfer of a schedule as a message: the sending side and the receiving side."""

from bisect import bisect_right
from typing import Any, TypeVar

from numpy.typing import NDArray

from railweave.traffic.packets import Opcode, reth

_FIRST, _MIDDLE, _LAST, _ONLY = (
    int(o) for o in (Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST, Opcode.WRITE_ONLY)
)


def packet_count(size_bytes: int, mtu: int) -> int:
    """Packets of a message; an empty one still takes one."""
    return max(1, -(-size_bytes // mtu))


def opcode_at(index: int, packets: int) -> int:
    """The BTH opcode of packet `index` of a message of `packets`."""
    if packets == 1:
        return _ONLY
    if index == 0:
        return _FIRST
    return _LAST if index == packets - 1 else _MIDDLE


class Outgoing:
    """A message to send. Packet i carries number `first` + i (unwrapped PSN) and the bytes from i * mtu on.

    `view` and `address` are the same memory; `first_key`, `middle_key` and `last_key` are keys into `Heads`;
    `ready`: whether the schedule allows it to start.
    """

    __slots__ = (
        "address",
        "first",
        "first_key",
        "last_key",
        "middle_key",
        "packets",
        "ready",
        "reth",
        "size",
        "transfer",
        "view",
    )

    def __init__(
        self, transfer: int, first: int, mtu: int, view: memoryview, address: int, remote: bytes
    ) -> None:
        self.transfer = transfer
        self.first = first
        self.size = len(view)
        self.packets = packet_count(self.size, mtu)
        self.view = view
        self.address = address
        self.reth = remote
        self.ready = False
        last_bytes = self.size - (self.packets - 1) * mtu
        self.first_key = opcode_at(0, self.packets) << 16 | (mtu if self.packets > 1 else last_bytes)
        self.middle_key = _MIDDLE << 16 | mtu
        self.last_key = opcode_at(self.packets - 1, self.packets) << 16 | last_bytes


class Incoming:
    """A message to receive into `target`: the destination itself, or a staging buffer if it has yet to be
    reduced.

    `missing` packets have not arrived; `reth` is what its first packet must announce.
    """

    __slots__ = ("destination", "first", "missing", "packets", "reduce", "reth", "size", "target", "transfer")

    def __init__(
        self, transfer: int, first: int, mtu: int, destination: NDArray[Any], *, reduce: bool, remote: bytes
    ) -> None:
        self.transfer = transfer
        self.first = first
        self.size = destination.nbytes
        self.packets = self.missing = packet_count(self.size, mtu)
        self.destination = destination
        self.reduce = reduce
        self.reth = remote
        self.target: memoryview | None = None

    def open(self) -> memoryview:
        """Where its bytes are written; a staging buffer is allocated when the first packet arrives."""
        if self.target is not None:
            return self.target
        if self.size == 0:
            self.target = memoryview(bytearray())
        elif self.reduce:
            self.target = memoryview(bytearray(self.size))
        else:
            self.target = self.destination.data.cast("B")
        return self.target


def announcement(buffer: int, offset: int, size: int) -> bytes:
    """The RETH of a transfer: the offset as virtual address, the buffer's number as key."""
    return reth(offset, buffer, size)


Message = TypeVar("Message", Outgoing, Incoming)


def holding(messages: list[Message], number: int) -> Message | None:
    """The message of a pair's list (ascending `first`) to which packet `number` belongs, or None."""
    at = bisect_right(messages, number, key=lambda message: message.first) - 1
    if at < 0 or number >= messages[at].first + messages[at].packets:
        return None
    return messages[at]
