"""A schedule carried out packet by packet over links that are first in, first out."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from railweave.framework.model import Fabric, PacketFormat, RouteTable, Schedule
from tests.fakes.transfers import transfer_of


@dataclass(frozen=True)
class Simulated:
    """Seconds from the start: `begin_s`, `end_s` of each transfer. Of each link: bytes that it carried, and
    packets that waited for it."""

    begin_s: list[float]
    end_s: list[float]
    link_bytes: list[float]
    waited: list[int]


def simulate(
    schedule: Schedule, fabric: Fabric, table: RouteTable, rates_bps: Sequence[float], packet: PacketFormat
) -> Simulated:
    """Each pair sends its messages in the order of the schedule, each as soon as what it waits for has
    landed, its packets over the pair's paths in turn. Rank i is GPU i."""
    transfers = [transfer_of(schedule, i) for i in range(schedule.n_transfers)]
    waits = [len(t.after) for t in transfers]
    frees: list[list[int]] = [[] for _ in transfers]
    queues: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, t in enumerate(transfers):
        for before in t.after:
            frees[before].append(i)
        queues[t.src, t.dst].append(i)
    paths = {pair: [path.links for path in table.path(*pair)] for pair in queues}
    turns = dict.fromkeys(queues, 0)
    missing = [-(-t.size // packet.path_mtu) or 1 for t in transfers]
    begin, end = [0.0] * len(transfers), [0.0] * len(transfers)
    free_at, carried, waited = [0.0] * fabric.n_links, [0.0] * fabric.n_links, [0] * fabric.n_links
    events: list[tuple[float, int, int, int, tuple[int, ...]]] = []
    count = 0

    def push(at: float, transfer: int, size: int, way: tuple[int, ...]) -> None:
        nonlocal count
        count += 1
        heapq.heappush(events, (at, count, transfer, size, way))

    def send(pair: tuple[int, int], now: float) -> None:
        queue = queues[pair]
        while queue and waits[queue[0]] == 0:
            i = queue.pop(0)
            left = transfers[i].size
            for _ in range(missing[i]):
                payload = min(left, packet.path_mtu)
                left -= payload
                way = paths[pair][turns[pair] % len(paths[pair])]
                turns[pair] += 1
                push(now, i, payload + packet.HEADERS, way)

    for pair in queues:
        send(pair, 0.0)
    while events:
        now, _, i, size, way = heapq.heappop(events)
        if way:
            link = way[0]
            carried[link] += size
            waited[link] += free_at[link] > now
            free_at[link] = max(now, free_at[link]) + size * 8 / rates_bps[link]
            push(free_at[link] + float(fabric.latency_s[link]), i, size, way[1:])
            continue
        missing[i] -= 1
        if missing[i]:
            continue
        end[i] = now
        for freed in frees[i]:
            waits[freed] -= 1
            if waits[freed] == 0:
                begin[freed] = now
                send((transfers[freed].src, transfers[freed].dst), now)
    assert not any(missing), "some transfers never landed"
    return Simulated(begin, end, carried, waited)
