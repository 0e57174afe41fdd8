"""What the transport has counted since it started, summed over all pairs."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from railweave.traffic.rocev2.executor import Executor


@dataclass(frozen=True, slots=True)
class Counters:
    """Data packets and their wire bytes, first transmissions and retransmissions; without
    acknowledgements."""

    packets_sent: int
    retransmitted: int
    duplicates: int
    bytes_sent: int

    @classmethod
    def of(cls, executor: Executor) -> Counters:
        """All counts until now."""
        pairs = executor.pairs.values()
        return cls(
            sum(pair.sender.transmissions for pair in pairs),
            sum(pair.sender.retransmitted for pair in pairs),
            sum(pair.receiver.duplicates for pair in pairs),
            sum(pair.sender.wire_bytes for pair in pairs),
        )

    def since(self, earlier: Counters) -> Counters:
        return Counters(*(a - b for a, b in zip(astuple(self), astuple(earlier), strict=True)))
