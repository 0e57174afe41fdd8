"""Which links are measured by trains of back-to-back packets, on a lab and in the model.

A single packet proves nothing: the bucket lets it through at full speed. A train waits in the queue.
"""

import numpy as np

from railweave.framework.health.loss import packets_to_end, speed_at_loss
from railweave.framework.health.smoothing import SLOW
from railweave.framework.hookspecs import LinkState
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.model.arrays import Bool, Float, Int64

IDLE_S = 1.0
"""Seconds without data after which a link is idle, so that a train delays nothing."""
PERIOD_S, SHORT_PERIOD_S = 2.0, 1.0
"""Seconds between two trains over a link; the shorter one where it loses packets, or comes and goes."""
FASTER = 1.25
"""A link that its last train showed to be faster than before by this much gets the next one at once: it may
have become healthy while that train was on its way."""
BUSY_SHARE, IDLE_PACKETS = 0.01, 4
"""Of a link's time that trains may take while it carries data, which waits for them; it does while it was
never without data for as long as this many packets take, the pauses within a step, besides the time that a
train through its switch took: the data that it holds up comes later."""
SHORTEST = 12
"""Full packets that prove a rate. Where no more are sent, they go in pieces, since data waits for the packet
that is being sent: where steps are a packet each, waiting for a full one doubles them."""
LOSS_MOST_PACKETS = 320
"""Of trains that are to show whether a loss is over, as many as it takes: at a loss of 3 % 303."""
SHORTER_BYTES = 512
"""Of the packets of these, and of the pieces of others."""


class TrainTimes:
    """When each link last carried traffic and data, stated its rate and got a train, and who gets the next.

    `fill_s`: how long a train keeps a healthy link busy; `extra`: packets of a train in addition to those.
    `shown` (L,): links whose rate trains can show; None: all.
    `out` (L,): links whose train is under way, which the owner clears. `wanted`: links whose rate is not
    known well enough, as far as was last said.
    """

    def __init__(
        self,
        fabric: Fabric,
        packet: PacketFormat,
        fill_s: float,
        extra: int = 0,
        shown: Bool | None = None,
    ) -> None:
        n = fabric.n_links
        self._shown = np.ones(n, bool) if shown is None else shown
        self._fabric, self.packet_bytes = fabric, packet.full_packet_bytes
        fill = fabric.capacity_bps * fill_s / (8 * self.packet_bytes)
        self._packets = np.maximum(SHORTEST, np.ceil(fill) + extra)
        self._traffic_s, self._data_s, self._stated_s, self._held_s = np.zeros((4, n))
        """The last: for how long one train through the switch of a link may have delayed its data since some
        came. Trains one after the other do not add up: between them data comes, if there is any."""
        self.sent_s = np.full(n, -np.inf)
        self.out, self._unknown, self._doubtful = np.zeros((3, n), bool)
        self._told_bps = fabric.capacity_bps.copy()
        self._links: LinkState | None = None
        self.wanted: Int64 = np.empty(0, np.int64)
        self._unknown_at: Bool = np.empty(0, bool)
        self._known_bps, self._period_s = np.empty((2, 0))
        """Of the wanted links: whether their rate is unknown, what is known of it, and from when on after a
        train another may follow."""

    def seen(self, now_s: float, traffic: Bool | Int64, data: Bool | Int64, stated: Bool | Int64) -> None:
        """Links that carried anything until now, links that carried data, and links whose rate that has
        stated; what trains sent is none of it."""
        self._traffic_s[traffic] = self._data_s[data] = self._stated_s[stated] = now_s
        self._held_s[data] = 0.0

    def due(self, now_s: float, links: LinkState) -> Int64:
        """The links that need a train now, which is under way from then on: at once links that became unknown
        or outdated, later slow ones whose traffic says nothing of their rate, and idle ones that lose
        packets, are doubted or share a switch with such a link, as a link fed by a slow link builds no queue.
        `now_s`: time of the last measurement. Called again with the same `links`, it looks at the wanted ones
        alone."""
        element = self._fabric.link_element
        if self.out.any():
            longest_s = np.zeros(self._fabric.n_nodes + 1)  # links of no switch: the last one
            np.maximum.at(longest_s, element[self.out], now_s - self.sent_s[self.out])
            self._held_s = np.maximum(self._held_s, np.minimum(longest_s[element], now_s - self._data_s))
        again = links is self._links
        if not again:
            self._links, self.wanted = links, self._wanting(links)
        at = self.wanted
        if not len(at):
            self._unknown[:] = False
            return at
        line_bps, sent_s = self._fabric.capacity_bps[at], self.sent_s[at]
        if not again:
            self._unknown_at = (links.unknown | links.outdated)[at]
            self._known_bps = np.fmin(links.service_bps[at], line_bps)
            self._period_s = np.where(((links.loss > 0) | links.doubted)[at], SHORT_PERIOD_S, PERIOD_S)
        unknown, known_bps = self._unknown_at, self._known_bps
        rested = now_s - sent_s > self._period_s
        rested |= known_bps > FASTER * self._told_bps[at]
        if again and not (rested | (unknown & ~self._unknown[at])).any():
            return at[:0]
        since_s = np.where(known_bps < SLOW * line_bps, self._stated_s[at], self._traffic_s[at])
        packet_s = self.packet_bytes * 8 / known_bps
        quiet_s = now_s - self._data_s[at] - self._held_s[at]
        idle = quiet_s > np.maximum(IDLE_S, IDLE_PACKETS * packet_s)
        bearable = idle | (now_s - sent_s > self._packets[at] * packet_s / BUSY_SHARE)
        slow = self._doubtful[at] & (now_s - since_s > IDLE_S) & rested & bearable
        due = (slow | (unknown & (rested | ~self._unknown[at]))) & links.up[at] & ~self.out[at]
        tried = unknown & (self._unknown[at] | due)
        self._unknown[:] = False
        self._unknown[at] = tried
        chosen: Int64 = at[due]
        self.sent_s[chosen], self.out[chosen], self._told_bps[chosen] = now_s, True, known_bps[due]
        return chosen

    def trains(self, at: Int64, links: LinkState) -> tuple[Float, Float]:
        """Of a train for each of the links `at`: its packets, and the bytes of each. Full packets, unless
        few are enough; as many short ones as it takes over a link that loses packets and is not slow."""
        fast = links.service_bps[at] >= SLOW * self._fabric.capacity_bps[at]
        of_loss = (links.loss[at] > 0) & fast & ~links.unknown[at]
        to_end = np.nan_to_num(packets_to_end(links.loss[at]), posinf=0.0) + 2  # two that are not counted yet
        many = np.clip(np.floor(to_end), SHORTEST, LOSS_MOST_PACKETS)
        few, shorter = self._packets[at] <= SHORTEST, min(self.packet_bytes, SHORTER_BYTES)
        size = np.where(of_loss | few, shorter, self.packet_bytes)
        packets = np.where(of_loss, many, np.ceil(self._packets[at] * self.packet_bytes / size))
        return packets, size.astype(np.float64)

    def _wanting(self, links: LinkState) -> Int64:
        """Slow, lossy, unknown, outdated and doubted links, and the others of switches with a slow or lossy
        one."""
        slow: Bool = links.service_bps < SLOW * self._fabric.capacity_bps
        if links.loss.any():
            slow |= speed_at_loss(links.loss) < SLOW
        tainted = np.zeros(self._fabric.n_nodes + 1, bool)
        tainted[self._fabric.link_element[slow]] = True
        tainted[-1] = False  # links of no switch
        self._doubtful = slow | tainted[self._fabric.link_element] | links.doubted
        return np.flatnonzero((self._doubtful | links.unknown | links.outdated) & self._shown)
