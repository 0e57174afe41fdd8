"""The loop over events, in numba's subset of Python."""

from typing import Any

from railweave.plugins.packet.calendar import FREES, PAUSES, pop, turn
from railweave.plugins.packet.layout import (
    BUFFERS,
    BUSY,
    DEAD,
    DEADLOCK,
    DONE,
    ENDED,
    EXTRAS,
    FREEING,
    FULL,
    LOOK_HEAD,
    LOOKS,
    N_BLOCKS,
    N_EVENTS,
    N_FREE,
    NOW,
    REACHED,
    READIES,
    READY_HEAD,
    ROOM,
    STOPPED,
    TODAY,
    WRONG_CALL,
    State,
)
from railweave.plugins.packet.losses import timer
from railweave.plugins.packet.pauses import leaves, paused
from railweave.plugins.packet.queues import frees, look
from railweave.plugins.packet.receiving import COMPUTED, arrives, begin, complete
from railweave.plugins.packet.sending import PACED, WAKES, pump, wakes


def addressed(state: State) -> State:
    """The state as functions get it; compiled it is its address (addresses.py)."""
    return state


def run(state: State, until: int, events: int, call: Any) -> int:
    """Carry out what happens up to `until`, `events` at most; why it ends (layout.py). `call`: the functions
    of the chooser and of the congestion control."""
    s = addressed(state)
    g = state.globals
    while True:
        if g[ENDED] or g[DEAD] or g[WRONG_CALL] or (EXTRAS and g[DEADLOCK]):
            return STOPPED
        if g[N_FREE] < ROOM or g[N_BLOCKS] < ROOM or g[N_EVENTS] + ROOM > len(state.events):
            return FULL
        if g[READIES] > 0:
            e = s.ready[g[READY_HEAD]]
            g[READY_HEAD] = (g[READY_HEAD] + 1) % len(s.ready)
            g[READIES] -= 1
            begin(s, e, g[NOW])
            continue
        if g[LOOKS] > 0:
            p = s.looks[g[LOOK_HEAD]]
            g[LOOK_HEAD] = g[LOOK_HEAD] + 1 if g[LOOK_HEAD] + 1 < len(s.looks) else 0
            g[LOOKS] -= 1
            pump(s, call, p, g[NOW])
            continue
        if g[FREEING] > 0 and (g[TODAY] == 0 or s.events[0]["time"] > g[NOW]):
            g[FREEING] -= 1
            frees(s, s.freeing[g[FREEING]], g[NOW])
            continue
        if (g[TODAY] == 0 and not turn(s, until)) or s.events[0]["time"] > until:
            g[NOW] = until
            return REACHED
        if events == 0:
            return BUSY
        events -= 1
        g[DONE] += 1
        now, what = s.events[0]["time"], s.events[0]["what"]
        g[NOW] = now
        pop(s)
        happens(s, call, what, now)


def happens(s: State, call: Any, what: int, now: int) -> None:
    """One event."""
    kind, at, which = what >> 60, (what >> 32) & 0xFFFFFFF, what & 0xFFFFFFFF
    if kind < PAUSES:
        arrives(s, call, which, at, now)
    elif kind == FREES:
        if EXTRAS and s.globals[BUFFERS]:
            leaves(s, at, now)
        else:
            frees(s, at, now)
    elif EXTRAS and kind == PAUSES:
        paused(s, at, which, now)
    elif which == COMPUTED:
        complete(s, at, now)
    elif which == WAKES:
        wakes(s, call, at, now)
    elif which == PACED:
        s.pair[at]["waking"] = 0
        look(s, at)
    else:
        timer(s, call, at, now)
