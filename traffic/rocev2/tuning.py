"""The options of the transport, as senders use them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from railweave.framework.parameters import Parameter

SPAN = 256
"""Packets that one pair may have between the first missing one and the last one sent: the reach of the bitmap
in an acknowledgement."""
PATH_PACKETS = 2
"""Every path of a pair needs one packet in flight and one behind it."""
LINK_PACKETS = 4
"""What a pair may have at each link beyond the second of a path, there and on the way back, besides its
window: queues are first in, first out, so that its share of a link is its share of the queue there."""

PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "target_delay",
        0.06,
        "time",
        "queueing delay that the window of a pair may cause at its own rate",
        minimum=0,
    ),
    Parameter("min_window", 8, "count", "smallest window of a pair, in packets", minimum=1, maximum=SPAN),
    Parameter(
        "max_window",
        64,
        "count",
        "largest window of a pair, in packets, before what long paths and latencies hold",
        minimum=1,
        maximum=SPAN,
    ),
    Parameter(
        "send_budget_bytes",
        0,
        "bytes",
        "most bytes that all ranks together have in flight; 0: no limit",
        minimum=0,
    ),
    Parameter(
        "dead_after",
        4.5,
        "time",
        "a pair without progress for this long (or four timeouts) fails the run",
        minimum=0.1,
    ),
)


@dataclass(frozen=True, slots=True)
class Tuning:
    """Option values in packets, bytes and seconds; names as in PARAMETERS."""

    target_delay: float = 0.06
    min_window: int = 8
    max_window: int = 64
    send_budget_bytes: int = 0
    dead_after: float = 4.5

    def window(
        self,
        rates_bps: Sequence[float],
        depths: Sequence[float],
        latencies_s: Sequence[float],
        packet_bytes: int,
    ) -> int:
        """Packets in flight that keep `target_delay` of queue at the rate of all paths together.

        A path of a depth of more than two packets holds more: LINK_PACKETS for each further link of it, and
        as many for the way back, where acknowledgements wait behind data. A path with a latency also holds
        the packets of one round trip. Both may exceed `max_window`, up to SPAN.
        """
        packet_bits = 8 * packet_bytes
        wanted = ceil(sum(rates_bps) * self.target_delay / packet_bits)
        wanted = max(wanted, self.min_window, PATH_PACKETS * len(depths))
        held = sum(ceil(2 * LINK_PACKETS * (depth - 2) - 1e-9) for depth in depths if depth > 2)
        in_flight = sum(
            ceil(2 * rate * latency / packet_bits)
            for rate, latency in zip(rates_bps, latencies_s, strict=True)
        )
        return min(max(min(wanted, self.max_window), 1) + held + in_flight, SPAN)


def acknowledge_every(window: int) -> int:
    """One packet in this many asks for an acknowledgement: at least four per window, but no more than one
    packet in 8 until there are eight per window. Switches pay for packets, not for bytes."""
    return max(1, min(window // 4, max(8, window // 8)))
