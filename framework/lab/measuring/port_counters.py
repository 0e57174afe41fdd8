"""Queues and service rates from the byte counters of switch ports: arithmetic alone, without clocks or
processes.

A switch conserves bytes: those that its ports received less those that they sent are queued in it. How many
were queued when counting began is unknown, and dropped bytes leave by no port; so queued bytes are counted
from a base, the lowest balance of the last seconds, and counting starts again whenever the switch was idle.
"""

from collections import deque
from typing import NamedTuple

import numpy as np

from railweave.framework.health.rate_filter import RateFilter
from railweave.framework.lab.measuring.train_timing import DELAY_S, LOST_S
from railweave.framework.lab.switching.controller_link import Train
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.model.arrays import Bool, Float, Int64

DPID, PORT, RX_BYTES, TX_BYTES, TX_PACKETS, AGE_MS = range(6)
"""Columns of a report (PORT_COLUMNS of controllers/reports.py)."""
EVIDENT_PACKETS = 16
"""Packets of one observation of a rate, however many intervals they take."""

STALE_S = 3.0
"""Seconds after which intervals are added up no further: the rate may have changed meanwhile."""

TORN_S = 0.002
"""Seconds between the readings of a switch's ports from which they say nothing about its queues. Ages of
ports are whole milliseconds, so less is not visible; what a link sends meanwhile is the error of its
queue."""

LAG_S = 0.01
"""Longest time, in seconds, that bytes are inside a busy switch without being queued at a port."""

READINGS = 15
"""Readings over which the usual time between the reports of a switch's ports is the median."""
REST_S, SILENT_S = 0.2, 0.5
"""Seconds without any change after which a switch is empty, and after which a silent link holds no train."""

WINDOW_S = 1.0
"""Seconds of a window; the base is the lowest balance of this one and the one before."""

LEAST_S = 0.04
"""Shortest time, in seconds, over which a rate is read: ages are whole milliseconds, so over less it would
err by several per cent."""

TRAIN_ROUNDS = 3
"""Rounds after the end of a train in which the balances of its switches are ignored."""


class Round(NamedTuple):
    """Result of one round of counters, as arrays of n_links; `service_bps` NaN where it is uncertain,
    `queue_bytes` as of the previous round."""

    sent_bytes: Float
    sent_packets: Float
    queue_bytes: Float
    service_bps: Float


class PortCounters:
    """Takes rounds of counters in their order.

    The bytes queued in a switch are attributed to the ports that sent them afterwards, so queues are known a
    round late. A link was backlogged for a whole interval if its switch held more for it at the beginning
    than it sent: then it was never idle, since queues are first in, first out. "For it" means beyond what the
    other ports sent, and only if none of them sent data in this interval and the previous one. A link was
    also backlogged if a train of ours is in its queue and it has sent less than the train. Bytes over time of
    such intervals is an observation of the service rate, once they contain enough packets.
    """

    def __init__(self, fabric: Fabric, packet: PacketFormat) -> None:
        self._fabric, self._full = fabric, packet.full_packet_bytes
        n, nodes = fabric.n_links, fabric.n_nodes
        ports = int(fabric.link_port.max(initial=1)) + 1
        self._link_of = np.full((nodes, ports), -1)
        self._link_of[fabric.link_src, fabric.link_port] = np.arange(n)
        self._passing, self._passing_most = np.zeros(nodes), fabric.capacity_bps * LAG_S / 8
        self._slack = self._full + fabric.capacity_bps * TORN_S / 8
        self._last, self._rx = np.zeros((3, n)), np.zeros(n)  # bytes and packets sent, age; bytes received
        self._sums, self._since = np.zeros((3, n)), np.zeros(n)  # of busy intervals: bytes, packets, seconds
        self._rates = RateFilter(fabric.capacity_bps, fabric.link_element, DELAY_S)
        self._share, self._only, self._moving = np.zeros(n), np.zeros(n, bool), np.zeros(n, bool)
        self._balance, self._held = np.zeros(nodes), np.zeros(nodes)
        self._low, self._low_before = np.full(nodes, np.inf), np.full(nodes, np.inf)
        self._turned, self._known = np.zeros(nodes), np.zeros(nodes, bool)
        self._offsets: deque[Float] = deque(maxlen=READINGS)
        self._train, self._train_tx, self._train_at, self._train_end = (np.zeros(n) for _ in range(4))
        self._queued = np.zeros(n, bool)
        self._troubled, self._still, self._silent = np.zeros(nodes, int), np.zeros(nodes), np.zeros(n)

    def sent_train(self, train: Train, now_s: float) -> None:
        """The rounds from now on see a train of ours in the queue of its link: it entered its switch by no
        port, and leaves the next one by none."""
        link, size_bytes = self._link_of[train.switch, train.port], train.packets * train.size_bytes
        self._train[link], self._train_tx[link], self._train_at[link] = size_bytes, self._last[0, link], now_s
        self._train_end[link] = np.inf

    def forget(self) -> None:
        """Start again: what happened since the last round is unknown."""
        self._known[:] = False
        self._train[:] = 0.0

    def count(self, rows: Int64, now_s: float) -> Round:
        """The interval since the previous round. `rows`: (n, 6) as in PortCounts; `now_s`: any clock.

        Links of switches without an answer, or with their first one, show nothing.
        """
        fabric, source = self._fabric, self._fabric.link_src
        node = rows[:, DPID] - 1
        links = self._link_of[node, rows[:, PORT]]
        counters = rows[links >= 0].T  # a host's port has no link
        links = links[links >= 0]
        now, rx = self._last.copy(), self._rx.copy()
        now[:, links] = counters[TX_BYTES], counters[TX_PACKETS], counters[AGE_MS] / 1e3
        rx[links ^ 1] = counters[RX_BYTES]  # a port receives what the cable's other direction carries
        answered = np.bincount(node, minlength=fabric.n_nodes) > 0
        reborn = np.bincount(source[now[2] < self._last[2]], minlength=fabric.n_nodes) > 0
        known_nodes, self._known = answered & self._known & ~reborn, answered
        mine = known_nodes[source]
        sent, sent_packets, elapsed = np.where(mine, now - self._last, 0.0)
        came = np.where(known_nodes[fabric.link_dst], rx - self._rx, 0.0)
        rest_of_train = self._trains(now[0], elapsed, now_s)
        sound = self._whole(rows, node, answered) & (self._troubled == 0)

        balance = np.bincount(node, rows[:, RX_BYTES] - rows[:, TX_BYTES], fabric.n_nodes).astype(np.float64)
        balance = np.where(answered, balance, self._balance)
        held_bytes = self._over_base(balance, known_nodes, sound, sent, came, elapsed, now_s)
        data = (sent > 0) & (sent >= sent_packets * self._full / 4)  # acknowledgements are short
        others = np.bincount(source, sent, fabric.n_nodes)[source] - sent
        alone = self._alone(data)
        spare = self._held[source] - self._passing[source] - self._slack - others
        backlogged = alone & self._only & self._moving & (spare >= sent)
        in_train = self._queued & (rest_of_train > self._full)
        service = self._add_up(mine & (backlogged | in_train), sent, sent_packets, elapsed, now_s)
        self._only, self._moving = alone, backlogged | (sent > 0)
        queue = np.where(self._train > 0, rest_of_train, self._attribute(self._held, sent, data))
        self._last, self._rx = now, rx
        self._balance, self._held, self._queued = balance, held_bytes, self._train > 0
        passing = np.minimum(came, self._passing_most)
        self._passing = np.bincount(fabric.link_dst, passing, fabric.n_nodes).astype(np.float64)
        return Round(sent, sent_packets, queue, service)

    def _trains(self, tx: Float, elapsed: Float, now_s: float) -> Float:
        """(n_links,): bytes that must still be in each link's queue since its train was queued. While a train
        is under way, and shortly after, the balances of both its switches are invalid.

        Bytes sent in the interval in which the train arrived may have preceded it: the train ends when the
        link has sent as many bytes after that interval, or has fallen silent.
        """
        out = self._train > 0
        left = np.where(out, self._train - (tx - self._train_tx), 0.0)
        self._silent = np.where(self._queued & (tx == self._last[0]), self._silent + elapsed, 0.0)
        self._train_end = np.where(out & np.isinf(self._train_end), tx + self._train, self._train_end)
        ended = (self._silent >= SILENT_S) | (tx >= self._train_end) | (now_s - self._train_at > LOST_S)
        self._troubled = np.maximum(self._troubled - 1, 0)
        for end in (self._fabric.link_src, self._fabric.link_dst):
            self._troubled[end[out]] = TRAIN_ROUNDS
        self._train[ended] = 0.0
        return np.maximum(left, 0.0)

    def _whole(self, rows: Int64, node: Int64, answered: Bool) -> Bool:
        """(n_nodes,): whether all ports of a switch were read together, so that their ages differ as
        usual."""
        ages = np.full(self._link_of.shape, np.nan)
        ages[node, rows[:, PORT]] = rows[:, AGE_MS] / 1e3
        offsets = ages - np.fmin.reduce(ages, axis=1)[:, None]
        self._offsets.append(offsets)
        usual = np.median(np.stack(self._offsets), axis=0)
        apart = np.abs(offsets - usual) >= TORN_S
        complete: Bool = answered & ~apart.any(axis=1)
        return complete

    def _over_base(
        self,
        balance: Float,
        known_nodes: Bool,
        sound: Bool,
        sent: Float,
        came: Float,
        elapsed: Float,
        now_s: float,
    ) -> Float:
        """(n_nodes,): bytes queued in each switch; 0 where unknown."""
        fabric = self._fabric
        moved = np.bincount(fabric.link_src, sent, fabric.n_nodes)
        moved += np.bincount(fabric.link_dst, came, fabric.n_nodes)
        shortest = np.full(fabric.n_nodes, np.inf)
        np.minimum.at(shortest, fabric.link_src, elapsed)
        stood = known_nodes & (moved == 0) & (balance == self._balance) & np.isfinite(shortest)
        self._still = np.where(stood, self._still + shortest, 0.0)
        fresh = (self._still >= REST_S) | ~known_nodes | (self._troubled > 0)
        self._low[fresh], self._low_before[fresh], self._turned[fresh] = balance[fresh], np.inf, now_s
        turn = sound & (now_s - self._turned > WINDOW_S)
        self._low_before[turn], self._low[turn], self._turned[turn] = self._low[turn], np.inf, now_s
        self._low[sound] = np.minimum(self._low, balance)[sound]
        held_bytes = balance - np.minimum(self._low, self._low_before)
        return np.where(sound, np.maximum(held_bytes, 0.0), 0.0)

    def _alone(self, data: Bool) -> Bool:
        """(n_links,): the only link of its switch that sends data; while none does, the last one that did."""
        fabric = self._fabric
        senders = np.bincount(fabric.link_src, data, fabric.n_nodes)[fabric.link_src]
        return np.where(senders == 0, self._only, data & (senders == 1))

    def _add_up(self, busy: Bool, sent: Float, packets: Float, elapsed: Float, now_s: float) -> Float:
        """(n_links,): rates from intervals in which links were `busy`, NaN where none is stated."""
        begin = busy & ((self._sums[1] == 0) | (now_s - self._since > STALE_S))
        self._since[begin], self._sums[:, begin] = now_s, 0.0
        self._sums += np.where(busy, (sent, packets, elapsed), 0.0)
        at = np.flatnonzero(busy & (self._sums[1] >= EVIDENT_PACKETS) & (self._sums[2] >= LEAST_S))
        if not len(at):
            return np.full(len(busy), np.nan)
        sum_bytes, sum_packets, sum_s = self._sums[:, at]
        end_s2, now = (sum_s / sum_packets) ** 2 / 12, np.full(len(at), now_s)
        self._rates.add(at, self._since[at], now, 8 * sum_bytes, sum_s, 0 * end_s2, 2 * end_s2, 0 * end_s2)
        self._sums[1, at] = 0.0
        return np.where(self._rates.stated_s == now_s, self._rates.rate_bps, np.nan)

    def _attribute(self, held_bytes: Float, sent: Float, data: Bool) -> Float:
        """(n_links,): the bytes queued in each switch at the beginning of an interval, attributed to its
        links: to each what it sent during the interval, and the rest in proportion to the time that takes at
        line rate; to the links that sent last if none does."""
        fabric, source = self._fabric, self._fabric.link_src
        data_sent = np.where(data, sent, 0.0)
        total = np.bincount(source, data_sent, fabric.n_nodes)
        first = data_sent * np.minimum(1.0, held_bytes / np.maximum(total, 1.0))[source]
        needed = data_sent / fabric.capacity_bps
        of_node = np.bincount(source, needed, fabric.n_nodes)[source]
        active = of_node > 0
        self._share = np.where(active, needed / np.where(active, of_node, 1.0), self._share)
        return first + np.maximum(0.0, held_bytes - total)[source] * self._share
