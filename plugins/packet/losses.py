"""Losses: what a pair considers lost, and when it asks; in numba's subset of Python."""

from typing import Any

from railweave.framework.hookspecs.congestion import OVERTAKEN, TIMEOUT
from railweave.framework.model.senders import GOLDEN
from railweave.plugins.packet.layout import (
    ACKED,
    CHOOSER,
    DEAD,
    EXTRAS,
    HEADERS,
    LISTED,
    LOST,
    MARKED,
    MTU,
    NEVER,
    NONE,
    WRONG_CALL,
    State,
)
from railweave.plugins.packet.lists import list_lost, release, take_off
from railweave.plugins.packet.queues import look
from railweave.plugins.packet.sending import GONE, PATH_HEARD, PATH_LOST, chooser_of, control, gap_of, watch

PROBED = 3
"""Why a packet is lost, besides what a control is told (hookspecs/congestion.py): after silence."""
SLACK_PACKETS = 5
"""Packets that a paced pair sends before it may expect an answer: every fourth is acknowledged."""


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
    pair["heard"] = pair["active"] = now
    pair["probes"] = 0
    if not packet["flags"] & LOST:
        pair["in_flight"] -= packet["full"]
    if packet["epoch"] == pair["epoch"]:
        s.got[pair["got"] + packet["number"]] = 2
    k = packet["path"] - pair["first_path"]
    if s.globals[CHOOSER] != 0 and pair["paths"] > 1 and 0 <= k < pair["paths"]:
        marked = packet["flags"] & MARKED
        if call(PATH_HEARD, chooser_of(s, p), 0, now, k, marked, now - packet["sent"], 0) < 0:
            s.globals[WRONG_CALL] = p + 1
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
    chooses = s.globals[CHOOSER] != 0 and pair["paths"] > 1 and 0 <= k < pair["paths"]
    if chooses and call(PATH_LOST, chooser_of(s, p), 0, now, k, 0, 0, 0) < 0:
        s.globals[WRONG_CALL] = p + 1
    control(s, call, GONE, p, now, packet["full"], TIMEOUT if why == PROBED else why, 0, 0)
    look(s, p)
    if not current:
        release(s, i)
        return
    list_lost(s, pair, i)


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


def overdue(s: State, call: Any, p: int, newest: int, now: int) -> int:
    """Take off the lists of a pair's paths what has arrived, or was sent before `newest` and is lost. When to
    look again at what is on paths that it has left; NEVER: not."""
    pair = s.pair[p]
    if EXTRAS or pair["oldest"] < newest:
        oldest = now
        for q in range(pair["first_path"], pair["first_path"] + pair["paths"]):
            overtaken(s, call, q, NONE, newest, now)
            if s.path[q]["head"] != NONE:
                oldest = min(oldest, s.packet[s.path[q]["head"]]["sent"])
        pair["oldest"] = oldest
    if pair["left_path"] != NONE:
        return overdue_left(s, call, p, now)
    return NEVER


def overdue_left(s: State, call: Any, p: int, now: int) -> int:
    """The same of paths that a pair has left: what was sent last there is lost once a packet that was sent
    later has arrived on another one, and the timeout of those paths is over, or nothing of the path has
    arrived for as long as pairs keep silent. Until one has arrived, a round trip is what an answer may take,
    or that timeout where none is known."""
    pair, before, again = s.pair[p], NONE, NEVER
    trip = pair["smoothed"] if pair["smoothed"] > 0 else max(pair["left_wait"], 1)
    q = pair["left_path"]
    while q != NONE:
        path = s.path[q]
        silent = path["heard"] + pair["left_silence"] <= now
        wait = min(pair["left_silence"], pair["left_wait"]) if silent else pair["left_wait"]
        overtaken(s, call, q, NONE, min(pair["newest"], now - wait + 1), now)
        if path["head"] != NONE:
            sent = s.packet[path["head"]]["sent"]
            due = min(sent + pair["left_wait"], max(sent, path["heard"]) + pair["left_silence"])
            before, again = q, min(again, due if due > now else now + trip)
        elif before == NONE:
            pair["left_path"] = path["next_left"]
        else:
            s.path[before]["next_left"] = path["next_left"]
        q = path["next_left"]
    return again


def timeout_of(s: State, p: int) -> int:
    pair = s.pair[p]
    return max(pair["timeout"], pair["smoothed"] + 4 * pair["variation"])


def slack_of(s: State, p: int) -> int:
    """What a paced pair waits longer."""
    return gap_of(s, p, SLACK_PACKETS * (s.globals[MTU] + s.globals[HEADERS]))


def silence_of(s: State, p: int) -> int:
    """After how much silence a pair probes for the first time."""
    pair = s.pair[p]
    if pair["smoothed"] == 0:  # no round trip is known
        return timeout_of(s, p) + slack_of(s, p)
    return max(pair["first_wait"], 2 * pair["smoothed"]) + slack_of(s, p)


def probed_again(s: State, p: int) -> int:
    """After how much silence it does so the next time."""
    pair = s.pair[p]
    late = timeout_of(s, p) + slack_of(s, p)
    doubled = min(late << min(pair["probes"] - 1, 30), max(pair["most_wait"], late))
    return int(doubled * (0.5 + ((pair["probes"] - 1) * GOLDEN + 0.5) % 1))  # model/senders.py, spread


def timer(s: State, call: Any, p: int, now: int) -> None:
    """Consider lost what was sent a timeout before a packet that arrived, and probe after silence."""
    pair = s.pair[p]
    if now < pair["due"]:
        return  # another event comes
    pair["due"] = NEVER
    slack = slack_of(s, p)
    late = timeout_of(s, p) + slack
    again = overdue(s, call, p, pair["newest"] - late, now)
    if pair["in_flight"] == 0:
        if pair["paths"] == 0 and now - pair["heard"] >= pair["dead_after"]:
            s.globals[DEAD] = p + 1
        look(s, p)
        return
    wait = probed_again(s, p) if pair["probes"] > 0 else silence_of(s, p)
    if now - pair["active"] >= wait:
        if pair["probes"] == 0:  # its silence until now may be that of paths that it has left
            pair["heard"] = max(pair["heard"], now - wait)
        silence = now - pair["heard"]
        if silence >= max(pair["dead_after"] + 4 * slack, 4 * late) and silence >= 4 * longest_way(s, p):
            s.globals[DEAD] = p + 1
        probe(s, call, p, now)
    watch(s, p, min(max(pair["active"] + wait, now + 1), now + late, again))


def longest_way(s: State, p: int) -> int:
    """What packets that have arrived of late over the first or last links of a pair's paths had taken: those
    of others show how long its own may take, as they wait in the same queues."""
    pair, longest = s.pair[p], 0
    for q in range(pair["first_path"], pair["first_path"] + pair["paths"]):
        path = s.path[q]
        first, last = s.hops[path["start"]], s.hops[path["start"] + path["hops"] - 1]
        longest = max(longest, s.ways[first], s.ways[last])
    return longest


def probe(s: State, call: Any, p: int, now: int) -> None:
    """Send a packet again, whatever the window is: a control may have made it smaller than what is lost."""
    pair = s.pair[p]
    oldest, when = NONE, NEVER
    for k in range(pair["paths"]):
        i = s.path[pair["first_path"] + k]["head"]
        if i != NONE and s.packet[i]["sent"] < when:
            oldest, when = i, s.packet[i]["sent"]
    q = pair["left_path"]
    while q != NONE:
        i = s.path[q]["head"]
        if i != NONE and s.packet[i]["sent"] < when:
            oldest, when = i, s.packet[i]["sent"]
        q = s.path[q]["next_left"]
    pair["probes"] += 1
    pair["active"] = now
    if oldest == NONE:
        return
    take_off(s, oldest)
    pair["probing"] = 1
    gone(s, call, oldest, now, PROBED)
