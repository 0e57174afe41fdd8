"""Re-measuring slow links that their traffic has left: short trains of back-to-back packets.

One packet proves nothing, since a token bucket gives it away; a train that waits in the queue does.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from railweave.framework.hookspecs import LinkState
from railweave.framework.model import Fabric, Measurement, PacketFormat
from railweave.framework.model.arrays import Bool

IDLE_S = 1.0
PERIOD_S = 2.0
SLOW = 0.9
"""A link whose kept service rate is below this share of its rate is worth asking again."""

LOOKS = 5
SHORTEST = 12


class Prober:
    """Decides which links need a train, and keeps a train's own queue out of the measurement."""

    def __init__(self, fabric: Fabric, packet: PacketFormat, interval_s: float) -> None:
        self._fabric = fabric
        self._size = packet.full_packet_bytes
        fill = fabric.capacity_bps * interval_s * LOOKS / (8 * self._size)
        self._packets = np.maximum(SHORTEST, np.ceil(fill)).astype(int)
        self._busy_at = np.zeros(fabric.n_links)
        self._sent_at = np.full(fabric.n_links, -np.inf)
        self._out = np.zeros(fabric.n_links, bool)

    def look(
        self, measurement: Measurement, links: LinkState
    ) -> tuple[Measurement, list[tuple[int, int, int, int]]]:
        """The measurement without the queues of our own trains, and the trains to send now:
        (switch, port, packets, bytes of each)."""
        now = measurement.t_s
        self._out &= (measurement.queue_bytes > 0) | (now - self._sent_at < IDLE_S / 2)
        traffic = (measurement.sent_packets > 0) & ~self._out
        self._busy_at = np.where(traffic, now, self._busy_at)
        due = (
            self._suspect(links)
            & links.up
            & (now - self._busy_at > IDLE_S)
            & (now - self._sent_at > PERIOD_S)
            & ~self._out
        )
        self._sent_at = np.where(due, now, self._sent_at)
        cleaned = replace(measurement, queue_bytes=np.where(self._out, 0.0, measurement.queue_bytes))
        self._out |= due
        trains = [
            (int(self._fabric.link_src[i]), int(self._fabric.link_port[i]), int(self._packets[i]), self._size)
            for i in np.flatnonzero(due)
        ]
        return cleaned, trains

    def _suspect(self, links: LinkState) -> Bool:
        """(n_links,): slow when last seen busy, or part of a switch with such a link: what feeds a slow link never
        lets the links behind it fill, so only a train shows what they can do."""
        slow = links.service_bps < SLOW * self._fabric.capacity_bps
        element = self._fabric.link_element
        tainted = np.zeros(self._fabric.n_nodes + 1, bool)
        tainted[element[slow]] = True
        tainted[-1] = False  # links of no switch
        return slow | tainted[element]
