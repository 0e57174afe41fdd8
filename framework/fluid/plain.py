"""The parts of the simulation that touch every flow, in whole arrays at a time."""

from math import inf

import numpy as np

from railweave.framework.fluid.fairness import fair_rates, hops_of
from railweave.framework.fluid.state import ACTIVE, JOINED, QUIT, SOLVED, State
from railweave.framework.model.arrays import Int32

SAME_RATE = 1e-9
"""Flows whose rates differ by less, relative to them, may have been stopped by the same link."""
CALLS = 3000
"""What the calls of one sharing cost, in hops looked at."""


def enter(s: State, pair: int) -> None:
    """Nothing is kept by link."""


def earliest(s: State) -> tuple[float, float]:
    """(when the next flow ends, when one must have been noticed)."""
    active = s.active[: s.tally[ACTIVE]]
    return float(s.until[active].min(initial=inf)), float(s.due[active].min(initial=inf))


def ending(s: State, limit: float) -> Int32:
    """Pairs whose flows end at `limit` at the latest."""
    active = s.active[: s.tally[ACTIVE]]
    return active[s.until[active] <= limit]


def share_out(s: State) -> int:
    """Rates of all flows that the changes since the last call may have changed; what that cost, in hops.

    Progressive filling up to a level is the same as before if nothing that is new or gone reaches its rate
    below that level. So flows below the rates of all that are gone, and below the least that those that are
    new can get, keep their rates.
    """
    joined = s.joined[: s.tally[JOINED]]
    active = s.active[: s.tally[ACTIVE]]
    idle = ~s.busy[active]
    level = float(s.rates[active[idle]].min(initial=inf))
    s.place[active[idle]] = -1
    active = active[~idle]
    s.active[: len(active)] = active
    s.place[active] = np.arange(len(active))
    new = len(joined)
    s.tally[ACTIVE], s.tally[JOINED], s.tally[QUIT] = len(active), 0, 0
    hops = hops_of(s.start, active)
    link, use = s.links[hops], s.uses[hops]
    if new:
        load = np.bincount(link, use, len(s.capacity))
        touched = s.links[hops_of(s.start, joined)]
        level = min(level, float((s.capacity[touched] / load[touched]).min(initial=inf)))
    elif level == inf:
        return 1
    size = np.diff(s.start)[active]
    again = s.rates[active] >= level * (1 - SAME_RATE)
    again_hops = np.repeat(again, size)
    kept = ~again_hops
    rate = np.repeat(s.rates[active], size)[kept]
    rest = np.maximum(s.capacity - np.bincount(link[kept], use[kept] * rate, len(s.capacity)), 0.0)
    flows = active[again]
    start = np.zeros(len(flows) + 1, np.int64)
    np.cumsum(size[again], out=start[1:])
    rates = fair_rates(rest, start, link[again_hops], use[again_hops])
    _set_rates(s, flows, rates)
    s.tally[SOLVED] += len(flows)
    return len(hops) + CALLS


def _set_rates(s: State, flows: Int32, rates: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
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
