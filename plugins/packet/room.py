"""Room of the simulation's arrays, and how long a day of its calendar is."""

import math
from typing import Any

import numpy as np

from railweave.plugins.packet.layout import (
    DAYS,
    EVENT,
    FAIR,
    FREE,
    FREE_BLOCK,
    N_BLOCKS,
    N_EVENTS,
    N_FREE,
    ROOM,
    State,
    in_lines,
)

EVENTS_A_DAY = 16
"""Enough that memory is fetched for many at once, and few enough for a small heap."""
FIRST_PACKETS, FIRST_EVENTS, FIRST_BLOCKS = 1 << 12, 1 << 12, 1 << 10
"""Records for which there is room at first; it doubles when they are used up."""


def grown(s: State) -> State:
    """With twice the room for packets, events or blocks of them, where it is lacking."""
    g = s.globals
    if g[N_FREE] < ROOM:
        s = s._replace(packet=_twice(s.packet, FIRST_PACKETS, g, FREE, N_FREE))
        if g[FAIR]:
            s = s._replace(turn=np.concatenate((s.turn, np.zeros(len(s.packet) - len(s.turn), np.int64))))
    if g[N_BLOCKS] < ROOM:
        s = s._replace(block=_twice(s.block, FIRST_BLOCKS, g, FREE_BLOCK, N_BLOCKS))
    if g[N_EVENTS] + ROOM > len(s.events):
        before = len(s.events)
        events, far = (in_lines(max(2 * before, FIRST_EVENTS), EVENT, first=1) for _ in range(2))
        events[:before], far[:before] = s.events, s.far
        s = s._replace(events=events, far=far)
    return s


def _twice(records: Any, least: int, g: Any, free: int, n_free: int) -> Any:
    """Twice as many records, `least` at least, the new ones before the free ones of `g`."""
    before = len(records)
    grown: Any = in_lines(max(2 * before, least), records.dtype)
    grown[:before] = records
    grown["next"][before:] = np.arange(before + 1, len(grown) + 1)
    grown["next"][-1] = g[free]
    g[free] = before
    g[n_free] += len(grown) - before
    return grown


def day_shift(link: Any, packet_bytes: int) -> int:
    """Binary logarithm of the picoseconds of a day: long enough for busy links (layout.LINK) to send
    EVENTS_A_DAY packets, and for every packet to arrive within the calendar."""
    if not len(link):
        return 0
    sends = packet_bytes * link["ps_per_byte"]
    day = max(EVENTS_A_DAY / (1 / sends).sum(), 2 * (sends + link["latency"]).max() / DAYS)
    return max(0, math.ceil(math.log2(day)))
