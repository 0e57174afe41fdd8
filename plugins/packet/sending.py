"""Senders: what a pair sends next, over which path, what it considers lost; in numba's subset of Python."""

from typing import Any

import numpy as np

from railweave.framework.hookspecs.congestion import OVERTAKEN, TIMEOUT
from railweave.plugins.packet.calendar import TIMER, push
from railweave.plugins.packet.layout import (
    ACKED,
    ASKS,
    BATCH,
    CHOOSER,
    CHOOSER_BYTES,
    CHOOSES_MESSAGES,
    CONTROL,
    CONTROL_BYTES,
    DATA,
    DEAD,
    EXTRAS,
    FIRST_HEADERS,
    HEADERS,
    IN_NIC,
    LISTED,
    LOST,
    MARKED,
    MTU,
    NEVER,
    NONE,
    PAIR_BASE,
    PAIR_BYTES,
    SHARES,
    WRONG_PATH,
    State,
)
from railweave.plugins.packet.queues import CHOOSING, draw, enqueue, forward, look, new_packet, release

AHEAD = 1e-9
"""As of the chooser in turn (traffic/choosers.py)."""
USE_PATHS, CHOOSE, PATH_HEARD, PATH_LOST = range(4)
"""What is called of a chooser."""
SENT, HEARD, NOTIFIED, GONE, WOKE, RECEIVED = range(4, 10)
"""What is called of a congestion control."""
WAKES, PACED = 1, 3
"""Timers of a pair at one time: the timeout first, then its congestion control's, then its time to send."""
PROBED = 3
"""Why a packet is lost, besides what a control is told (hookspecs/congestion.py): after silence."""
SLACK_PACKETS = 5
"""For so many packets at its rate a paced pair need not hear of anything: every fourth is acknowledged."""


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
        s.globals[WRONG_PATH] = p + 1
        return first
    return first + k


def control(s: State, call: Any, what: int, p: int, now: int, a: int, b: int, c: int, d: int) -> None:
    """Let the congestion control of a pair know of something, and wake it when it wants."""
    g = s.globals
    if g[CONTROL] == 0:
        return
    out = g[PAIR_BASE] + p * g[PAIR_BYTES]
    call(what, g[CONTROL] + p * g[CONTROL_BYTES], out, now, a, b, c, d)
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
    """The time of so many bytes at the rate of a pair that is paced; 0 of others."""
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
        pair["lost_head"] = packet["later"]
        release(s, i)
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
        if pair["in_flight"] > 0 and pair["in_flight"] + size > pair["window"]:
            return
        due = pair["left"] + gap_of(s, p, pair["left_bytes"])
        if now < due:
            if pair["waking"] == 0:
                pair["waking"] = 1
                push(s, due, (TIMER << 60) | (p << 32) | PACED)
            return
        if old != NONE:
            pair["lost_head"] = s.packet[old]["later"]
            release(s, old)
            pair["again"] += 1
        else:
            pair["number"] += 1
            pair["done"] += 1
            if pair["done"] == entry["packets"]:
                pair["done"] = 0
                pair["message"] += 1
        launch(s, call, p, e, number, copy, size, now)
        if s.globals[WRONG_PATH]:
            return
    look(s, p)


def strand(s: State, p: int, now: int) -> None:
    """A pair without a path waits for one, and gives up after a time."""
    pair = s.pair[p]
    if pair["timing"] == 0:
        pair["timing"] = 1
        pair["heard"] = pair["active"] = now
        push(s, now + pair["dead_after"], (TIMER << 60) | (p << 32))


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
    if path["head"] == NONE:
        path["head"] = i
    else:
        s.packet[path["tail"]]["later"] = i
    path["tail"] = i
    if pair["in_flight"] == 0:
        pair["heard"] = now
    pair["active"] = now
    pair["in_flight"] += size
    pair["packets"] += 1
    pair["bytes"] += size
    last = number == s.entry[e]["first"] + s.entry[e]["packets"] - 1
    if last or copy > 0 or pair["in_flight"] + s.globals[MTU] + s.globals[HEADERS] > pair["window"]:
        packet["flags"] |= ASKS
    pair["left"], pair["left_bytes"] = now, size
    if pair["timing"] == 0:
        pair["timing"] = 1
        push(s, now + pair["first_wait"], (TIMER << 60) | (p << 32))
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


# -- loss ----------------------------------------------------------------------------------------------
def acknowledge(s: State, call: Any, i: int, now: int) -> None:
    """The sender of a packet knows that it has arrived."""
    packet = s.packet[i]
    if packet["flags"] & ACKED:
        return
    p = packet["pair"]
    pair = s.pair[p]
    packet["flags"] |= ACKED
    if len(s.counts) > 0:
        counted = s.counts[packet["path"]]
        if packet["flags"] & LOST:
            counted["lost"] -= 1
        else:
            counted["known"] += 1
        if packet["flags"] & MARKED:
            counted["marked"] += 1
    if not packet["flags"] & LOST:
        pair["in_flight"] -= packet["full"]
        pair["heard"] = pair["active"] = now
        pair["probes"] = 0
    if packet["epoch"] == pair["epoch"]:
        s.got[pair["got"] + packet["number"]] = 2
    k = packet["path"] - pair["first_path"]
    if s.globals[CHOOSER] != 0 and pair["paths"] > 1 and 0 <= k < pair["paths"]:
        marked = packet["flags"] & MARKED
        call(PATH_HEARD, chooser_of(s, p), 0, now, k, marked, now - packet["sent"], 0)
    pair["newest"] = max(pair["newest"], packet["sent"])


def gone(s: State, call: Any, i: int, now: int, why: int) -> None:
    """A packet that has left the list of its path without an answer: one that has arrived is known by the
    acknowledgements of others, unless there are none; another one is sent again."""
    packet = s.packet[i]
    p = packet["pair"]
    pair = s.pair[p]
    current = packet["epoch"] == pair["epoch"]
    arrived = not current or s.got[pair["got"] + packet["number"]] > 0
    if arrived and why != PROBED:
        acknowledge(s, call, i, now)
        release(s, i)
        return
    packet["flags"] |= LOST
    pair["in_flight"] -= packet["full"]
    pair["declared"] += 1
    if len(s.counts) > 0:
        s.counts[packet["path"]]["known"] += 1
        s.counts[packet["path"]]["lost"] += 1
    k = packet["path"] - pair["first_path"]
    if s.globals[CHOOSER] != 0 and pair["paths"] > 1 and 0 <= k < pair["paths"]:
        call(PATH_LOST, chooser_of(s, p), 0, now, k, 0, 0, 0)
    control(s, call, GONE, p, now, packet["full"], TIMEOUT if why == PROBED else why, 0, 0)
    look(s, p)
    if not current:
        release(s, i)
        return
    packet["later"] = NONE
    if pair["lost_head"] == NONE:
        pair["lost_head"] = i
    else:
        s.packet[pair["lost_tail"]]["later"] = i
    pair["lost_tail"] = i


def overtaken(s: State, call: Any, q: int, until: int, newest: int, now: int) -> None:
    """Take packets off the list of a path: those known to have arrived, and those lost, which are the ones
    before packet `until`, sent later and arrived, or sent before `newest`."""
    path = s.path[q]
    while path["head"] != NONE:
        i = path["head"]
        packet = s.packet[i]
        done = packet["flags"] & ACKED
        if until == NONE and not done and packet["sent"] >= newest:
            return
        path["head"] = packet["later"]
        packet["flags"] &= ~LISTED
        if done:
            release(s, i)
        else:
            gone(s, call, i, now, TIMEOUT if until == NONE else OVERTAKEN)
        if i == until:
            return


def overdue(s: State, call: Any, p: int, newest: int, now: int) -> None:
    """Take off the lists of a pair's paths what has arrived, or was sent before `newest` and is lost."""
    pair = s.pair[p]
    if EXTRAS or pair["oldest"] < newest:
        oldest = now
        for q in range(pair["first_path"], pair["first_path"] + pair["paths"]):
            overtaken(s, call, q, NONE, newest, now)
            if s.path[q]["head"] != NONE:
                oldest = min(oldest, s.packet[s.path[q]["head"]]["sent"])
        pair["oldest"] = oldest
    if pair["left_head"] != NONE:
        overdue_left(s, call, p, newest, now)


def overdue_left(s: State, call: Any, p: int, newest: int, now: int) -> None:
    """The same of packets under way on paths that a pair has left, which are in no order."""
    pair, before = s.pair[p], NONE
    i = pair["left_head"]
    while i != NONE:
        packet = s.packet[i]
        after = packet["later"]
        if packet["flags"] & ACKED or packet["sent"] < newest:
            if before == NONE:
                pair["left_head"] = after
            else:
                s.packet[before]["later"] = after
            if packet["flags"] & ACKED:
                release(s, i)
            else:
                gone(s, call, i, now, TIMEOUT)
        else:
            before = i
        i = after


def timeout_of(s: State, p: int) -> int:
    pair = s.pair[p]
    return max(pair["timeout"], pair["smoothed"] + 4 * pair["variation"])


def timer(s: State, call: Any, p: int, now: int) -> None:
    """Consider lost what was sent a timeout before a packet that arrived, and probe after silence."""
    pair = s.pair[p]
    pair["timing"] = 0
    slack = gap_of(s, p, SLACK_PACKETS * (s.globals[MTU] + s.globals[HEADERS]))
    late = timeout_of(s, p) + slack
    overdue(s, call, p, pair["newest"] - late, now)
    if pair["in_flight"] == 0:
        if pair["paths"] == 0 and now - pair["heard"] >= pair["dead_after"]:
            s.globals[DEAD] = p + 1
        look(s, p)
        return
    wait = max(pair["first_wait"], 2 * pair["smoothed"]) + slack
    if pair["probes"] == 0 and pair["smoothed"] == 0:
        wait = late  # no round trip is known
    elif pair["probes"] > 0:
        wait = min(late << min(pair["probes"] - 1, 30), max(pair["most_wait"], late))
    if now - pair["active"] >= wait:
        if now - pair["heard"] >= max(pair["dead_after"] + 4 * slack, 4 * late):
            s.globals[DEAD] = p + 1
        probe(s, call, p, now)
    due = min(max(pair["active"] + wait, now + 1), now + late)
    pair["timing"] = 1
    push(s, due, (TIMER << 60) | (p << 32))


def probe(s: State, call: Any, p: int, now: int) -> None:
    """Send again the packet that has been under way for longest."""
    pair = s.pair[p]
    oldest, at, when = NONE, NONE, NEVER
    for k in range(pair["paths"]):
        i = s.path[pair["first_path"] + k]["head"]
        if i != NONE and s.packet[i]["sent"] < when:
            oldest, at, when = i, pair["first_path"] + k, s.packet[i]["sent"]
    i, before, before_oldest = pair["left_head"], NONE, NONE
    while i != NONE:
        if s.packet[i]["sent"] < when:
            oldest, at, when, before_oldest = i, NONE, s.packet[i]["sent"], before
        before, i = i, s.packet[i]["later"]
    pair["probes"] += 1
    pair["active"] = now
    if oldest == NONE:
        return
    packet = s.packet[oldest]
    if at != NONE:
        s.path[at]["head"] = packet["later"]
    elif before_oldest == NONE:
        pair["left_head"] = packet["later"]
    else:
        s.packet[before_oldest]["later"] = packet["later"]
    packet["flags"] &= ~LISTED
    gone(s, call, oldest, now, PROBED)
