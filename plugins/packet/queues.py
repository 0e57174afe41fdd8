"""Links and their queues, in numba's subset of Python (machine.py)."""

import math

import numpy as np

from railweave.plugins.packet.calendar import ARRIVES, FREES, push
from railweave.plugins.packet.layout import (
    ACK,
    AN_ARRIVAL,
    AN_EVENT,
    CREDIT,
    DATA,
    EXTRAS,
    FAIR,
    FREEING,
    HEAD_BYTES,
    HOPS,
    IN_NIC,
    LATE,
    LOOK_HEAD,
    LOOKS,
    MARKED,
    MARKS_LEAVING,
    NONE,
    NOTHING,
    OTHER_HOPS,
    SWITCHING,
    THIS_TIME,
    TOKEN_BUCKETS,
    TRIMMED,
    TRIMMING,
    State,
)
from railweave.plugins.packet.lists import owe_again, release

MARKING, LOSING, SPOILING, CHOOSING, STEERING, CROSSING = range(1, 7)
"""What draws are for."""
UNIT = 2.0**-53
"""From 53 random bits to [0, 1)."""
_A, _B, _C = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


def mixed(z: np.uint64) -> np.uint64:
    """SplitMix64 (Steele and others, OOPSLA 2014)."""
    z = (z ^ (z >> _30)) * _B
    z = (z ^ (z >> _27)) * _C
    return z ^ (z >> _31)


def draw(key: np.uint64, purpose: int, number: int, copy: int, hop: int) -> np.uint64:
    """64 random bits that depend on what they are for alone."""
    z = mixed(key + _A * np.uint64(purpose + 1))
    z = mixed(z + _A * np.uint64(number + 1))
    return mixed(z + _A * np.uint64((copy << 16) + hop + 1))


def chance(key: np.uint64, purpose: int, number: int, copy: int, hop: int) -> float:
    """A random number of 0 up to 1."""
    return np.float64(draw(key, purpose, number, copy, hop) >> _11) * UNIT


# -- pairs and packets ------------------------------------------------------------------------------
def look(s: State, p: int) -> None:
    """A pair is to look what it may send."""
    if s.pair[p]["asked"] == 0:
        s.pair[p]["asked"] = 1
        at = s.globals[LOOK_HEAD] + s.globals[LOOKS]
        s.looks[at if at < len(s.looks) else at - len(s.looks)] = p
        s.globals[LOOKS] += 1


def vanish(s: State, i: int) -> None:
    """A packet does not get on. What a lost acknowledgement would have acknowledged, the next one does."""
    packet = s.packet[i]
    if packet["kind"] == ACK and packet["first"] != NONE:
        owe_again(s, s.pair[packet["pair"]], packet["first"])
    release(s, i)


# -- links ---------------------------------------------------------------------------------------------
def transmit(s: State, i: int, at: int, now: int) -> None:
    """A link begins to send a packet."""
    packet, link = s.packet[i], s.link[at]
    size = packet["size"]
    end = now + np.int64(size * link["ps_per_byte"] + 0.5)
    if EXTRAS and s.globals[SWITCHING] == TOKEN_BUCKETS:  # one packet after the other, at different times
        end = np.int64(max(end - now + max(link["busy"], now - s.globals[CREDIT]), now + 1))
    link["busy"] = end
    link["sending"] = size
    link["sent_bytes"] += size
    link["sent_packets"] += 1
    if packet["kind"] == DATA:
        link["data_bytes"] += size
        s.globals[HOPS] += 1
    else:
        s.globals[OTHER_HOPS] += 1
    comes = (cut(s, i, at, now) if EXTRAS and s.globals[SWITCHING] else end) + link["latency"]
    if EXTRAS and s.globals[LATE]:
        comes = s.reached[at] = max(comes + lateness(s, i), s.reached[at] + 1)
    push(s, comes, ((ARRIVES + packet["kind"]) << 60) | (at << 32) | i)


def lateness(s: State, i: int) -> int:
    """What the far end of a link takes for a packet, a switch or, for twice as long, a GPU: exponential, as
    the wait for a processor that others use too is. Packets of a link keep their order."""
    packet = s.packet[i]
    trimmed = packet["flags"] & TRIMMED
    last = packet["hop"] == (packet["hops"] - 1 if packet["kind"] == DATA or trimmed else 0)
    key, which = s.pair[packet["pair"]]["key"], packet["hop"] | trimmed << 6
    number = 2 * packet["number"] + packet["kind"]
    wait = -math.log(1.0 - chance(key, CROSSING, number, packet["copy"], which)) * s.globals[LATE]
    return int((2 if last else 1) * wait + 0.5)


def cut(s: State, i: int, at: int, now: int) -> int:
    """When a link has sent so much of a packet that the next one may begin: all of it, where that is faster
    or none follows; nothing, where links are token buckets, which hold back what comes next."""
    packet = s.packet[i]
    forward, hop = packet["kind"] == DATA or packet["flags"] & TRIMMED != 0, packet["hop"]
    last = hop == (packet["hops"] - 1 if forward else 0)
    if s.globals[SWITCHING] == TOKEN_BUCKETS:
        return now
    if last:
        return s.link[at]["busy"]
    onward = s.hops[packet["start"] + hop + 1] if forward else s.hops[packet["start"] + hop - 1] ^ 1
    link = s.link[at]
    if s.link[onward]["ps_per_byte"] < link["ps_per_byte"]:
        return link["busy"]
    return now + int(min(packet["size"], HEAD_BYTES) * link["ps_per_byte"] + 0.5)


def enqueue(s: State, i: int, at: int, now: int) -> bool:
    """Send a packet over a link, or let it wait there; whether it waits. A link that ends with one packet now
    takes the next once all that comes now is there; one that is paused sends no data."""
    packet, link = s.packet[i], s.link[at]
    packet["next"] = NONE
    kind = packet["kind"]
    waits = link["busy"] >= now or link["head"][0] != NONE
    if not waits and (kind == ACK if EXTRAS and link["paused"] else link["head"][1] == NONE):
        if EXTRAS and s.globals[FAIR] and kind == DATA:
            s.turns[at] += 1
        transmit(s, i, at, now)
        return False
    if link["head"][kind] == NONE:
        link["head"][kind] = link["tail"][kind] = i
        if EXTRAS and s.globals[FAIR] and kind == DATA:
            s.turn[i] = s.turns[at] + 1
    elif EXTRAS and s.globals[FAIR] and kind == DATA:
        queue_in_turn(s, i, at)
    else:
        s.packet[link["tail"][kind]]["next"] = i
        link["tail"][kind] = i
    if packet["flags"] & IN_NIC:
        link["in_nic"] += packet["size"]
    else:
        link["queued"][kind] += packet["size"]
        link["longest"] = max(link["longest"], link["queued"][0] + link["queued"][1])
    if link["waking"] == NOTHING and (not EXTRAS or link["paused"] == 0 or kind == ACK):
        if link["instant"] and link["busy"] == now:
            frees_soon(s, at)
        else:
            wake(s, at)
    return True


def queue_in_turn(s: State, i: int, at: int) -> None:
    """A packet of data gets the turn behind the one that its link serves, and behind that of its pair's last
    packet that waits there; those of one turn leave as they came."""
    packet, link = s.packet[i], s.link[at]
    turn, j = s.turns[at] + 1, link["head"][DATA]
    while j != NONE:
        if s.packet[j]["pair"] == packet["pair"]:
            turn = max(turn, s.turn[j] + 1)
        j = s.packet[j]["next"]
    s.turn[i] = turn
    before, j = NONE, link["head"][DATA]
    while j != NONE and s.turn[j] <= turn:
        before, j = j, s.packet[j]["next"]
    packet["next"] = j
    if before == NONE:
        link["head"][DATA] = i
    else:
        s.packet[before]["next"] = i
    if j == NONE:
        link["tail"][DATA] = i


def wake(s: State, at: int) -> None:
    """A link is to look into its queues when it is free. Nothing but its own packet arrives over it then: if
    that takes no time after it has left, its arrival is the event."""
    link = s.link[at]
    if link["instant"]:
        link["waking"] = AN_ARRIVAL
    else:
        link["waking"] = AN_EVENT
        push(s, link["busy"], (FREES << 60) | (at << 32))


def frees_soon(s: State, at: int) -> None:
    """A link is free now, for what waits after all that arrives now."""
    s.link[at]["waking"] = THIS_TIME
    s.freeing[s.globals[FREEING]] = at
    s.globals[FREEING] += 1


def frees(s: State, at: int, now: int) -> None:
    """A link is free for the first packet that waits, acknowledgements first."""
    link = s.link[at]
    kind = 0 if link["head"][0] != NONE else 1
    if EXTRAS and kind == DATA and link["paused"] != 0:
        link["waking"] = NOTHING
        return
    i = link["head"][kind]
    packet = s.packet[i]
    link["head"][kind] = packet["next"]
    if EXTRAS and s.globals[FAIR] and kind == DATA:
        s.turns[at] = s.turn[i]
    if packet["flags"] & IN_NIC:
        link["in_nic"] -= packet["size"]
        packet["flags"] &= ~IN_NIC
        s.pair[packet["pair"]]["in_nic"] -= 1
        look(s, packet["pair"])
    else:
        link["queued"][kind] -= packet["size"]
        if EXTRAS and s.globals[MARKS_LEAVING] and kind == DATA:
            mark(s, i, at, link["queued"][DATA])
    link["waited_bytes"] += packet["size"]
    transmit(s, i, at, now)
    if link["head"][0] != NONE or (link["head"][1] != NONE and link["paused"] == 0):
        wake(s, at)
    else:
        link["waking"] = NOTHING


def mark(s: State, i: int, at: int, waiting: int) -> None:
    """A packet of data is marked by the bytes that wait."""
    link = s.link[at]
    if link["kmax"] <= 0 or waiting <= link["kmin"]:
        return
    packet, share = s.packet[i], 1.0
    if waiting < link["kmax"]:
        share = link["pmax"] * (waiting - link["kmin"]) / (link["kmax"] - link["kmin"])
    key = s.pair[packet["pair"]]["key"]
    if share >= 1 or chance(key, MARKING, packet["number"], packet["copy"], packet["hop"]) < share:
        packet["flags"] |= MARKED
        link["marked"] += 1


def waiting_at(s: State, i: int, at: int, now: int) -> int:
    """Bytes that a packet finds in its queue of a link, and on their way out."""
    link = s.link[at]
    waiting = link["queued"][s.packet[i]["kind"]]
    return waiting + link["sending"] if link["busy"] > now else waiting


def trim(s: State, i: int, at: int) -> None:
    """A packet loses its payload; its header goes before data."""
    packet = s.packet[i]
    packet["kind"], packet["size"] = ACK, min(packet["size"], HEAD_BYTES)
    packet["flags"] |= TRIMMED
    s.link[at]["trimmed"] += 1
    s.pair[packet["pair"]]["trimmed"] += 1


def forward(s: State, i: int, at: int, now: int, limited: bool) -> bool:
    """A packet comes to the queue of a link: it is dropped or trimmed where that is full, if it is `limited`,
    and may be marked; whether it waits there."""
    packet, link = s.packet[i], s.link[at]
    waiting = waiting_at(s, i, at, now)
    if limited and link["room"] > 0 and waiting + packet["size"] > link["room"]:
        if EXTRAS and s.globals[TRIMMING] and packet["kind"] == DATA:
            trim(s, i, at)
            waiting = waiting_at(s, i, at, now)
        if waiting + packet["size"] > link["room"]:
            link["drops"] += 1
            vanish(s, i)
            return False
    if packet["kind"] == DATA and not (EXTRAS and s.globals[MARKS_LEAVING]):
        mark(s, i, at, waiting)
    return enqueue(s, i, at, now)
