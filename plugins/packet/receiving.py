"""Receivers, acknowledgements and the schedule that goes on; in numba's subset of Python."""

from typing import Any

from railweave.plugins.packet.calendar import TIMER, push
from railweave.plugins.packet.layout import (
    ACK,
    ACK_BYTES,
    ACKED,
    ADAPTIVE,
    AN_ARRIVAL,
    ARRIVED_BAD,
    ASKS,
    BUFFERS,
    CNP,
    CNP_BYTES,
    DATA,
    ENDED,
    EXTRAS,
    LISTED,
    LOST,
    MARKED,
    NONE,
    READIES,
    READY_HEAD,
    RECEIVER,
    RECEIVER_BYTES,
    TRIMMED,
    WRONG_CALL,
    State,
)
from railweave.plugins.packet.lists import new_packet, owe, release, settle
from railweave.plugins.packet.losses import acknowledge, overdue_left, overtaken
from railweave.plugins.packet.pauses import admit
from railweave.plugins.packet.queues import (
    LOSING,
    SPOILING,
    chance,
    forward,
    frees_soon,
    look,
    vanish,
)
from railweave.plugins.packet.sending import HEARD, NOTIFIED, RECEIVED, control
from railweave.plugins.packet.steering import steered
from railweave.plugins.packet.trimming import asked_again

COMPUTED = 2
"""Timers at one time after those of pairs: the end of a computation."""


# -- the schedule --------------------------------------------------------------------------------------
def becomes_ready(s: State, e: int) -> None:
    s.ready[(s.globals[READY_HEAD] + s.globals[READIES]) % len(s.ready)] = e
    s.globals[READIES] += 1


def begin(s: State, e: int, now: int) -> None:
    """An entry waits for nothing any more."""
    entry = s.entry[e]
    entry["ready"] = now
    if entry["pair"] != NONE:
        look(s, entry["pair"])
    elif entry["takes"] > 0:
        push(s, now + entry["takes"], (TIMER << 60) | (e << 32) | COMPUTED)
    else:
        complete(s, e, now)


def complete(s: State, e: int, now: int) -> None:
    """An entry is over; those that wait for it alone become ready."""
    entry = s.entry[e]
    entry["end"] = now
    s.left[entry["job"]] -= 1
    if s.left[entry["job"]] == 0:
        s.globals[ENDED] = 1
    for k in range(entry["after"], entry["after_end"]):
        other = s.entry[s.after[k]]
        other["waits"] -= 1
        if other["waits"] == 0:
            becomes_ready(s, s.after[k])


# -- packets that arrive -------------------------------------------------------------------------------
def arrives(s: State, call: Any, i: int, at: int, now: int) -> None:
    """A packet has come to the far end of a link."""
    packet = s.packet[i]
    hop, kind = packet["hop"], packet["kind"]
    if s.link[at]["waking"] == AN_ARRIVAL:
        frees_soon(s, at)
    if s.faulty[at]:
        link = s.link[at]
        s.came[at] += 1
        key = s.pair[packet["pair"]]["key"]
        number = 2 * packet["number"] + kind
        which = hop | (packet["flags"] & TRIMMED) << 6  # a header's draws are not its answer's
        lost = chance(key, LOSING, number, packet["copy"], which) < link["loss"]
        if lost or link["down"]:
            link["lost"] += 1
            vanish(s, i)
            return
        if chance(key, SPOILING, number, packet["copy"], which) < link["bad_icrc"]:
            packet["flags"] |= ARRIVED_BAD
    if kind == DATA or (EXTRAS and packet["flags"] & TRIMMED):
        packet["hop"] = hop + 1
        if hop + 1 < packet["hops"]:
            onward = s.hops[packet["start"] + hop + 1]
            if EXTRAS and s.globals[ADAPTIVE]:
                onward = steered(s, i, hop + 1, now)
            if EXTRAS and s.globals[BUFFERS] and kind == DATA:
                admit(s, i, at, onward, now)
            else:
                forward(s, i, onward, now, True)
        else:
            arrived(s, call, i, now)
    else:
        packet["hop"] = hop - 1
        if hop > 0:
            forward(s, i, s.hops[packet["start"] + hop - 1] ^ 1, now, True)
        else:
            heard(s, call, i, now)


def arrived(s: State, call: Any, i: int, now: int) -> None:
    """A packet of data is at its receiver, which accepts any order."""
    packet = s.packet[i]
    p = packet["pair"]
    pair = s.pair[p]
    if packet["flags"] & ARRIVED_BAD:
        pair["bad_icrc"] += 1
        release(s, i)
        return
    if packet["epoch"] != pair["epoch"]:
        release(s, i)
        return
    took, start = now - packet["sent"], packet["start"]
    note_way(s, s.hops[start], took)
    note_way(s, s.hops[start + packet["hops"] - 1], took)
    asks = ASKS if EXTRAS and packet["flags"] & TRIMMED else taken(s, call, i, now)
    owe(s, pair, i)
    if asks or pair["owed"] >= pair["ack_every"]:
        answer(s, i, settle(pair), now)


def note_way(s: State, at: int, took: int) -> None:
    """A packet `took` these picoseconds from its NIC to its receiver, of which this link was the first or the
    last; the longest way of a link is forgotten over 64 packets."""
    s.ways[at] = max(took, s.ways[at] - (s.ways[at] >> 6))


def taken(s: State, call: Any, i: int, now: int) -> int:
    """The receiver takes a packet; whether it is to be acknowledged at once."""
    packet, g = s.packet[i], s.globals
    p = packet["pair"]
    pair = s.pair[p]
    if g[RECEIVER] != 0:
        record, marked = g[RECEIVER] + p * g[RECEIVER_BYTES], packet["flags"] & MARKED
        answers = call(RECEIVED, record, 0, now, packet["size"], marked, 0, 0)
        if answers > 0:
            answer(s, i, NONE, now)
        elif answers < 0:
            g[WRONG_CALL] = -1 - p
    late = pair["beyond"] - 1 - packet["number"]
    if late < 0:
        pair["beyond"] = packet["number"] + 1
    elif late > 0:
        pair["behind"] += 1
        pair["depth"] = max(pair["depth"], late)
    place = pair["got"] + packet["number"]
    asks = packet["flags"] & (ASKS | MARKED)
    if s.got[place] > 0:
        pair["twice"] += 1
        asks = ASKS
    else:
        s.got[place] = 1
        e = packet["entry"]
        s.entry[e]["missing"] -= 1
        if s.entry[e]["missing"] == 0:
            asks = ASKS  # packets of slower paths come behind the one that asks
            complete(s, e, now)
    if packet["flags"] & MARKED:
        pair["marked"] += 1
    return asks


def answer(s: State, i: int, first: int, now: int) -> None:
    """Back over the path of packet `i`: an acknowledgement of the list that `first` begins; NONE: a CNP."""
    packet, a = s.packet[i], new_packet(s)
    ack, hop = s.packet[a], packet["hops"] - 1
    ack["pair"], ack["number"], ack["copy"] = packet["pair"], packet["number"], packet["copy"]
    ack["path"], ack["start"], ack["hops"] = packet["path"], packet["start"], packet["hops"]
    ack["hop"], ack["epoch"] = hop, packet["epoch"]
    ack["kind"], ack["uses"], ack["first"] = ACK, 1, first
    ack["size"] = s.globals[CNP_BYTES] if first == NONE else s.globals[ACK_BYTES]
    ack["flags"] = CNP if first == NONE else 0
    ack["sent"], ack["later"], ack["entry"] = now, NONE, packet["entry"]
    forward(s, a, s.hops[packet["start"] + hop] ^ 1, now, False)


def heard(s: State, call: Any, a: int, now: int) -> None:
    """An acknowledgement is at the sender."""
    p = s.packet[a]["pair"]
    pair = s.pair[p]
    total, marked, delay, again = 0, 0, 0, s.packet[a]["copy"]
    i = s.packet[a]["first"]
    if s.packet[a]["flags"] & ARRIVED_BAD:
        pair["bad_icrc"] += 1
        vanish(s, a)
        return
    if s.packet[a]["flags"] & CNP:
        pair["notified"] += 1
        control(s, call, NOTIFIED, p, now, 0, 0, 0, 0)
        release(s, a)
        look(s, p)
        return
    while i != NONE:
        packet = s.packet[i]
        after = packet["next"]
        if EXTRAS and packet["flags"] & TRIMMED:
            asked_again(s, call, i, now)
            release(s, i)
            i = after
            continue
        if not packet["flags"] & ACKED and (again == 0 or packet["copy"] > 0):
            sample(s, p, now - packet["sent"])
        if not packet["flags"] & (ACKED | LOST):
            total += packet["size"]
            delay = now - packet["sent"]
            if packet["flags"] & MARKED:
                marked += packet["size"]
        acknowledge(s, call, i, now)
        if packet["flags"] & LISTED:
            s.path[packet["path"]]["heard"] = now
            overtaken(s, call, packet["path"], NONE if EXTRAS and s.globals[ADAPTIVE] else i, 0, now)
        release(s, i)
        i = after
    release(s, a)
    if pair["left_path"] != NONE:
        overdue_left(s, call, p, now)
    if total > 0:
        control(s, call, HEARD, p, now, total, marked, delay, pair["in_flight"])
    look(s, p)


def sample(s: State, p: int, trip: int) -> None:
    """Learn from a round trip (RFC 6298); answers name the copy that they are for, so all of them tell. But
    what an answer to a repetition acknowledges besides may have arrived long before, its own one being
    lost."""
    pair = s.pair[p]
    if pair["smoothed"] == 0:
        pair["smoothed"], pair["variation"] = trip, trip >> 1
        return
    error = trip - pair["smoothed"]
    pair["smoothed"] += error >> 3
    pair["variation"] += (abs(error) - pair["variation"]) >> 2
