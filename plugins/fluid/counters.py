"""What every link has sent, and lost: the counters of the links of a model."""

import numpy as np

from railweave.framework.model import PacketFormat
from railweave.framework.model.arrays import Float
from railweave.framework.model.findings import LinkTotals


class Counters:
    """(L,) each: bits, packets and lost packets that links have sent so far. What links lose is sent again
    and counts each time; packets are full ones of `packet_bytes`, but those of trains."""

    def __init__(self, n_links: int, packet: PacketFormat) -> None:
        self.packet_bytes = np.full(n_links, float(packet.full_packet_bytes))
        self._packet_bits = 8.0 * packet.full_packet_bytes
        self._carried_bits = np.zeros(n_links)
        self._again_bits, self._train_bits, self._more_packets, self._lost = np.zeros((4, n_links))

    def count(self, carried_bits: Float, loss: Float | None) -> None:
        """Flows have carried so much so far, since the last call with this `loss` (L,), 0..1, or none."""
        carried_bits = np.maximum(carried_bits, self._carried_bits)  # summed in another order after a fault
        if loss is not None:
            new = carried_bits - self._carried_bits
            again = np.divide(new * loss, 1 - loss, out=np.zeros(len(loss)), where=loss < 1)
            self._again_bits += again
            self._more_packets += again / self._packet_bits
            self._lost += (new + again) * loss / self._packet_bits
        self._carried_bits = carried_bits

    def add(self, packets: Float, packet_bytes: Float | float, loss: Float) -> None:
        """Of trains, and of senders that try a path: packets (L,) of `packet_bytes` each."""
        self._train_bits += 8 * packets * packet_bytes
        self._more_packets += packets
        self._lost += packets * loss

    def data_bytes(self) -> Float:
        """(L,): what flows have sent, without trains."""
        return (self._carried_bits + self._again_bits) / 8

    def sent(self) -> tuple[Float, Float]:
        """(L,) each: all bytes and packets that links have sent."""
        bits = self._carried_bits + self._again_bits + self._train_bits
        return bits / 8, self._carried_bits / self._packet_bits + self._more_packets

    def totals(self) -> LinkTotals:
        return LinkTotals(*self.sent(), np.zeros(len(self._lost)), self._lost)
