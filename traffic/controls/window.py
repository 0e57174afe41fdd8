"""A fixed window, as large as links allow."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.hookspecs import CongestionControl
from railweave.framework.hookspecs.congestion import NEVER

WINDOW = "window"
LEAST_PACKETS, MOST_PACKETS, SPAN = 8, 64, 256
"""Of a window: what a pair has at least; at most, before what long paths hold; and at most in all."""
LINK_PACKETS = 8
"""For each link of a path beyond the second, there and on the way back."""
QUEUE_S = 400e-9
"""Declared time at the pair's own rate that a window may fill: the transport's `target_delay` of 60 ms at the
rate scale of the main job, 6.6e-6."""
PICOSECOND = 1e-12
"""In seconds."""


class Window(CongestionControl):
    """As many packets under way as the paths hold; nothing slows a pair down.

    On the lab this is the transport by itself, with its options `target_delay`, `min_window` and
    `max_window` and the machine's load (traffic/rocev2/tuning.py, congestion.py). Elsewhere it is what these
    options give by default: QUEUE_S of the line between LEAST_PACKETS and MOST_PACKETS, LINK_PACKETS for each
    link beyond the second, and the bytes that the line carries in a round trip.
    """

    summary = "a fixed window, as large as links allow"
    follows_links = True
    state = np.dtype([("window", np.float64), ("rate", np.float64), ("wake", np.int64)])

    def sender_record(self) -> NDArray[np.void]:
        return np.zeros(1, self.state)

    @staticmethod
    def start(s: Any, now: int, line_rate: float, base_rtt: int, hops: int, mtu: int) -> None:
        packets = min(max(line_rate * QUEUE_S / mtu, LEAST_PACKETS), MOST_PACKETS)
        packets += LINK_PACKETS * max(hops - 2, 0) + line_rate * base_rtt * PICOSECOND / mtu
        s["window"] = min(packets, SPAN) * mtu
        s["rate"] = line_rate
        s["wake"] = NEVER
