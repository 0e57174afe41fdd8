"""How long a schedule takes over token buckets when nothing but its links and a known latency delays it."""

from heapq import heapify, heappop, heappush
from math import inf

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, RouteTable, Schedule
from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.model.routes import starts
from railweave.framework.routing.loads import link_loads

SLICES, SLICED = 32, 200_000
"""Parts in which a message takes each of several paths, fewer where all messages had more in all. Where paths
join again its packets come to a link more slowly than that could send them, and others pass between them."""


class Timeline:
    """A schedule over the routes of `table`, at the rates of `fabric`.

    A step of n packets over an idle link takes n - 1 packet times and the latency, because a token bucket
    lets the first packet go at once, on every link of the path: nothing is stored and forwarded. If the link
    still pays for packets before it, the step takes n packet times, and a latency of less than one packet is
    hidden (net/sched/sch_htb.c; limits/shaped.py). Messages of a pair are sent in the order of the schedule,
    and messages that meet at a link pass it in the order in which their first packets come to it; packets of
    a pair take its paths in turn, what takes one of several passing in parts.

    Times of a fabric at rate scale s are these over s, with a latency times s.
    """

    def __init__(self, fabric: Fabric, schedule: Schedule, table: RouteTable, packet: PacketFormat) -> None:
        self._fabric = fabric
        self._schedule = schedule = schedule.transfers
        pair_id = schedule.src.astype(np.int64) * fabric.n_gpus + schedule.dst
        pairs, self._pair = np.unique(pair_id, return_inverse=True)
        self._src, self._dst = np.divmod(pairs, fabric.n_gpus)
        batch = table.paths(self._src, self._dst)
        self._paths = [batch.paths(pair) for pair in range(len(pairs))]
        self._table = table
        self._packets = packets = np.maximum(1, -(-schedule.size // packet.path_mtu))
        padded = -(-schedule.size // 4) * 4
        self._bits = 8.0 * packet.wire_bytes_of(schedule.size)
        last = padded - (packets - 1) * packet.path_mtu + packet.HEADERS
        self._last_bits = 8.0 * (last + np.where(packets == 1, packet.RETH, 0))
        self._before = self._sent_before()
        self._after_start, self._after = self._waits()
        self._landed_s = dict[float, float]()

    def seconds(self, latency_s: float = 0.0) -> float:
        """Time until the last message has landed; every message lands `latency_s` after its last packet has
        left its last link. inf where a pair has no path."""
        if latency_s not in self._landed_s:
            self._landed_s[latency_s] = self._landed(latency_s) if all(self._paths) else inf
        return self._landed_s[latency_s]

    def _landed(self, latency_s: float) -> float:
        schedule, rates = self._schedule, self._fabric.capacity_bps.tolist()
        routes, pair, slices = self._routes(), self._pair.tolist(), self._slices()
        packets, bits, last_bits = self._packets.tolist(), self._bits.tolist(), self._last_bits.tolist()
        free = [0.0] * self._fabric.n_links
        waits = np.diff(self._after_start)
        behind = self._behind(waits)
        followers, first = self._followers()
        waiting, under_way, turn = waits.tolist(), [0] * schedule.n_transfers, [0] * len(routes)
        ready, landed = [0.0] * schedule.n_transfers, [0.0] * schedule.n_transfers
        # (when its first packet comes to the link, message, packets before, path or -1: all, link, bits, when
        # its last comes)
        heap = [(0.0, transfer, 0, -1, 0, 0.0, 0.0) for transfer in np.flatnonzero(waits == 0).tolist()]
        heapify(heap)

        def start(transfer: int, at: float) -> None:
            """Take note that one of those that `transfer` waits for is over."""
            ready[transfer] = now = max(ready[transfer], at)
            waiting[transfer] -= 1
            if not waiting[transfer]:
                heappush(heap, (now, transfer, 0, -1, 0, 0.0, now))

        while heap:
            now, transfer, before, route, hop, part, last = heappop(heap)
            if route < 0:
                n, among = packets[transfer], len(routes[pair[transfer]])
                slice_packets = among * -(-n // (among * slices)) if among > 1 else n
                for before in range(0, n, slice_packets):
                    remaining = min(slice_packets, n - before)
                    for ahead in range(min(remaining, among)):  # one packet to every path in turn, and again
                        part = bits[transfer] * ((remaining - ahead + among - 1) // among) / n
                        route = (turn[pair[transfer]] + before + ahead) % among
                        heappush(heap, (now, transfer, before + ahead, route, 0, part, now))
                        under_way[transfer] += 1
                turn[pair[transfer]] += n
                if (following := behind[transfer]) >= 0:
                    start(following, now)
                continue
            links, travel = routes[pair[transfer]][route]
            link = links[hop]
            begin = max(now, free[link])
            free[link] = begin + part / rates[link]
            last = max(last, begin + (part - min(part, last_bits[transfer])) / rates[link])
            if hop + 1 < len(links):
                heappush(heap, (begin, transfer, before, route, hop + 1, part, last))
                continue
            landed[transfer] = max(landed[transfer], last + travel + latency_s)
            under_way[transfer] -= 1
            if not under_way[transfer]:
                for following in followers[first[transfer] : first[transfer + 1]]:
                    start(following, landed[transfer])
        return max(landed, default=0.0)

    def _routes(self) -> list[list[tuple[tuple[int, ...], float]]]:
        """(links, their latency) of every path of every pair."""
        latencies = self._fabric.latency_s
        return [
            [(path.links, float(latencies[list(path.links)].sum())) for path in paths]
            for paths in self._paths
        ]

    def _slices(self) -> int:
        """Parts in which each message takes several paths, so that no more than SLICED hops are followed."""
        hops = np.array([sum(len(path.links) for path in paths) for paths in self._paths], np.int64)
        return min(SLICES, max(1, SLICED // max(1, int(hops[self._pair].sum()))))

    def latency_share(self, latency_s: float) -> float:
        """Part of `seconds(latency_s)` that the latency adds, 0..1."""
        late = self.seconds(latency_s)
        return 1 - self.seconds() / late if late > 0 else 0.0

    def shortest_step_s(self) -> float:
        """The least mean step of any phase: what its busiest link needs, or its longest chain of messages if
        that is longer, over the number of messages in that chain. inf where nothing is sent."""
        schedule, fabric = self._schedule, self._fabric
        slowest = np.array(
            [
                min((float(fabric.capacity_bps[list(path.links)].min()) for path in paths), default=inf)
                for paths in self._paths
            ]
        )
        alone = (self._bits / slowest[self._pair]).tolist() if schedule.n_transfers else []
        count, spent = np.zeros(schedule.n_transfers, np.int64), np.zeros(schedule.n_transfers)
        steps = []
        for phase in np.unique(schedule.phase):
            chosen = schedule.phase == phase
            for transfer in np.flatnonzero(chosen).tolist():
                after = schedule.after[schedule.after_start[transfer] : schedule.after_start[transfer + 1]]
                before = after[chosen[after]]
                count[transfer] = 1 + count[before].max(initial=0)
                spent[transfer] = alone[transfer] + spent[before].max(initial=0.0)
            longest = max(float(spent[chosen].max()), self._busiest_s(chosen))
            steps.append(longest / int(count[chosen].max()))
        return min(steps, default=inf)

    def _busiest_s(self, chosen: Bool) -> float:
        bits = np.bincount(self._pair[chosen], self._bits[chosen], len(self._src)).astype(np.float64)
        load = link_loads(self._fabric, self._table, self._src, self._dst, bits).load
        return float((load / self._fabric.capacity_bps).max())

    def _sent_before(self) -> Int64:
        """(n_transfers,): the message of the same pair that is sent before each, -1 for the first. A message
        starts later than it."""
        order = np.argsort(self._pair, kind="stable")
        same = self._pair[order[1:]] == self._pair[order[:-1]]
        before = np.full(len(order), -1)
        before[order[1:][same]] = order[:-1][same]
        return before

    def _waits(self) -> tuple[Int64, Int64]:
        """As `after_start` and `after`, without what the message of the same pair before waits for as well:
        the steps of a ring all wait for everything that the phase before did."""
        schedule, n = self._schedule, self._schedule.n_transfers
        row = np.repeat(np.arange(n), np.diff(schedule.after_start))
        before = self._before[row]
        edges, theirs = (some * n + schedule.after for some in (row, before))
        order = np.argsort(edges)
        place = np.minimum(np.searchsorted(edges, theirs, sorter=order), len(edges) - 1)
        repeated = (before >= 0) & (edges[order[place]] == theirs)
        return starts(np.bincount(row[~repeated], minlength=n)), schedule.after[~repeated]

    def _behind(self, waits: Int64) -> list[int]:
        """(n_transfers,): the next message of the same pair, -1 for the last. It waits for this one to start,
        which is added to `waits`."""
        later = np.flatnonzero(self._before >= 0)
        behind = np.full(len(self._before), -1)
        behind[self._before[later]] = later
        waits[later] += 1
        return list(map(int, behind))

    def _followers(self) -> tuple[list[int], list[int]]:
        """(the messages that wait for each, one message's behind another's; where each one's begin)."""
        n = self._schedule.n_transfers
        waiting = np.repeat(np.arange(n), np.diff(self._after_start))
        order = np.argsort(self._after, kind="stable")
        return waiting[order].tolist(), starts(np.bincount(self._after, minlength=n)).tolist()
