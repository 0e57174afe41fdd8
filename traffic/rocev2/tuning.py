"""The options of the transport, as senders use them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from railweave.framework.model.arrays import Float, Int64
from railweave.framework.parameters import Parameter

SPAN = 256
"""Packets that one pair may have between the first missing one and the last one sent: the reach of the bitmap
in an acknowledgement."""
TIMEOUTS = 4
"""Timeouts without progress after which a pair fails, at least."""
PATH_PACKETS = 2
"""Every path of a pair needs one packet in flight and one behind it."""
LINK_PACKETS = 4
"""What a pair may have at each link beyond the second of a path, there and on the way back, besides its
window: queues are first in, first out, so that its share of a link is its share of the queue there."""

Floats = tuple[float, ...]

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
        """The window of one pair over these paths (`windows`)."""
        return _window(self, tuple(rates_bps), tuple(depths), tuple(latencies_s), packet_bytes)

    def windows(
        self,
        rates_bps: Float,
        depths: Float,
        latencies_s: Float,
        pair: Int64,
        n_pairs: int,
        packet_bytes: int,
    ) -> Int64:
        """(n_pairs,): packets in flight that keep `target_delay` of queue at the rate of all paths of a pair
        together. Of each path, (Q,): its rate, depth, latency and pair.

        A path of a depth of more than two packets holds more: LINK_PACKETS for each further link of it, and
        as many for the way back, where acknowledgements wait behind data. A path with a latency also holds
        the packets of one round trip. Both may exceed `max_window`, up to SPAN.
        """
        packet_bits = 8 * packet_bytes
        wanted = np.ceil(np.bincount(pair, rates_bps, n_pairs) * self.target_delay / packet_bits)
        wanted = np.maximum(wanted, self.min_window)
        wanted = np.maximum(wanted, PATH_PACKETS * np.bincount(pair, minlength=n_pairs))
        beyond = np.ceil(np.maximum(2 * LINK_PACKETS * (depths - 2), 0) - 1e-9)
        beyond += np.ceil(2 * rates_bps * latencies_s / packet_bits)
        window = np.clip(wanted, 1, self.max_window) + np.bincount(pair, beyond, n_pairs)
        return np.minimum(window, SPAN).astype(np.int64)


@cache
def _window(tuning: Tuning, rates_bps: Floats, depths: Floats, latencies_s: Floats, packet_bytes: int) -> int:
    """Kept, as many pairs have paths that are alike."""
    rates, path_depths, latencies = (
        np.array(values, np.float64) for values in (rates_bps, depths, latencies_s)
    )
    pair = np.zeros(len(depths), np.int64)
    return int(tuning.windows(rates, path_depths, latencies, pair, 1, packet_bytes)[0])


def acknowledge_every(window: int) -> int:
    """One packet in this many asks for an acknowledgement: at least four per window, but no more than one
    packet in 8 until there are eight per window. Switches pay for packets, not for bytes."""
    return max(1, min(window // 4, max(8, window // 8)))
