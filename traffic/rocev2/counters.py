"""What the transport has counted since it started, summed over pairs."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from railweave.traffic.rocev2.engine import Engine


@dataclass(frozen=True, slots=True)
class Counters:
    """Data packets and their wire bytes, first sendings and repetitions together; acknowledgements not counted."""

    packets_sent: int
    retransmitted: int
    duplicates: int
    bytes_sent: int

    @classmethod
    def of(cls, engine: Engine) -> Counters:
        """All counts until now."""
        pairs = engine.pairs.values()
        return cls(
            sum(pair.sender.transmissions for pair in pairs),
            sum(pair.sender.retransmitted for pair in pairs),
            sum(pair.receiver.duplicates for pair in pairs),
            sum(pair.sender.wire_bytes for pair in pairs),
        )

    def since(self, earlier: Counters) -> Counters:
        return Counters(*(a - b for a, b in zip(astuple(self), astuple(earlier), strict=True)))
