"""What a schedule takes if every pair of ranks has a wire of its own: a second way to a closed form.

Each pair sends its messages in the order of the schedule, one after another, each once what it waits for has
landed; a message takes its wire bytes over the pair's rate. That is the fabric of collectives whose ranks
send to one neighbour per link at a time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from railweave.framework.model import PacketFormat, Schedule
from tests.fakes.transfers import transfer_of

Rate = Callable[[int, int], float]


def seconds(schedule: Schedule, rate_bps: Rate, packet: PacketFormat) -> float:
    """When the last transfer has landed. Fails if some never start."""
    transfers = [transfer_of(schedule, i) for i in range(schedule.n_transfers)]
    waits = [len(t.after) for t in transfers]
    frees: list[list[int]] = [[] for _ in transfers]
    queues: dict[tuple[int, int], list[int]] = {}
    for i, t in enumerate(transfers):
        for before in t.after:
            frees[before].append(i)
        queues.setdefault((t.src, t.dst), []).append(i)
    busy: set[tuple[int, int]] = set()
    landings: list[tuple[float, int]] = []
    now, landed = 0.0, 0

    def start(pair: tuple[int, int]) -> None:
        queue = queues[pair]
        if pair not in busy and queue and waits[queue[0]] == 0:
            busy.add(pair)
            first = queue.pop(0)
            wire = packet.wire_bytes(transfers[first].size) * 8
            heapq.heappush(landings, (now + wire / rate_bps(*pair), first))

    for pair in queues:
        start(pair)
    while landings:
        now, done = heapq.heappop(landings)
        landed += 1
        pair = transfers[done].src, transfers[done].dst
        busy.discard(pair)
        start(pair)
        for freed in frees[done]:
            waits[freed] -= 1
            start((transfers[freed].src, transfers[freed].dst))
    assert landed == len(transfers), "some transfers never start"
    return now
