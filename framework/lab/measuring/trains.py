"""Short trains of back-to-back packets, which measure slow links again once traffic has left them.

A single packet proves nothing: the bucket lets it through at full speed. A train waits in the queue.
"""

from dataclasses import replace

import numpy as np

from railweave.framework.health.loss import packets_to_end, speed_at_loss
from railweave.framework.hookspecs import LinkState
from railweave.framework.lab.switching.controller_link import Train
from railweave.framework.lab.switching.shaping import SHORT_BYTES
from railweave.framework.model import Fabric, Measurement, PacketFormat
from railweave.framework.model.arrays import Int64

IDLE_S = 1.0
PERIOD_S, LOSSY_PERIOD_S = 2.0, 1.0
BUSY_SHARE, IDLE_TRAINS = 0.01, 4
"""Of a link's time that trains may take while it carries data, which waits for them; it does while it was
never without data for as long as this many trains take."""
SLOW = 0.9
"""A link whose kept service rate is below this share of its rate, or whose loss leaves less, is measured
again."""

SHORTEST = 12
LOSS_PACKET_BYTES, LOSS_MOST_PACKETS = 512, 320
"""Of trains that are to show whether a loss is over, as many as it takes: at a loss of 3 % 303."""


class Prober:
    """Decides which links need a train, and removes the trains' own queues from the measurement.

    `fill_s`: how long a train keeps a healthy link busy; `extra`: packets of a train in addition to those.
    """

    def __init__(self, fabric: Fabric, packet: PacketFormat, fill_s: float, extra: int = 0) -> None:
        self._fabric = fabric
        self._size = packet.full_packet_bytes
        fill = fabric.capacity_bps * fill_s / (8 * self._size)
        self._packets = np.maximum(SHORTEST, np.ceil(fill) + extra).astype(int)
        self._busy_at, self._data_at, self._stated_at = np.zeros((3, fabric.n_links))
        self._sent_at = np.full(fabric.n_links, -np.inf)
        self._out, self._unknown = np.zeros((2, fabric.n_links), bool)

    def cleaned(self, measurement: Measurement) -> Measurement:
        """The measurement without the queues of our own trains."""
        now = measurement.t_s
        self._out &= (measurement.queue_bytes > 0) | (now - self._sent_at < IDLE_S / 2)
        traffic = (measurement.sent_packets > 0) & ~self._out
        self._busy_at = np.where(traffic, now, self._busy_at)
        data = measurement.sent_bytes > SHORT_BYTES * measurement.sent_packets  # not acknowledgements alone
        self._data_at = np.where(data & ~self._out, now, self._data_at)
        self._stated_at = np.where(traffic & ~np.isnan(measurement.service_bps), now, self._stated_at)
        return replace(measurement, queue_bytes=np.where(self._out, 0.0, measurement.queue_bytes))

    def due(self, now: float, links: LinkState) -> Int64:
        """The links that need a train now, each of which the caller sends: at once those that became unknown,
        later slow ones whose traffic says nothing of their rate, and idle ones that are lossy or share a
        switch with those, since a link fed by a slow link builds no queue. `now`: time of the last
        measurement."""
        slow = links.service_bps < SLOW * self._fabric.capacity_bps
        since = np.where(slow, self._stated_at, self._busy_at)
        slow |= speed_at_loss(links.loss) < SLOW
        tainted = np.zeros(self._fabric.n_nodes + 1, bool)
        tainted[self._fabric.link_element[slow]] = True
        tainted[-1] = False  # links of no switch
        rested = now - self._sent_at > np.where(links.loss > 0, LOSSY_PERIOD_S, PERIOD_S)
        train_s = self._packets * self._size * 8 / np.fmin(links.service_bps, self._fabric.capacity_bps)
        idle = now - self._data_at > np.maximum(IDLE_S, IDLE_TRAINS * train_s)
        bearable = idle | (now - self._sent_at > train_s / BUSY_SHARE)
        again = (slow | tainted[self._fabric.link_element]) & (now - since > IDLE_S) & rested & bearable
        due = (again | (links.unknown & (rested | ~self._unknown))) & links.up & ~self._out
        self._unknown = links.unknown & (self._unknown | due)
        self._sent_at = np.where(due, now, self._sent_at)
        self._out |= due
        return np.flatnonzero(due)

    def train(self, link: int, links: LinkState) -> Train:
        """Full packets, which wait; many short ones over a link that loses packets and is not slow."""
        fast = links.service_bps[link] >= SLOW * self._fabric.capacity_bps[link] and not links.unknown[link]
        if links.loss[link] > 0 and fast:
            packets = min(float(packets_to_end(links.loss[link])) + 2, LOSS_MOST_PACKETS)
            return Train.over(self._fabric, link, int(max(packets, SHORTEST)), LOSS_PACKET_BYTES)
        return Train.over(self._fabric, link, int(self._packets[link]), self._size)
