"""What is to happen, in the order of time: a calendar of near events and two heaps (after Brown, "Calendar
queues", CACM 1988); in numba's subset of Python.

A heap holds the events of days up to today, another one the events beyond the calendar. Between them lies a
bucket for every day, in blocks without order. The first heap is small then, and what the events of the next
day need can be fetched before their day comes.
"""

from typing import Any

from railweave.plugins.packet.layout import (
    BLOCK_EVENTS,
    DATA,
    DAY,
    DAYS,
    FAR,
    FREE_BLOCK,
    N_BLOCKS,
    N_EVENTS,
    NEVER,
    NONE,
    SHIFT,
    TODAY,
    Records,
    State,
)

ARRIVES, PAUSES, TIMER, FREES = 0, 2, 3, 4
"""Classes of events, in the order of those of one time: arrivals by priority and link, pauses, timers, links
that are free for what waits."""


def fetch(records: Records, i: int, line: int) -> None:
    """Have the processor fetch a cache line of a record; compiled it is an instruction (addresses.py)."""


def lowest_bit(word: Any) -> int:
    """The place of the lowest bit that is set; compiled it is an instruction."""
    return (int(word) & -int(word)).bit_length() - 1


# -- heaps -----------------------------------------------------------------------------------------------
def rise(heap: Records, i: int, at: int, what: int) -> None:
    """An event into a heap of `i` events, of four children a node, which share a cache line."""
    while i > 0:
        up = (i - 1) >> 2
        above = heap[up]
        if above["time"] < at or (above["time"] == at and above["what"] < what):
            break
        heap[i]["time"], heap[i]["what"] = above["time"], above["what"]
        i = up
    heap[i]["time"], heap[i]["what"] = at, what


def remove(heap: Records, n: int) -> None:
    """Remove the first event, which stands at 0, of a heap that then has `n`."""
    at, what, i = heap[n]["time"], heap[n]["what"], 0
    while True:
        child = 4 * i + 1
        if child >= n:
            break
        best, time, best_what = child, heap[child]["time"], heap[child]["what"]
        for j in range(child + 1, min(child + 4, n)):
            other = heap[j]
            if other["time"] < time or (other["time"] == time and other["what"] < best_what):
                best, time, best_what = j, other["time"], other["what"]
        if at < time or (at == time and what < best_what):
            break
        heap[i]["time"], heap[i]["what"] = time, best_what
        i = best
    heap[i]["time"], heap[i]["what"] = at, what


# -- the calendar ----------------------------------------------------------------------------------------
def push(s: State, at: int, what: int) -> None:
    """An event that is to come."""
    g = s.globals
    day = at >> g[SHIFT]
    g[N_EVENTS] += 1
    if day <= g[DAY]:
        rise(s.events, g[TODAY], at, what)
        g[TODAY] += 1
    elif day < g[DAY] + DAYS:
        write(s, day & (DAYS - 1), at, what)
    else:
        rise(s.far, g[FAR], at, what)
        g[FAR] += 1


def write(s: State, place: int, at: int, what: int) -> None:
    """An event into the bucket of a day."""
    b = s.bucket[place]
    if b == NONE or s.block[b]["count"] == BLOCK_EVENTS:
        g = s.globals
        new = g[FREE_BLOCK]
        g[FREE_BLOCK] = s.block[new]["next"]
        g[N_BLOCKS] -= 1
        s.block[new]["next"], s.block[new]["count"] = b, 0
        if b == NONE:
            s.used[place >> 5] |= 1 << (place & 31)
        s.bucket[place] = b = new
    block = s.block[b]
    k = block["count"]
    block["time"][k], block["what"][k] = at, what
    block["count"] = k + 1


def pop(s: State) -> None:
    """Remove the first event of today."""
    g = s.globals
    g[N_EVENTS] -= 1
    g[TODAY] -= 1
    remove(s.events, g[TODAY])


def next_day(s: State, after: int) -> int:
    """The first day after this one, within the calendar, that has a bucket with events; NEVER without one."""
    day = after + 1
    while day < after + DAYS:
        rest = s.used[(day & (DAYS - 1)) >> 5] >> (day & 31)
        if rest:
            day += lowest_bit(rest)
            return day if day < after + DAYS else NEVER
        day = ((day >> 5) + 1) << 5
    return NEVER


def turn(s: State, until: int) -> bool:
    """All events of today are over: go on to the next day with some, if it begins up to `until`; whether it
    does."""
    g = s.globals
    day = next_day(s, g[DAY])
    if g[FAR] > 0:
        day = min(day, s.far[0]["time"] >> g[SHIFT])
    if day > until >> g[SHIFT]:
        return False
    g[DAY] = day
    while g[FAR] > 0 and s.far[0]["time"] >> g[SHIFT] <= day:
        rise(s.events, g[TODAY], s.far[0]["time"], s.far[0]["what"])
        g[TODAY] += 1
        g[FAR] -= 1
        remove(s.far, g[FAR])
    place = day & (DAYS - 1)
    if s.bucket[place] != NONE:
        prepare(s, s.bucket[place])
        empty(s, place)
    return True


def prepare(s: State, b: int) -> None:
    """Fetch what arrivals in these blocks need of packets and links."""
    while b != NONE:
        block = s.block[b]
        for k in range(block["count"]):
            what = block["what"][k]
            if what >> 60 < PAUSES:
                fetch(s.link, (what >> 32) & 0xFFFFFFF, 0)
                packet = s.packet[what & 0xFFFFFFFF]
                place = packet["start"] + packet["hop"]
                if packet["kind"] == DATA:
                    if packet["hop"] + 1 < packet["hops"]:
                        link = s.hops[place + 1]
                        fetch(s.link, link, 0)
                        fetch(s.link, link, 1)
                    else:
                        fetch(s.pair, packet["pair"], 0)
                        fetch(s.pair, packet["pair"], 3)
                elif packet["hop"] > 0:
                    link = s.hops[place - 1] ^ 1
                    fetch(s.link, link, 0)
                    fetch(s.link, link, 1)
                else:
                    fetch(s.pair, packet["pair"], 0)
                    fetch(s.pair, packet["pair"], 1)
                    fetch(s.pair, packet["pair"], 2)
        b = block["next"]


def empty(s: State, place: int) -> None:
    """The events of a bucket become those of today; the packets of the bucket after it are fetched."""
    g = s.globals
    b = s.bucket[place]
    s.bucket[place] = NONE
    s.used[place >> 5] &= ~(1 << (place & 31))
    while b != NONE:
        block = s.block[b]
        for k in range(block["count"]):
            rise(s.events, g[TODAY], block["time"][k], block["what"][k])
            g[TODAY] += 1
        after = block["next"]
        block["next"] = g[FREE_BLOCK]
        g[FREE_BLOCK] = b
        g[N_BLOCKS] += 1
        b = after
