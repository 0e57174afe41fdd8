"""Buffers that ports share, priority-based flow control (PFC, IEEE 802.1Qbb) of the priority of data, and the
search for deadlocks; in numba's subset of Python."""

import numpy as np

from railweave.plugins.packet.calendar import FREES, PAUSES, push
from railweave.plugins.packet.layout import (
    AN_EVENT,
    BUFFERS,
    DATA,
    DEADLOCK,
    DEEPEST,
    DEPTHS,
    NEVER,
    NONE,
    NOTHING,
    PATIENCE,
    PAUSED,
    SEARCHING,
    TRIMMING,
    State,
)
from railweave.plugins.packet.queues import forward, frees, trim, vanish

FRAME, SEARCH = 0, 1
"""Events of pauses: a frame has reached the sender of a link and is obeyed; a search for deadlocks."""


# -- ingress ports ---------------------------------------------------------------------------------------
def admit(s: State, i: int, at: int, out: int, now: int) -> None:
    """A packet of data that came over link `at` goes to the queue of link `out`. While it waits there, the
    ingress port of `at` holds it; it is dropped or trimmed where there is no room."""
    port, size = s.port[at], s.packet[i]["size"]
    if not has_room(s, at, out, size):
        if s.globals[TRIMMING]:
            trim(s, i, out)
            forward(s, i, out, now, True)
            return
        s.link[out]["drops"] += 1
        vanish(s, i)
        return
    if not forward(s, i, out, now, False):
        return
    port["held"] += size
    port["fullest"] = max(port["fullest"], port["held"])
    used = 0
    if port["node"] != NONE:
        s.memory[port["node"]]["used"] += size
        used = s.memory[port["node"]]["used"]
    if s.globals[BUFFERS] & PAUSED and port["asked"] == 0 and port["held"] > xoff_of(s, at, used):
        if port["node"] != NONE:
            port["most"] = port["held"] - size + port["headroom"]
        port["depth"] = 1
        if s.link[out]["paused"] != 0:
            port["depth"] += s.port[out]["depth"]
        port["pauses"] += 1
        s.globals[DEPTHS + min(port["depth"], DEEPEST) - 1] += 1
        send_frame(s, at, now)


def has_room(s: State, at: int, out: int, size: int) -> bool:
    """For a packet from link `at` to link `out`: with pauses up to the headroom, else in shared memory, of
    which a queue that grows may have alpha times what is free (Choudhury and Hahne, IEEE/ACM ToN, 1998)."""
    port = s.port[at]
    if s.globals[BUFFERS] & PAUSED:
        return port["held"] + size <= port["most"]
    memory = s.memory[port["node"]]
    free = memory["size"] - memory["used"]
    return size <= free and s.link[out]["queued"][DATA] < memory["alpha"] * free


def xoff_of(s: State, at: int, used: int) -> int:
    """What the ingress port of a link may hold where so much memory is used before it pauses the link."""
    port = s.port[at]
    if port["node"] == NONE:
        return port["xoff"]
    memory = s.memory[port["node"]]
    return min(port["xoff"], max(0, np.int64(memory["alpha"] * (memory["size"] - used))))


def xon_of(s: State, at: int, used: int) -> int:
    """Down to what it goes on: as far below as Xon is below Xoff."""
    return max(0, xoff_of(s, at, used) - (s.port[at]["xoff"] - s.port[at]["xon"]))


def send_frame(s: State, at: int, now: int) -> None:
    """Pauses and resumptions of a link take turns, so that a frame turns the one into the other. It waits for
    the packet being sent in its direction."""
    port = s.port[at]
    port["asked"] ^= 1
    if port["node"] != NONE:
        s.memory[port["node"]]["asked"] += 2 * port["asked"] - 1
        if port["asked"] == 0:
            port["most"] = NEVER
    port["frames"] += 1
    push(s, max(now, s.link[at ^ 1]["busy"]) + port["frame"], (PAUSES << 60) | (at << 32) | FRAME)


def leaves(s: State, at: int, now: int) -> None:
    """A link is free for the first packet that waits; the ingress port that held it holds it no more."""
    i = NONE
    if s.link[at]["head"][0] == NONE and s.link[at]["paused"] == 0:
        i = s.link[at]["head"][DATA]
    frees(s, at, now)
    if i == NONE or s.packet[i]["hop"] == 0:
        return
    packet = s.packet[i]
    came = s.hops[packet["start"] + packet["hop"] - 1]
    port = s.port[came]
    port["held"] -= packet["size"]
    if port["node"] == NONE:
        if port["asked"] != 0 and port["held"] <= port["xon"]:
            send_frame(s, came, now)
        return
    memory = s.memory[port["node"]]
    memory["used"] -= packet["size"]
    came = memory["first"]
    while memory["asked"] > 0 and came != NONE:
        if s.port[came]["asked"] != 0 and s.port[came]["held"] <= xon_of(s, came, memory["used"]):
            send_frame(s, came, now)
        came = s.port[came]["next"]


def paused(s: State, at: int, what: int, now: int) -> None:
    """The sender of a link obeys a frame: it sends no data any more, or goes on."""
    if what == SEARCH:
        search(s, now)
        return
    link, port = s.link[at], s.port[at]
    port["frames"] -= 1
    if link["paused"] == 0:
        link["paused"] = 1
        port["since"] = now
        if s.globals[SEARCHING] == 0:
            s.globals[SEARCHING] = 1
            push(s, now + s.globals[PATIENCE], (PAUSES << 60) | SEARCH)
        return
    link["paused"] = 0
    port["paused"] += now - port["since"]
    port["since"] = NEVER
    if link["head"][DATA] != NONE and link["waking"] == NOTHING:
        link["waking"] = AN_EVENT
        push(s, max(link["busy"], now), (FREES << 60) | (at << 32))


# -- deadlocks -------------------------------------------------------------------------------------------
def search(s: State, now: int) -> None:
    """Look for a deadlock if a link has been paused for long enough, and again after as long a time."""
    oldest, pausing = 0, False
    for at in range(len(s.link)):
        if s.link[at]["paused"] != 0:
            pausing = True
            oldest = max(oldest, now - s.port[at]["since"])
    if not pausing:
        s.globals[SEARCHING] = 0
        return
    if oldest >= s.globals[PATIENCE]:
        s.globals[DEADLOCK] = 1 + first_stuck(s)
    push(s, now + max(oldest, s.globals[PATIENCE]), (PAUSES << 60) | SEARCH)


def first_stuck(s: State) -> int:
    """The first link that is paused for ever, NONE without one: the port at its far end holds more than Xon
    behind such links. They are the greatest set for which that is true."""
    for at in range(len(s.link)):
        port = s.port[at]
        port["stuck"] = s.link[at]["paused"] != 0 and port["asked"] != 0 and port["frames"] == 0
    shrinks = True
    while shrinks:
        shrinks = False
        for at in range(len(s.link)):
            s.port[at]["blocked"] = 0
        for node in range(len(s.memory)):
            s.memory[node]["blocked"] = 0
        for at in range(len(s.link)):
            i = s.link[at]["head"][DATA] if s.port[at]["stuck"] else NONE
            while i != NONE:
                packet = s.packet[i]
                if packet["hop"] > 0:
                    port = s.port[s.hops[packet["start"] + packet["hop"] - 1]]
                    port["blocked"] += packet["size"]
                    if port["node"] != NONE:
                        s.memory[port["node"]]["blocked"] += packet["size"]
                i = packet["next"]
        for at in range(len(s.link)):
            node = s.port[at]["node"]
            used = s.memory[node]["blocked"] if node != NONE else 0
            if s.port[at]["stuck"] and s.port[at]["blocked"] <= xon_of(s, at, used):
                s.port[at]["stuck"] = 0
                shrinks = True
    for at in range(len(s.link)):
        if s.port[at]["stuck"]:
            return at
    return NONE
