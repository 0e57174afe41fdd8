"""The sharing of links flow by flow, to be compiled: functions stand in for those of that name in `plain`."""

from math import inf

from railweave.framework.model.arrays import Float, Int32, Int64
from railweave.framework.solver.horizon import list_soon
from railweave.framework.solver.plain import SAME_RATE
from railweave.framework.solver.state import (
    ACTIVE,
    JOINED,
    OPEN,
    OUT,
    QUIT,
    REGION,
    SOLVED,
    TRIES,
    VISIT,
    WAIT,
    FlowState,
)
from railweave.framework.solver.stepping import drop, end_of, push


def send_known(s: FlowState, soon: float) -> int:
    """None together."""
    return 0


def enter(s: FlowState, pair: int) -> None:
    start, links, load, uses, spot = s.start, s.links, s.load, s.uses, s.spot
    first, crowd, member, guest = s.first, s.crowd, s.member, s.guest
    s.place[pair] = s.tally[ACTIVE] - 1
    for hop in range(start[pair], start[pair + 1]):
        link = links[hop]
        load[link] += uses[hop]
        spot[hop] = first[link] + crowd[link]
        member[spot[hop]] = hop
        guest[spot[hop]] = pair
        crowd[link] += 1


def leave(s: FlowState, pair: int) -> None:
    start, links = s.start, s.links
    crowd, load, uses, member, first = s.crowd, s.load, s.uses, s.member, s.first
    spot, guest, active, place = s.spot, s.guest, s.active, s.place
    s.listed[pair] = False
    s.tally[ACTIVE] -= 1
    other = active[s.tally[ACTIVE]]
    active[place[pair]], place[other] = other, place[pair]
    stop_at(s.stop, s.held_flows, pair, -1)
    for hop in range(start[pair], start[pair + 1]):
        link = links[hop]
        crowd[link] -= 1
        load[link] = load[link] - uses[hop] if crowd[link] else 0.0
        last_spot = first[link] + crowd[link]
        moved = member[last_spot]
        member[spot[hop]] = moved
        guest[spot[hop]] = guest[last_spot]
        spot[moved] = spot[hop]


def stop_at(stop: Int32, held_flows: Int64, pair: int, link: int) -> None:
    """This link holds the flow back, and the one before does no more; -1 for none."""
    if stop[pair] >= 0:
        held_flows[stop[pair]] -= 1
    stop[pair] = link
    if link >= 0:
        held_flows[link] += 1


def share_out(s: FlowState) -> int:
    """As `plain.share_out`, but first it tries the flows next to the change alone.

    Rates are max-min fair if every flow has a bottleneck: a link that is full, on which no flow is faster
    (Bertsekas and Gallager, Data Networks, 6.5.2). So the flows that the change released or presses are
    solved against all others as they are; flows that lose their bottleneck thereby, or are faster than a flow
    that meets its own on a link with them, join in, until none does. Where that becomes too many, all flows
    from the slowest change on are solved at once, as in `plain`, and so are the next few changes.
    """
    tally, active, rates, region, fresh = s.tally, s.active, s.rates, s.region, s.fresh
    tally[REGION] = 0
    many = tally[ACTIVE] // 4 + 8
    alone = tally[WAIT] == 0 and tally[JOINED] + tally[QUIT] < many
    level = min(leave_idle(s, alone), press(s, alone))
    if level == inf and tally[REGION] == 0:
        return 1
    level *= 1 - SAME_RATE
    work, n_flows = 1, -1
    while tally[REGION] > n_flows:
        n_flows = tally[REGION]
        if alone and n_flows > many:
            alone = False
            tally[TRIES] = min(2 * tally[TRIES] + 1, 63)
            tally[WAIT] = tally[TRIES] + 1
        if not alone:
            tally[WAIT] = max(tally[WAIT] - 1, 0)
            for i in range(tally[ACTIVE]):
                if rates[active[i]] >= level:
                    include(tally, region, fresh, active[i])
            n_flows = tally[REGION]
        n_links = fill(s, alone)
        if alone:
            work += widen(s, n_links)
    if alone:
        tally[TRIES] = 0
    return work + commit(s)


def include(tally: Int64, region: Int32, fresh: Float, pair: int) -> None:
    """The flow is solved again."""
    if fresh[pair] == OUT:
        fresh[pair] = OPEN
        region[tally[REGION]] = pair
        tally[REGION] += 1


def leave_idle(s: FlowState, alone: bool) -> float:
    """Remove flows that have ended, and include flows that shared a bottleneck with them; the least rate
    of the ended ones."""
    tally, quit, busy, listed, rates = s.tally, s.quit, s.busy, s.listed, s.rates
    start, links, seen, first, crowd = s.start, s.links, s.seen, s.first, s.crowd
    guest, stop, region, fresh, held_flows = s.guest, s.stop, s.region, s.fresh, s.held_flows
    level = inf
    tally[VISIT] += 1
    for i in range(tally[QUIT]):
        pair = quit[i]
        if busy[pair] or not listed[pair]:
            continue
        level = min(level, rates[pair])
        leave(s, pair)
    for i in range(tally[QUIT] if alone else 0):
        pair = quit[i]
        if busy[pair]:
            continue
        for hop in range(start[pair], start[pair + 1]):
            link = links[hop]
            if held_flows[link] == 0 or seen[link] == tally[VISIT]:
                continue
            seen[link] = tally[VISIT]
            for k in range(first[link], first[link] + crowd[link]):
                if stop[guest[k]] == link:
                    include(tally, region, fresh, guest[k])
    tally[QUIT] = 0
    return level


def press(s: FlowState, alone: bool) -> float:
    """Include new flows, and those on their links that are faster than the new ones may become; the least
    that a new one can get, an equal share of each of its links."""
    tally, joined, start, capacity, links = s.tally, s.joined, s.start, s.capacity, s.links
    load, seen, first, crowd, rates = s.load, s.seen, s.first, s.crowd, s.rates
    guest, region, fresh = s.guest, s.region, s.fresh
    level = inf
    for i in range(tally[JOINED]):
        pair = joined[i]
        include(tally, region, fresh, pair)
        for hop in range(start[pair], start[pair + 1]):
            level = min(level, capacity[links[hop]] / load[links[hop]])
    tally[VISIT] += 1
    for i in range(tally[JOINED]):
        pair = joined[i]
        for hop in range(start[pair], start[pair + 1]):
            link = links[hop]
            if not alone or seen[link] == tally[VISIT]:
                continue
            seen[link] = tally[VISIT]
            for k in range(first[link], first[link] + crowd[link]):
                if rates[guest[k]] > level:
                    include(tally, region, fresh, guest[k])
    tally[JOINED] = 0
    return level


def fill(s: FlowState, alone: bool) -> int:
    """Fresh rates of the flows included, next to all others as they are; how many links they use.

    Links come in the order of their shares, from a heap whose keys may be too small, since shares only grow.
    """
    levels, order, open_flows, rest = s.levels, s.order, s.open_flows, s.rest
    open_use, first, entrant, entrants, uses = s.open_use, s.first, s.entrant, s.entrants, s.uses
    fresh, stop, held_flows, start, links = s.fresh, s.stop, s.held_flows, s.start, s.links
    n_links = gather(s, alone)
    share, size = 0.0, n_links
    while size:
        key, link = levels[0], order[0]
        drop(levels, order, size)
        size -= 1
        if open_flows[link] == 0:
            continue
        fair = max(rest[link], 0.0) / open_use[link]
        if fair > key:
            push(levels, order, size, fair, link)
            size += 1
            continue
        share = max(share, fair)
        for k in range(first[link], first[link] + entrants[link]):
            pair = entrant[k]
            if fresh[pair] == OPEN:
                fresh[pair] = share
                stop_at(stop, held_flows, pair, link)
                for hop in range(start[pair], start[pair + 1]):
                    other = links[hop]
                    rest[other] -= uses[hop] * share
                    open_use[other] -= uses[hop]
                    open_flows[other] -= 1
    return n_links


def gather(s: FlowState, alone: bool) -> int:
    """What the flows included find on their links, and these in a heap; how many they are."""
    tally, region, fresh, start, links = s.tally, s.region, s.fresh, s.start, s.links
    seen, touched, rest, open_use, open_flows = s.seen, s.touched, s.rest, s.open_use, s.open_flows
    capacity, uses, crowd, first, member = s.capacity, s.uses, s.crowd, s.first, s.member
    guest, active, rates, levels, order = s.guest, s.active, s.rates, s.levels, s.order
    entrant, entrants = s.entrant, s.entrants
    tally[VISIT] += 1
    visit, n_links = tally[VISIT], 0
    for i in range(tally[REGION]):
        pair = region[i]
        fresh[pair] = OPEN if start[pair] < start[pair + 1] else 0.0
        for hop in range(start[pair], start[pair + 1]):
            link = links[hop]
            if seen[link] != visit:
                seen[link] = visit
                touched[n_links] = link
                n_links += 1
                rest[link], open_use[link], open_flows[link] = capacity[link], 0.0, 0
            open_use[link] += uses[hop]
            entrant[first[link] + open_flows[link]] = pair
            open_flows[link] += 1
    if not alone:
        for i in range(tally[ACTIVE]):
            pair = active[i]
            if fresh[pair] == OUT:
                for hop in range(start[pair], start[pair + 1]):
                    rest[links[hop]] -= uses[hop] * rates[pair]
    for i in range(n_links):
        link = touched[i]
        entrants[link] = open_flows[link]
        if alone and crowd[link] > open_flows[link]:
            for k in range(first[link], first[link] + crowd[link]):
                if fresh[guest[k]] == OUT:
                    rest[link] -= uses[member[k]] * rates[guest[k]]
        push(levels, order, i, max(rest[link], 0.0) / open_use[link], link)
    tally[SOLVED] += tally[REGION]
    return n_links


def widen(s: FlowState, n_links: int) -> int:
    """Include flows that the fresh rates leave without a bottleneck, or that are too fast for one of them;
    the hops looked at."""
    tally, touched, first, crowd, guest = s.tally, s.touched, s.first, s.crowd, s.guest
    member, rates, fresh, stop = s.member, s.rates, s.fresh, s.stop
    uses, capacity, region = s.uses, s.capacity, s.region
    work = 0
    for i in range(n_links):
        link = touched[i]
        members = range(first[link], first[link] + crowd[link])
        load, top, low, kept = 0.0, 0.0, inf, False
        for k in members:
            pair = guest[k]
            rate = rates[pair]
            if fresh[pair] >= 0:
                rate = fresh[pair]
                if stop[pair] == link:
                    low = min(low, rate)
            else:
                kept = True
            load += uses[member[k]] * rate
            top = max(top, rate)
        work += len(members)
        if not kept:
            continue
        full = load >= capacity[link] * (1 - SAME_RATE)
        for k in members:
            pair = guest[k]
            if fresh[pair] == OUT:
                rate = rates[pair]
                loose = stop[pair] == link and not (full and rate >= top * (1 - SAME_RATE))
                if loose or rate > low * (1 + SAME_RATE):
                    include(tally, region, fresh, pair)
    return work


def commit(s: FlowState) -> int:
    """The fresh rates hold from now on; what that cost, in hops."""
    tally, region, fresh, rates, left = s.tally, s.region, s.fresh, s.rates, s.left
    since, began, until, due = s.since, s.began, s.until, s.due
    soon, is_soon = s.soon, s.is_soon
    now, late, horizon = s.clock[0], s.clock[1], s.clock[2]
    for i in range(tally[REGION]):
        pair = region[i]
        rate = fresh[pair]
        fresh[pair] = OUT
        if rate == rates[pair]:
            continue
        if rates[pair] < inf:
            left[pair] -= rates[pair] * (now - since[pair])
        since[pair], rates[pair] = now, rate
        until[pair] = end_of(now, left[pair], rate)
        due[pair] = until[pair] + late * (until[pair] - began[pair])
        list_soon(tally, soon, is_soon, pair, until[pair], horizon)
    return 16 * int(tally[REGION])
