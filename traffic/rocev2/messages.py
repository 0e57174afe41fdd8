"""One transfer of a schedule as a message: what the sending and the receiving side know of it."""

from bisect import bisect_right
from typing import Any

from numpy.typing import NDArray

from railweave.traffic.packets import Opcode

_OPCODES = {
    (True, True): Opcode.WRITE_ONLY,
    (True, False): Opcode.WRITE_FIRST,
    (False, False): Opcode.WRITE_MIDDLE,
    (False, True): Opcode.WRITE_LAST,
}
"""By whether a packet is the first of its message, and whether it is the last."""


def packet_count(size_bytes: int, mtu: int) -> int:
    """Packets of a message; an empty one still takes one."""
    return max(1, -(-size_bytes // mtu))


def opcode_at(index: int, packets: int) -> int:
    """The BTH opcode of packet `index` of a message of `packets`."""
    return int(_OPCODES[index == 0, index == packets - 1])


class Message:
    """Packet i carries number `first` + i (unwrapped PSN) and the bytes from i * mtu on; the first one
    announces them with `reth`.

    To send: `view` and `address` are the same memory; `first_key`, `middle_key` and `last_key` are keys into
    `Heads`; `ready`: whether the schedule allows it to start; `way`: its path where all packets keep to one,
    behind the number of the paths that it is of (`PairChoice`).

    To receive: `missing` packets have not arrived; `target` is `destination` itself, or a staging buffer if
    it has yet to be reduced.
    """

    __slots__ = (
        "address",
        "destination",
        "first",
        "first_key",
        "last_key",
        "middle_key",
        "missing",
        "packets",
        "ready",
        "reduce",
        "reth",
        "size",
        "target",
        "transfer",
        "view",
        "way",
    )

    def __init__(
        self,
        transfer: int,
        first: int,
        mtu: int,
        source: tuple[memoryview, int],
        destination: NDArray[Any],
        reth: bytes,
        *,
        reduce: bool,
    ) -> None:
        self.transfer = transfer
        self.first = first
        self.view, self.address = source
        self.size = len(self.view)
        self.packets = self.missing = packet_count(self.size, mtu)
        self.destination = destination
        self.reduce = reduce
        self.reth = reth
        self.ready = False
        self.way = (-1, 0)
        self.target: memoryview | None = None
        last_bytes = self.size - (self.packets - 1) * mtu
        self.first_key = opcode_at(0, self.packets) << 16 | min(mtu, self.size)
        self.middle_key = Opcode.WRITE_MIDDLE << 16 | mtu
        self.last_key = opcode_at(self.packets - 1, self.packets) << 16 | last_bytes

    def open(self) -> memoryview:
        """Where its bytes are written; a staging buffer is allocated when the first packet arrives."""
        if self.target is None:
            staged = self.reduce or self.size == 0  # numpy does not cast the memory of an empty array
            self.target = memoryview(bytearray(self.size)) if staged else self.destination.data.cast("B")
        return self.target


def holding(messages: list[Message], number: int) -> Message | None:
    """The message of a pair's list (ascending `first`) to which packet `number` belongs, or None."""
    at = bisect_right(messages, number, key=lambda message: message.first) - 1
    if at < 0 or number >= messages[at].first + messages[at].packets:
        return None
    return messages[at]
