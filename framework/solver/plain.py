"""The parts of the simulation that touch every flow, in whole arrays at a time."""

from math import inf

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model.arrays import Bool, Float, Int32, Int64, spread
from railweave.framework.model.routes import starts
from railweave.framework.solver.state import ACTIVE, DONE, ENDED, JOINED, KNOWN, QUIT, SOLVED, FlowState

SAME_RATE = 1e-9
"""Flows whose rates differ by less, relative to them, may have been stopped by the same link."""
TIE = 1e-12
"""Shares that differ by less, relative to them, are equal: they come from sums in another order."""
CALLS = 3000
"""What the calls of one sharing cost, in hops looked at."""
TOGETHER = 16
"""From this number on, transfers start and end in whole arrays."""


def send_known(s: FlowState, soon: float) -> int:
    """Send the next transfers of `known` that are due until `soon`, as many as follow each other; what that
    cost, in hops. Those left are sent one by one."""
    s = s.arrays
    first = int(s.tally[KNOWN])
    entries = s.known_entry[first : np.searchsorted(s.known_at, soon, "right")]
    if len(entries) < TOGETHER:
        return 0
    pairs = s.pair[entries]
    if len(other := np.flatnonzero(pairs < 0)):
        entries, pairs = entries[: other[0]], pairs[: other[0]]
    if len(other := np.flatnonzero(s.listed[pairs])):
        entries, pairs = entries[: other[0]], pairs[: other[0]]
    n = len(pairs)
    bits, of_each = s.bits[entries], s.each_start[entries]
    differ = np.flatnonzero(s.each_start[entries + 1] > of_each)
    bits[differ] = s.each[of_each[differ] + s.done[entries[differ]]]
    s.asked[pairs] = s.left[pairs] = bits
    s.began[pairs], s.since[pairs] = s.known_at[first : first + n], s.clock[0]
    s.rates[pairs] = s.until[pairs] = s.due[pairs] = inf
    s.busy[pairs] = s.listed[pairs] = True
    s.active[s.tally[ACTIVE] : s.tally[ACTIVE] + n] = pairs
    s.joined[s.tally[JOINED] : s.tally[JOINED] + n] = pairs
    s.tally[[KNOWN, ACTIVE, JOINED]] += n
    return n


def end(s: FlowState, limit: float) -> tuple[int, int]:
    """End the flows that do so at `limit` at the latest: how many they are, and of how many the end concerns
    other transfers of the job; these come first in `quit`."""
    s = s.arrays
    pairs = _pairs(s, s.until[_flows(s)] <= limit)
    at = s.until[pairs]
    s.clock[0] = max(s.clock[0], at.max())
    s.sent[pairs] += s.asked[pairs]
    s.free[pairs] = at
    s.until[pairs] = s.due[pairs] = inf
    s.busy[pairs] = False
    quit = s.quit[s.tally[QUIT] : s.tally[QUIT] + len(pairs)]
    quit[:] = pairs
    s.tally[QUIT] += len(pairs)
    if len(pairs) < TOGETHER or len(s.history):
        return len(pairs), len(pairs)
    entries = s.head[pairs]
    last = (s.next[entries] < 0) & (s.done[entries] + 1 == s.repeat[entries])
    alone = last & (s.follow_start[entries + 1] == s.follow_start[entries])
    entries = entries[alone]
    s.head[pairs[alone]] = -1
    s.done[entries] = s.repeat[entries]
    s.end[entries] = at[alone]
    over = np.bincount(s.job[entries], minlength=len(s.unfinished))
    s.unfinished[:] -= over
    s.tally[ENDED] += np.count_nonzero((over > 0) & (s.unfinished == 0))
    s.tally[DONE] += len(entries)
    others = pairs[~alone]
    quit[: len(others)], quit[len(others) :] = others, pairs[alone]
    return len(pairs), len(others)


def enter(s: FlowState, pair: int) -> None:
    """Nothing is kept by link."""


def expect(s: FlowState, pair: int) -> None:
    """Nothing is kept by time."""


def earliest(s: FlowState) -> tuple[float, float]:
    """(when the next flow ends, when one must have been noticed)."""
    s = s.arrays
    flows = _flows(s)
    return float(s.until[flows].min(initial=inf)), float(s.due[flows].min(initial=inf))


def share_out(s: FlowState) -> int:
    """Rates of all flows that the changes since the last call may have changed; what that cost, in hops.

    Progressive filling up to a level is the same as before if nothing that is new or gone reaches its rate
    below that level. So flows below the rates of all that are gone, and below the least rate that new
    flows can get, keep their rates.
    """
    s = s.arrays
    joined, gone = s.joined[: s.tally[JOINED]], s.quit[: s.tally[QUIT]]
    gone = gone[~s.busy[gone]]
    s.tally[JOINED], s.tally[QUIT] = 0, 0
    if not len(joined) and not len(gone):
        return 1
    level = float(s.rates[gone].min(initial=inf))
    _remove(s, gone)
    if len(joined):
        level = min(level, _least(s, joined))
    if level == inf:
        return 1
    flows = _flows(s)
    fast = s.rates[flows] >= level * (1 - SAME_RATE)
    again = _pairs(s, fast & s.listed[flows])
    if not len(again):
        return CALLS
    kept = _pairs(s, ~fast & s.listed[flows])
    size = np.diff(s.start)
    hops, kept_hops = spread(s.start[again], size[again]), spread(s.start[kept], size[kept])
    load = s.uses[kept_hops] * np.repeat(s.rates[kept], size[kept])
    rest = np.maximum(s.capacity - np.bincount(s.links[kept_hops], load, len(s.capacity)), 0.0)
    rates = fair_rates(rest, starts(size[again]), s.links[hops], s.uses[hops])
    _set_rates(s, again, rates)
    s.tally[SOLVED] += len(again)
    return len(hops) + len(kept_hops) + CALLS


def _flows(s: FlowState) -> slice | Int32:
    """Pairs with a flow; or all, which takes less time where these are many: others end at infinity. Then
    `FlowState.active` is not kept."""
    return slice(None) if 4 * s.tally[ACTIVE] > len(s.until) else s.active[: s.tally[ACTIVE]]


def _pairs(s: FlowState, chosen: Bool) -> Int32:
    """Those that are chosen of `_flows`."""
    flows, places = _flows(s), np.flatnonzero(chosen).astype(np.int32)
    return places if isinstance(flows, slice) else flows[places]


def _remove(s: FlowState, gone: Int32) -> None:
    """These pairs have no flow any more."""
    before = _flows(s)
    s.listed[gone] = False
    s.tally[ACTIVE] -= len(gone)
    if not isinstance(_flows(s), slice):
        left = np.flatnonzero(s.listed) if isinstance(before, slice) else before[s.listed[before]]
        s.active[: len(left)] = left


def _least(s: FlowState, joined: Int32) -> float:
    """What a new flow can get at least: an equal share of each of its links."""
    if len(joined) == s.tally[ACTIVE]:
        return 0.0
    size, listed = np.diff(s.start), np.flatnonzero(s.listed)
    hops = spread(s.start[listed], size[listed])
    load = np.bincount(s.links[hops], s.uses[hops], len(s.capacity))
    touched = s.links[spread(s.start[joined], size[joined])]
    return float((s.capacity[touched] / load[touched]).min(initial=inf))


def _set_rates(s: FlowState, flows: Int32, rates: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    old, now = s.rates[flows], s.clock[0]
    changed = rates != old
    flows, rates, old = flows[changed], rates[changed], old[changed]
    moved = np.where(old < inf, np.where(old < inf, old, 0.0) * (now - s.since[flows]), 0.0)
    s.left[flows] -= moved
    s.since[flows], s.rates[flows] = now, rates
    left = np.maximum(s.left[flows], 0.0)
    needs = np.full(len(flows), inf)
    np.divide(left, rates, out=needs, where=rates > 0)
    needs[left == 0] = 0.0
    s.until[flows] = until = now + needs
    s.due[flows] = until + s.clock[1] * (until - s.began[flows])


def fair_rates(capacity: Float, start: Int64, link: NDArray[np.integer], use: Float) -> Float:
    """(n,), bit/s: the max-min fair rate of each of n flows. Flow f takes `use[h]` of each of its bit/s on
    `link[h]`, for h in start[f]:start[f + 1]; a flow without links has rate 0.

    Progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2), many links in one round: the flows of
    a link are done if none of them has a link with a smaller share, since what other links do can then no
    longer change it.
    """
    n = len(start) - 1
    rates = np.zeros(n)
    flow = np.repeat(np.arange(n), np.diff(start))
    if len(link) < len(capacity):
        ids, link = np.unique(link, return_inverse=True)
        capacity = capacity[ids]
    link, n_links = link.astype(np.intp), len(capacity)
    rest, share, fair = capacity.astype(np.float64), np.zeros(n_links), np.zeros(n_links)
    weight, count = np.bincount(link, use, n_links), np.bincount(link, minlength=n_links)
    while len(link):  # places instead of masks, and `at` instead of `reduceat`: three to six times as fast
        np.divide(rest, weight, out=fair, where=count > 0)
        np.maximum(share, fair, out=share)  # they only grow
        hop_share = share[link]
        lowest = np.full(n, np.inf)  # by flow: the smallest share along it
        np.minimum.at(lowest, flow, hop_share)
        limited = np.flatnonzero(lowest[flow] < hop_share * (1 - TIE))
        later = np.zeros(n_links, bool)
        later[link[limited]] = True
        done = np.zeros(n, bool)
        done[flow[np.flatnonzero(~later[link])]] = True
        of_done = done[flow]
        last, kept = np.flatnonzero(of_done), np.flatnonzero(~of_done)
        ended, flows = link[last], flow[last]
        rates[flows] = lowest[flows]
        rest = np.maximum(rest - np.bincount(ended, use[last] * rates[flows], n_links), 0.0)
        weight -= np.bincount(ended, use[last], n_links)
        count -= np.bincount(ended, minlength=n_links)
        flow, link, use = flow[kept], link[kept], use[kept]
    return rates
