"""A limit on what all ranks together have in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railweave.traffic.rocev2.sender import Sender


class Budget:
    """Packets that all ranks together may still send, and the senders that wait for room."""

    __slots__ = ("left", "waiting")

    def __init__(self, packets: int | None) -> None:
        self.left = packets if packets is not None else 1 << 60
        self.waiting: list[Sender] = []

    @classmethod
    def of_bytes(cls, limit_bytes: int, packet_bytes: int) -> Budget:
        """A limit in bytes; 0 is none. At least one packet is always allowed."""
        return cls(max(limit_bytes // packet_bytes, 1) if limit_bytes else None)
