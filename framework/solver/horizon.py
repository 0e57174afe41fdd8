"""Which flow ends next, to be compiled: functions stand in for those of that name in `plain`.

Flows that end before a horizon are listed, and only these are looked at until none is left. Then the horizon
moves on, and all flows are looked at once.
"""

from math import inf

from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.solver.state import ACTIVE, QUIT, SOON, FlowState

SAMPLE = 64
"""Flows by which a horizon is chosen: about one in this number ends before it. Fewer would make the lists
long that every event goes through, more would have all flows looked at more often."""


def earliest(s: FlowState) -> tuple[float, float]:
    """As `plain.earliest`, of the flows in `soon` alone: others end later than the horizon, so they matter
    only where none of these must be noticed before that."""
    end, latest = first_of_soon(s)
    while latest > s.clock[2]:
        look_ahead(s, latest if latest < inf else s.clock[2])
        end, latest = first_of_soon(s)
    return end, latest


def first_of_soon(s: FlowState) -> tuple[float, float]:
    """What `earliest` says, of the flows in `soon`; a flow that does not belong there any more leaves it."""
    tally, soon, is_soon, until, due = s.tally, s.soon, s.is_soon, s.until, s.due
    end, latest, size, horizon = inf, inf, 0, s.clock[2]
    for i in range(tally[SOON]):
        pair = soon[i]
        if until[pair] <= horizon and until[pair] < inf:
            soon[size] = pair
            size += 1
            end = min(end, until[pair])
            latest = min(latest, due[pair])
        else:
            is_soon[pair] = False
    tally[SOON] = size
    return end, latest


def look_ahead(s: FlowState, after: float) -> None:
    """Set the horizon to a moment later than `after`, before which few flows end, and list these."""
    tally, active, until, soon, is_soon = s.tally, s.active, s.until, s.soon, s.is_soon
    listed, place = s.listed, s.place
    horizon, n = inf, tally[ACTIVE]
    for i in range(0, n, n // SAMPLE + 1):
        if until[active[i]] > after:
            horizon = min(horizon, until[active[i]])
    s.clock[2] = horizon
    if 4 * n > len(until):  # in order again: what follows each other in memory is looked at together
        n = 0
        for pair in range(len(until)):
            if listed[pair]:
                active[n], place[pair] = pair, n
                n += 1
    for i in range(n):
        list_soon(tally, soon, is_soon, active[i], until[active[i]], horizon)


def expect(s: FlowState, pair: int) -> None:
    """The end of a flow has another moment."""
    list_soon(s.tally, s.soon, s.is_soon, pair, s.until[pair], s.clock[2])


def list_soon(tally: Int64, soon: Int32, is_soon: Bool, pair: int, end: float, horizon: float) -> None:
    """List a flow that ends before the horizon."""
    if end <= horizon and end < inf and not is_soon[pair]:
        is_soon[pair] = True
        soon[tally[SOON]] = pair
        tally[SOON] += 1


def end(s: FlowState, limit: float) -> tuple[int, int]:
    """As `plain.end`."""
    clock, tally, soon, until, due = s.clock, s.tally, s.soon, s.until, s.due
    sent, requested, free, busy, quit = s.sent, s.asked, s.free, s.busy, s.quit
    ended = 0
    for i in range(tally[SOON]):
        pair = soon[i]
        if until[pair] <= limit:
            clock[0] = max(clock[0], until[pair])
            sent[pair] += requested[pair]
            free[pair] = until[pair]
            until[pair] = due[pair] = inf
            busy[pair] = False
            quit[tally[QUIT]] = pair
            tally[QUIT] += 1
            ended += 1
    return ended, ended
