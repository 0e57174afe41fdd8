"""What happens from one event to the next: ends of flows, starts, and the rates between them.

In numba's subset of Python, so that `compiled` makes machine code of it; without numba it runs as it stands,
with those parts that touch every flow from `plain`.
"""

from math import inf

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model.arrays import Float
from railweave.framework.solver.plain import earliest, end, enter, expect, send_known, share_out
from railweave.framework.solver.state import (
    ACTIVE,
    DONE,
    ENDED,
    EVENTS,
    HEAP,
    HISTORY,
    JOINED,
    KNOWN,
    QUIT,
    SAME_TIME,
    FlowState,
)

REACHED, JOB_ENDED, STANDS, PAUSED = range(4)
"""Why `run` returned: its time was reached, a job has ended, nothing will happen any more, enough work."""
EACH = 100
"""What the start or end of a repetition costs, in hops looked at."""


def run(s: FlowState, until: float, work: int) -> int:
    """Carry on until that time, until a job has ended, or for about `work` hops."""
    while True:
        soon = s.clock[0] + SAME_TIME * abs(s.clock[0])
        if next_start(s) <= soon:
            work -= fire(s, soon, work)
            if work <= 0:
                return PAUSED
            continue
        if s.tally[JOINED] or s.tally[QUIT]:
            work -= share_out(s)
        if s.tally[ENDED]:
            return JOB_ENDED
        if work <= 0:
            return PAUSED
        start = next_start(s)
        first, due = earliest(s)
        moment = min(start, first)
        if moment > until:
            s.clock[0] = until
            return REACHED
        if moment == inf:
            return STANDS
        s.tally[EVENTS] += 1
        work -= s.tally[ACTIVE] // 4 + 1
        if start <= first:
            s.clock[0] = max(s.clock[0], start)
            continue
        first_quit = s.tally[QUIT]
        ended, concerned = end(s, min(due, start, until))
        for pair in s.quit[first_quit : first_quit + concerned]:
            finish(s, int(s.head[pair]), s.free[pair])
        work -= EACH * concerned + ended


def next_start(s: FlowState) -> float:
    """When the next transfer starts or computation ends that is known."""
    at = inf
    if s.tally[KNOWN] < len(s.known_at):
        at = s.known_at[s.tally[KNOWN]]
    if s.tally[HEAP]:
        at = min(at, s.heap_at[0])
    return at


def fire(s: FlowState, soon: float, work: int) -> int:
    """What is due until `soon`, for about so much work; the work done."""
    fired = send_known(s, soon)
    while fired < work and s.tally[KNOWN] < len(s.known_at) and s.known_at[s.tally[KNOWN]] <= soon:
        at, entry = s.known_at[s.tally[KNOWN]], int(s.known_entry[s.tally[KNOWN]])
        s.tally[KNOWN] += 1
        fired += arrive(s, entry, at)
    while fired < work and s.tally[HEAP] and s.heap_at[0] <= soon:
        at, entry = s.heap_at[0], int(s.heap_entry[0])
        drop(s.heap_at, s.heap_entry, s.tally[HEAP])
        s.tally[HEAP] -= 1
        fired += arrive(s, entry, at)
    return fired


def arrive(s: FlowState, entry: int, at: float) -> int:
    """The moment of an entry has come: a transfer starts, any other ends."""
    if s.pair[entry] >= 0:
        send(s, entry, at)
    else:
        finish(s, entry, at)
    return EACH


def finish(s: FlowState, entry: int, at: float) -> None:
    """A repetition of the entry is done."""
    s.done[entry] += 1
    s.end[entry] = at
    s.tally[DONE] += 1
    done = s.done[entry]
    if len(s.history):
        s.history[entry, (done - 1) % HISTORY] = at
    for k in range(s.chain_start[entry], s.chain_start[entry + 1]):
        other = s.chain[k]
        turn = s.done[other]
        if other != entry and done == turn + 1 - s.lag[other] and turn < s.repeat[other]:
            release(s, other, at)
    if done < s.repeat[entry]:
        again(s, entry)
        return
    job = s.job[entry]
    s.unfinished[job] -= 1
    if s.unfinished[job] == 0:
        s.tally[ENDED] += 1
    for k in range(s.follow_start[entry], s.follow_start[entry + 1]):
        release(s, s.follow[k], at)
    pair = s.pair[entry]
    if pair >= 0:
        following = int(s.next[entry])
        s.head[pair] = following
        if following >= 0 and s.waits[following] == 0:
            begin(s, following)


def again(s: FlowState, entry: int) -> None:
    """The next repetition of an entry begins, or waits for the entries that it is chained to."""
    waits, ready, needed = 0, -inf, s.done[entry] + 1 - s.lag[entry]
    for k in range(s.chained_start[entry], s.chained_start[entry + 1]):
        other = s.chained[k]
        if s.done[other] < needed:
            waits += 1
        elif (
            needed > 0 and s.done[other] - needed < HISTORY
        ):  # else too long ago for a delay to last until now
            ready = max(ready, s.history[other, (needed - 1) % HISTORY])
    if s.pair[entry] < 0:
        ready = max(ready, s.end[entry])
    s.waits[entry], s.ready[entry] = waits, ready
    if waits == 0:
        begin(s, entry)


def release(s: FlowState, entry: int, at: float) -> None:
    """One of the entries that this one waits for is done."""
    s.ready[entry] = max(s.ready[entry], at)
    s.waits[entry] -= 1
    if s.waits[entry] == 0:
        begin(s, entry)


def begin(s: FlowState, entry: int) -> None:
    """Nothing but its turn and its time delays the entry any more."""
    pair = s.pair[entry]
    if pair < 0:
        at = s.ready[entry] + s.seconds[entry]
    elif s.head[pair] != entry:
        return
    else:
        at = max(s.ready[entry] + s.delay[pair], s.free[pair])
        if at <= s.clock[0]:
            send(s, entry, at)
            return
    push(s.heap_at, s.heap_entry, s.tally[HEAP], at, entry)
    s.tally[HEAP] += 1


def send(s: FlowState, entry: int, at: float) -> None:
    """A transfer takes its pair's share of the links: at once that which the one before it had."""
    pair = s.pair[entry]
    s.busy[pair] = True
    bits, first = s.bits[entry], s.each_start[entry]
    if s.each_start[entry + 1] > first:
        bits = s.each[first + s.done[entry]]
    s.asked[pair] = s.left[pair] = bits
    s.began[pair] = at
    if s.listed[pair]:
        s.since[pair] = at
        s.until[pair] = end_of(at, s.left[pair], s.rates[pair])
        s.due[pair] = s.until[pair] + s.clock[1] * (s.until[pair] - at)
        expect(s, pair)
        return
    s.since[pair] = s.clock[0]
    s.rates[pair] = s.until[pair] = s.due[pair] = inf
    s.listed[pair] = True
    s.active[s.tally[ACTIVE]] = pair
    s.joined[s.tally[JOINED]] = pair
    s.tally[ACTIVE] += 1
    s.tally[JOINED] += 1
    enter(s, pair)


def end_of(since: float, left: float, rate: float) -> float:
    """When `left` bits are sent."""
    if left <= 0:
        return since
    return since + left / rate if rate > 0 else inf


def push(at: Float, value: NDArray[np.integer], size: int, new_at: float, new: int) -> None:
    """Add to a binary heap of `size`."""
    place = size
    while place > 0:
        parent = (place - 1) // 2
        if at[parent] <= new_at:
            break
        at[place], value[place] = at[parent], value[parent]
        place = parent
    at[place], value[place] = new_at, new


def drop(at: Float, value: NDArray[np.integer], size: int) -> None:
    """Remove the first of a binary heap of `size`."""
    last = size - 1
    place = 0
    while 2 * place + 1 < last:
        child = 2 * place + 1
        if child + 1 < last and at[child + 1] < at[child]:
            child += 1
        if at[child] >= at[last]:
            break
        at[place], value[place] = at[child], value[child]
        place = child
    at[place], value[place] = at[last], value[last]
