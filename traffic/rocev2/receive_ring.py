"""Packets in memory shared with the kernel (PACKET_RX_RING, TPACKET_V2)."""

from __future__ import annotations

import mmap
from dataclasses import dataclass

STATUS_USER = 1
"""tp_status bit: the frame is ours to read; writing 0 returns the slot to the kernel."""
LENGTH_WORD, SECONDS_WORD, NANOSECONDS_WORD = 2, 4, 5
"""Words of struct tpacket2_hdr: bytes captured, and their time on the wall clock."""
MAC_HALF = 6
"""Its half-word tp_mac: where in the slot the frame starts."""
_HEADROOM = 96
"""tpacket2_hdr, sockaddr_ll and alignment come before the frame; the kernel uses 66."""


@dataclass(frozen=True, slots=True)
class RingShape:
    """Sizes of a ring: `blocks` x `block_bytes`, cut into slots of `slot_bytes` that never cross a block."""

    block_bytes: int
    blocks: int
    slot_bytes: int

    @classmethod
    def of(cls, frame_bytes: int, slots: int, block_bytes: int = 1 << 16) -> RingShape:
        """The ring that holds `slots` frames of up to `frame_bytes`, or a few more."""
        slot_bytes = -(-(frame_bytes + _HEADROOM) // 16) * 16
        return cls(block_bytes, -(-slots // (block_bytes // slot_bytes)), slot_bytes)

    @property
    def slots(self) -> int:
        return self.block_bytes // self.slot_bytes * self.blocks

    @property
    def total_bytes(self) -> int:
        return self.block_bytes * self.blocks


class ReceiveRing:
    """The reading side. `at` is the next slot to read; the reader advances it."""

    def __init__(self, memory: mmap.mmap | bytearray, shape: RingShape) -> None:
        self.bytes = memoryview(memory)
        self.words = self.bytes.cast("I")
        self.halves = self.bytes.cast("H")
        self.slots = [
            block * shape.block_bytes + slot * shape.slot_bytes
            for block in range(shape.blocks)
            for slot in range(shape.block_bytes // shape.slot_bytes)
        ]
        self.at = 0
