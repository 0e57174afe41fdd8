"""Senders: what a pair sends next, over which path; in numba's subset of Python."""

from typing import Any

import numpy as np

from railweave.plugins.packet.calendar import TIMER, push
from railweave.plugins.packet.layout import (
    ASKS,
    BATCH,
    CHOOSER,
    CHOOSER_BYTES,
    CHOOSES_MESSAGES,
    CONTROL,
    CONTROL_BYTES,
    DATA,
    FIRST_HEADERS,
    HEADERS,
    IN_NIC,
    LISTED,
    MTU,
    NEVER,
    NONE,
    PAIR_BASE,
    PAIR_BYTES,
    SHARES,
    WRONG_CALL,
    State,
)
from railweave.plugins.packet.lists import drop_lost, list_sent, new_packet
from railweave.plugins.packet.queues import CHOOSING, draw, enqueue, forward, look

AHEAD = 1e-9
"""As of the chooser in turn (traffic/choosers.py)."""
USE_PATHS, CHOOSE, PATH_HEARD, PATH_LOST = range(4)
"""What is called of a chooser."""
SENT, HEARD, NOTIFIED, GONE, WOKE, RECEIVED = range(4, 10)
"""What is called of a congestion control."""
WAKES, PACED = 1, 3
"""Timers of a pair at one time: the timeout first, then its congestion control's, then its time to send."""


# -- paths ---------------------------------------------------------------------------------------------
def chooser_of(s: State, p: int) -> int:
    """The address of what the chooser knows of a pair."""
    return s.globals[CHOOSER] + p * s.globals[CHOOSER_BYTES]


def in_turn(s: State, p: int) -> int:
    """The path whose packet is due first of those not ahead of their share (WF2Q, as traffic/choosers.py)."""
    pair = s.pair[p]
    if pair["even"]:
        pair["turns"] += 1
        return (pair["turns"] - 1) % pair["paths"]
    first, best, due = pair["first_path"], 0, np.inf
    for k in range(pair["paths"]):
        path = s.path[first + k]
        if path["turns"] <= (pair["turns"] + AHEAD) * path["share"]:
            mine = (path["turns"] + 1) / path["share"]
            if mine < due:
                best, due = k, mine
    pair["turns"] += 1
    s.path[first + best]["turns"] += 1
    return best


def chosen(s: State, call: Any, p: int, now: int) -> int:
    """A path of a pair, as its number among all."""
    pair = s.pair[p]
    first, n = pair["first_path"], pair["paths"]
    if n == 1:
        return first
    if s.globals[CHOOSER] == 0:
        return first + in_turn(s, p)
    bits = draw(pair["key"], CHOOSING, pair["calls"], pair["epoch"], 0)
    pair["calls"] += 1
    shares = s.globals[SHARES] + 8 * first
    k = call(CHOOSE, chooser_of(s, p), 0, now, np.int64(bits), shares, n, 0)
    if k < 0 or k >= n:
        s.globals[WRONG_CALL] = p + 1
        return first
    return first + k


def control(s: State, call: Any, what: int, p: int, now: int, a: int, b: int, c: int, d: int) -> None:
    """Let the congestion control of a pair know of something, and wake it when it wants."""
    g = s.globals
    if g[CONTROL] == 0:
        return
    out = g[PAIR_BASE] + p * g[PAIR_BYTES]
    if call(what, g[CONTROL] + p * g[CONTROL_BYTES], out, now, a, b, c, d) < 0:
        g[WRONG_CALL] = -1 - p
        return
    pair = s.pair[p]
    if pair["wake"] < pair["woken"]:
        pair["woken"] = max(pair["wake"], now)
        push(s, pair["woken"], (TIMER << 60) | (p << 32) | WAKES)


def wakes(s: State, call: Any, p: int, now: int) -> None:
    """A congestion control is woken, if it still wants that."""
    pair = s.pair[p]
    if now < pair["woken"]:
        return  # another event comes
    pair["woken"] = NEVER
    if pair["wake"] <= now:
        control(s, call, WOKE, p, now, 0, 0, 0, 0)
        look(s, p)
    elif pair["wake"] < NEVER:
        pair["woken"] = pair["wake"]
        push(s, pair["wake"], (TIMER << 60) | (p << 32) | WAKES)


def gap_of(s: State, p: int, size: int) -> int:
    """The time of `size` bytes at the rate of a pair that is paced; 0 of others."""
    pair = s.pair[p]
    if pair["rate"] <= 0 or pair["rate"] >= pair["unpaced"]:
        return 0
    return int(size / pair["rate"] * 1e12)


def way(s: State, call: Any, p: int, e: int, now: int) -> int:
    """The path of the next packet of a message, as its number among all: one of its own, or that of its
    message where the chooser chooses for messages."""
    if s.globals[CHOOSES_MESSAGES] == 0:
        return chosen(s, call, p, now)
    pair, entry = s.pair[p], s.entry[e]
    if entry["path"] < pair["first_path"] or entry["path"] >= pair["first_path"] + pair["paths"]:
        entry["path"] = chosen(s, call, p, now)
    return entry["path"]


# -- sending -------------------------------------------------------------------------------------------
def resent(s: State, p: int) -> int:
    """The first packet that a pair has lost and still misses, NONE without one."""
    pair = s.pair[p]
    while pair["lost_head"] != NONE:
        i = pair["lost_head"]
        packet = s.packet[i]
        if packet["epoch"] == pair["epoch"] and s.got[pair["got"] + packet["number"]] != 2:
            return i
        drop_lost(s, pair)
    return NONE


def size_of(s: State, e: int, place: int) -> int:
    """Wire bytes of a packet of a message."""
    entry = s.entry[e]
    payload = min(s.globals[MTU], entry["size"] - place * s.globals[MTU])
    headers = s.globals[FIRST_HEADERS] if place == 0 else s.globals[HEADERS]
    return ((payload + 3) >> 2 << 2) + headers


def pump(s: State, call: Any, p: int, now: int) -> None:
    """Send what a pair may send now; its NIC fetches a packet when the one before has left."""
    pair = s.pair[p]
    pair["asked"] = 0
    for _ in range(BATCH):
        if pair["in_nic"] >= pair["most_in_nic"]:
            return
        old, e = resent(s, p), NONE
        if old != NONE:
            e, number, copy = s.packet[old]["entry"], s.packet[old]["number"], s.packet[old]["copy"] + 1
        else:
            if pair["message"] == pair["messages_end"] or s.entry[s.order[pair["message"]]]["waits"] > 0:
                return
            e, number, copy = s.order[pair["message"]], pair["number"], 0
        if pair["paths"] == 0:
            strand(s, p, now)
            return
        entry = s.entry[e]
        size = size_of(s, e, number - entry["first"])
        if pair["in_flight"] > 0 and pair["in_flight"] + size > pair["window"] and pair["probing"] == 0:
            return
        due = pair["left"] + gap_of(s, p, pair["left_bytes"])
        if now < due:
            if pair["waking"] == 0:
                pair["waking"] = 1
                push(s, due, (TIMER << 60) | (p << 32) | PACED)
            return
        if old != NONE:
            drop_lost(s, pair)
            pair["again"] += 1
        else:
            pair["number"] += 1
            pair["done"] += 1
            if pair["done"] == entry["packets"]:
                pair["done"] = 0
                pair["message"] += 1
        launch(s, call, p, e, number, copy, size, now)
        if s.globals[WRONG_CALL]:
            return
    look(s, p)


def watch(s: State, p: int, at: int) -> None:
    """A pair looks at what is under way then, if not sooner."""
    pair = s.pair[p]
    if at < pair["due"]:
        pair["due"] = at
        push(s, at, (TIMER << 60) | (p << 32))


def strand(s: State, p: int, now: int) -> None:
    """A pair without a path waits for one, and gives up after a time."""
    pair = s.pair[p]
    if pair["due"] == NEVER:
        pair["heard"] = pair["active"] = now
        watch(s, p, now + pair["dead_after"])


def launch(s: State, call: Any, p: int, e: int, number: int, copy: int, size: int, now: int) -> None:
    """A packet of a pair goes to its NIC, on a path of its own."""
    pair, i = s.pair[p], new_packet(s)
    packet = s.packet[i]
    packet["pair"], packet["entry"], packet["number"], packet["copy"] = p, e, number, copy
    packet["sent"], packet["epoch"] = now, pair["epoch"]
    packet["size"] = packet["full"] = size
    packet["kind"], packet["hop"], packet["flags"], packet["uses"] = DATA, 0, LISTED, 2
    packet["later"] = packet["first"] = packet["next"] = NONE
    packet["path"] = q = way(s, call, p, e, now)
    path = s.path[q]
    packet["start"], packet["hops"] = path["start"], path["hops"]
    list_sent(s, path, i)
    if pair["in_flight"] == 0 and (copy == 0 or pair["probes"] == 0):  # the only packet, repeated, is silence
        pair["heard"] = now
    pair["active"] = now
    pair["probing"] = 0
    pair["in_flight"] += size
    pair["packets"] += 1
    pair["bytes"] += size
    last = number == s.entry[e]["first"] + s.entry[e]["packets"] - 1
    if last or copy > 0 or pair["in_flight"] + s.globals[MTU] + s.globals[HEADERS] > pair["window"]:
        packet["flags"] |= ASKS
    pair["left"], pair["left_bytes"] = now, size
    if pair["due"] == NEVER:
        watch(s, p, now + pair["first_wait"])
    control(s, call, SENT, p, now, size, 0, 0, 0)
    at = s.hops[path["start"]]
    if pair["most_in_nic"] == NEVER_IN_NIC:
        forward(s, i, at, now, False)
        return
    packet["flags"] |= IN_NIC
    if enqueue(s, i, at, now):
        pair["in_nic"] += 1
    else:
        packet["flags"] &= ~IN_NIC


NEVER_IN_NIC = 1 << 30
"""`most_in_nic` of pairs whose packets go straight into the queues of links."""
