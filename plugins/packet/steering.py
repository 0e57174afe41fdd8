"""Adaptive switches, which choose the next link of a packet; in numba's subset of Python."""

import numpy as np

from railweave.plugins.packet.layout import (
    ADAPTIVE,
    BY_FLOWLET,
    CUT_THROUGH,
    DATA,
    GAP,
    NONE,
    SWITCHING,
    TIES_DRAWN,
    State,
)
from railweave.plugins.packet.queues import STEERING, draw, mixed


def alike(s: State, q: int, start: int, place: int) -> bool:
    """Whether a path goes beyond `place` links, and has those of the path at `start` up to there."""
    path, k = s.path[q], place - 1
    if path["hops"] <= place:
        return False
    while k >= 0 and s.hops[path["start"] + k] == s.hops[start + k]:
        k -= 1
    return k < 0


def outruns(s: State, start: int, place: int, link: int) -> bool:
    """Whether a packet that a switch sends on before it has come whole would be too slow for a link."""
    if s.globals[SWITCHING] != CUT_THROUGH:
        return False
    came, planned = s.link[s.hops[start + place - 1]], s.link[s.hops[start + place]]
    return planned["ps_per_byte"] >= came["ps_per_byte"] > s.link[link]["ps_per_byte"]


def steered(s: State, i: int, place: int, now: int) -> int:
    """The link on which a switch sends a packet, `place` in its path: of the pair's paths that lead there as
    the packet came, the one with the shortest queue next; of equal queues the first link, or a drawn one. The
    packet then has the first path that begins so. A flowlet stays on its path until no packet of it has come
    for the gap."""
    packet, g = s.packet[i], s.globals
    pair, start = s.pair[packet["pair"]], packet["start"]
    first, planned = pair["first_path"], s.hops[start + place]
    if pair["paths"] == 1 or packet["path"] < first or packet["path"] >= first + pair["paths"]:
        return planned
    best, next_link, shortest, least, flowlet = NONE, planned, np.int64(0), np.uint64(0), NONE
    bits = np.uint64(0)
    if g[TIES_DRAWN]:
        bits = draw(pair["key"], STEERING, packet["number"], packet["copy"], place)
    for q in range(first, first + pair["paths"]):
        if not alike(s, q, start, place):
            continue
        if g[ADAPTIVE] == BY_FLOWLET and flowlet == NONE:
            flowlet = s.path[q]["start"] + place
            last, before = s.flowlet[flowlet]["last"], s.flowlet[flowlet]["path"] - 1
            s.flowlet[flowlet]["last"] = now
            if before != NONE and now - last <= g[GAP]:
                link = s.hops[s.path[before]["start"] + place]
                if s.link[link]["down"] == 0 and not outruns(s, start, place, link):
                    best, next_link = before, link
                    break
        link = s.hops[s.path[q]["start"] + place]
        if s.link[link]["down"] or outruns(s, packet["start"], place, link):
            continue
        queue = s.link[link]["queued"][DATA]
        if s.link[link]["busy"] > now:
            queue += s.link[link]["sending"]
        rank = mixed(bits + np.uint64(link)) if g[TIES_DRAWN] else np.uint64(link)
        if best == NONE or queue < shortest or (queue == shortest and rank < least):
            best, next_link, shortest, least = q, link, queue, rank
    if best == NONE:
        return planned
    if flowlet != NONE:
        s.flowlet[flowlet]["path"] = best + 1
    packet["start"], packet["hops"] = s.path[best]["start"], s.path[best]["hops"]
    return next_link
