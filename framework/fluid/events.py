"""What happens from one event to the next: ends of flows, starts, and the rates between them.

Written for numba's subset of Python, so that `compiled` makes machine code of it; without numba it runs as it
stands, with those parts that touch every flow from `plain`.
"""

from collections.abc import Callable
from functools import cache
from math import inf
from types import FunctionType
from typing import NamedTuple

import numpy as np

from railweave.framework.fluid.plain import SAME_RATE, earliest, ending, enter, share_out
from railweave.framework.fluid.state import (
    ACTIVE,
    DONE,
    ENDED,
    EPOCH,
    EVENTS,
    HEAP,
    HISTORY,
    JOINED,
    KNOWN,
    QUIT,
    SAME_TIME,
    SOLVED,
    State,
)
from railweave.framework.model.arrays import Float, Int32

REACHED, JOB_ENDED, STANDS, PAUSED = range(4)
"""Why `run` returned: its time was reached, a job has ended, nothing will happen any more, enough work."""


class Code(NamedTuple):
    """The two doors of this module, plain or compiled."""

    run: Callable[[State, float, int], int]
    share_out: Callable[[State], int]


def run(s: State, until: float, work: int) -> int:
    """Carry on until that time, until a job has ended, or for about `work` hops."""
    while True:
        soon = s.clock[0] + SAME_TIME * abs(s.clock[0])
        if next_start(s) <= soon:
            work -= fire(s, soon)
            continue
        if s.tally[JOINED] or s.tally[QUIT]:
            work -= share_out(s)
        if s.tally[ENDED]:
            return JOB_ENDED
        if work <= 0:
            return PAUSED
        start = next_start(s)
        end, due = earliest(s)
        moment = min(start, end)
        if moment > until:
            s.clock[0] = until
            return REACHED
        if moment == inf:
            return STANDS
        s.tally[EVENTS] += 1
        work -= s.tally[ACTIVE] // 4 + 1
        if start <= end:
            s.clock[0] = max(s.clock[0], start)
            continue
        pairs = ending(s, min(due, start, until))
        for pair in pairs:
            s.clock[0] = max(s.clock[0], s.until[pair])
        for pair in pairs:
            s.sent[pair] += s.left[pair]
            s.free[pair] = s.until[pair]
            s.until[pair] = s.due[pair] = inf
            s.busy[pair] = False
            s.quit[s.tally[QUIT]] = pair
            s.tally[QUIT] += 1
            finish(s, int(s.head[pair]), s.free[pair])
        work -= 4 * len(pairs)


def next_start(s: State) -> float:
    """When the next transfer starts or computation ends that is known."""
    at = inf
    if s.tally[KNOWN] < len(s.known_at):
        at = s.known_at[s.tally[KNOWN]]
    if s.tally[HEAP]:
        at = min(at, s.heap_at[0])
    return at


def fire(s: State, soon: float) -> int:
    """All that is due until `soon`; how many there were."""
    fired = 0
    while s.tally[KNOWN] < len(s.known_at) and s.known_at[s.tally[KNOWN]] <= soon:
        at, entry = s.known_at[s.tally[KNOWN]], int(s.known_entry[s.tally[KNOWN]])
        s.tally[KNOWN] += 1
        fired += arrive(s, entry, at)
    while s.tally[HEAP] and s.heap_at[0] <= soon:
        at, entry = s.heap_at[0], int(s.heap_entry[0])
        drop(s.heap_at, s.heap_entry, s.tally[HEAP])
        s.tally[HEAP] -= 1
        fired += arrive(s, entry, at)
    return fired


def arrive(s: State, entry: int, at: float) -> int:
    """The moment of an entry has come: a transfer starts, any other ends."""
    if s.pair[entry] >= 0:
        send(s, entry, at)
    else:
        finish(s, entry, at)
    return 4


def finish(s: State, entry: int, at: float) -> None:
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


def again(s: State, entry: int) -> None:
    """The next repetition of an entry begins, or waits for those that it is chained to."""
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


def release(s: State, entry: int, at: float) -> None:
    """One of those that the entry waits for is done."""
    s.ready[entry] = max(s.ready[entry], at)
    s.waits[entry] -= 1
    if s.waits[entry] == 0:
        begin(s, entry)


def begin(s: State, entry: int) -> None:
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


def send(s: State, entry: int, at: float) -> None:
    """A transfer takes its pair's share of the links: at once that which the one before it had."""
    pair = s.pair[entry]
    s.busy[pair] = True
    s.left[pair] = s.bits[entry]
    s.began[pair] = at
    if s.place[pair] >= 0:
        s.since[pair] = at
        plan(s, pair)
        return
    s.since[pair] = s.clock[0]
    s.rate[pair] = s.until[pair] = s.due[pair] = inf
    s.place[pair] = s.tally[ACTIVE]
    s.active[s.tally[ACTIVE]] = pair
    s.joined[s.tally[JOINED]] = pair
    s.tally[ACTIVE] += 1
    s.tally[JOINED] += 1
    enter(s, pair)


def plan(s: State, pair: int) -> None:
    """When the pair's flow ends if its rate remains."""
    until = inf
    if s.left[pair] <= 0:
        until = s.since[pair]
    elif s.rate[pair] > 0:
        until = s.since[pair] + s.left[pair] / s.rate[pair]
    s.until[pair] = until
    s.due[pair] = until + s.clock[1] * (until - s.began[pair])


def push(at: Float, value: Int32, size: int, new_at: float, new: int) -> None:
    """Add to a binary heap of `size`."""
    place = size
    while place > 0:
        parent = (place - 1) // 2
        if at[parent] <= new_at:
            break
        at[place], value[place] = at[parent], value[parent]
        place = parent
    at[place], value[place] = new_at, new


def drop(at: Float, value: Int32, size: int) -> None:
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


@cache
def code(compile: bool) -> Code:
    """Plain, or in machine code that numba keeps on disk; there, functions named `each_...` take the place of
    those of `plain`."""
    if not compile:
        return Code(run, share_out)
    import numba

    functions = (
        run, next_start, fire, arrive, finish, again, release, begin, send, plan, push, drop,
        each_earliest, each_ending, each_enter, each_leave, each_share_out, lowest_new, gather, settle,
    )  # fmt: skip
    names = dict(globals())
    for function in functions:
        name = function.__name__
        clone = FunctionType(function.__code__, names, name)
        names[name] = names[name.removeprefix("each_")] = numba.njit(cache=True)(clone)
    return Code(names["run"], names["share_out"])


def each_earliest(s: State) -> tuple[float, float]:
    end, due = inf, inf
    for i in range(s.tally[ACTIVE]):
        pair = s.active[i]
        end = min(end, s.until[pair])
        due = min(due, s.due[pair])
    return end, due


def each_ending(s: State, limit: float) -> Int32:
    pairs = np.empty(s.tally[ACTIVE], np.int32)
    size = 0
    for i in range(s.tally[ACTIVE]):
        if s.until[s.active[i]] <= limit:
            pairs[size] = s.active[i]
            size += 1
    return pairs[:size]


def each_enter(s: State, pair: int) -> None:
    for hop in range(s.start[pair], s.start[pair + 1]):
        link = s.link[hop]
        s.load[link] += s.use[hop]
        s.spot[hop] = s.first[link] + s.crowd[link]
        s.member[s.spot[hop]] = hop
        s.crowd[link] += 1


def each_leave(s: State, pair: int) -> None:
    s.tally[ACTIVE] -= 1
    last = s.active[s.tally[ACTIVE]]
    s.active[s.place[pair]] = last
    s.place[last] = s.place[pair]
    s.place[pair] = -1
    for hop in range(s.start[pair], s.start[pair + 1]):
        link = s.link[hop]
        s.crowd[link] -= 1
        s.load[link] = s.load[link] - s.use[hop] if s.crowd[link] else 0.0
        moved = s.member[s.first[link] + s.crowd[link]]
        s.member[s.spot[hop]] = moved
        s.spot[moved] = s.spot[hop]


def each_share_out(s: State) -> int:
    """As `plain.share_out`; links in the order of their shares, from a heap whose keys may be too small,
    since shares only grow."""
    level = inf
    for i in range(s.tally[QUIT]):
        pair = s.quit[i]
        if not s.busy[pair] and s.place[pair] >= 0:
            level = min(level, s.rate[pair])
            each_leave(s, pair)
    if s.tally[JOINED]:
        level = min(level, lowest_new(s))
    elif level == inf:
        s.tally[QUIT] = 0
        return 1
    s.tally[QUIT] = s.tally[JOINED] = 0
    work, n_links = gather(s, level * (1 - SAME_RATE))
    epoch, now = s.tally[EPOCH], s.clock[0]
    share = 0.0
    while n_links:
        key, link = s.level[0], s.order[0]
        drop(s.level, s.order, n_links)
        n_links -= 1
        if s.open_flows[link] == 0:
            continue
        fair = max(s.rest[link], 0.0) / s.open_use[link]
        if fair > key:
            push(s.level, s.order, n_links, fair, link)
            n_links += 1
            continue
        share = max(share, fair)
        for k in range(s.first[link], s.first[link] + s.crowd[link]):
            pair = s.owner[s.member[k]]
            if s.mark[pair] == epoch:
                s.mark[pair] = -epoch
                settle(s, pair, share, now)
                for hop in range(s.start[pair], s.start[pair + 1]):
                    other = s.link[hop]
                    s.rest[other] -= s.use[hop] * share
                    s.open_use[other] -= s.use[hop]
                    s.open_flows[other] -= 1
    return work


def lowest_new(s: State) -> float:
    """The least that any new flow can get: an equal share of each of its links."""
    level = inf
    for i in range(s.tally[JOINED]):
        pair = s.joined[i]
        for hop in range(s.start[pair], s.start[pair + 1]):
            level = min(level, s.capacity[s.link[hop]] / s.load[s.link[hop]])
    return level


def gather(s: State, level: float) -> tuple[int, int]:
    """Open the flows at `level` and above; (hops looked at, links in the heap)."""
    s.tally[EPOCH] += 1
    epoch = s.tally[EPOCH]
    work, n_links, n_flows = 1, 0, 0
    for i in range(s.tally[ACTIVE]):
        pair = s.active[i]
        if s.rate[pair] < level:
            continue
        s.mark[pair] = epoch
        n_flows += 1
        if s.start[pair] == s.start[pair + 1]:
            settle(s, pair, 0.0, s.clock[0])
        work += s.start[pair + 1] - s.start[pair]
        for hop in range(s.start[pair], s.start[pair + 1]):
            link = s.link[hop]
            if s.seen[link] != epoch:
                s.seen[link] = epoch
                s.order[n_links] = link
                n_links += 1
                s.rest[link], s.open_use[link], s.open_flows[link] = s.capacity[link], 0.0, 0
            s.open_use[link] += s.use[hop]
            s.open_flows[link] += 1
    s.tally[SOLVED] += n_flows
    for i in range(n_links):
        s.region[i] = s.order[i]
    for i in range(n_links):
        link = s.region[i]
        if s.crowd[link] > s.open_flows[link]:
            work += s.crowd[link]
            for k in range(s.first[link], s.first[link] + s.crowd[link]):
                hop = s.member[k]
                if s.mark[s.owner[hop]] != epoch:
                    s.rest[link] -= s.use[hop] * s.rate[s.owner[hop]]
        push(s.level, s.order, i, max(s.rest[link], 0.0) / s.open_use[link], link)
    return work, n_links


def settle(s: State, pair: int, rate: float, now: float) -> None:
    """The pair's flow has this rate from now on."""
    if rate == s.rate[pair]:
        return
    if s.rate[pair] < inf:
        moved = s.rate[pair] * (now - s.since[pair])
        s.left[pair] -= moved
        s.sent[pair] += moved
    s.since[pair] = now
    s.rate[pair] = rate
    plan(s, pair)
