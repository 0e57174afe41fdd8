"""A bound on what all ranks together have in flight."""

from __future__ import annotations

from typing import Protocol


class Waiter(Protocol):
    """What waits for the budget to rise: a sender."""

    def pump(self, now: float) -> None: ...


class Budget:
    """Packets that may still be sent by all ranks together, and the senders that wait for that to rise."""

    __slots__ = ("left", "waiting")

    def __init__(self, packets: int | None) -> None:
        self.left = packets if packets is not None else 1 << 60
        self.waiting: list[Waiter] = []

    @classmethod
    def of_bytes(cls, limit_bytes: int, packet_bytes: int) -> Budget:
        """0 bytes is no bound; at least one packet is always allowed."""
        return cls(max(limit_bytes // packet_bytes, 1) if limit_bytes else None)
