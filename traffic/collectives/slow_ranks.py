"""All-reduces in which slow ranks do less.

A rank of a ring sends and receives nearly twice the buffer, although all that must leave and reach it is the
buffer once. So slow ranks keep out of the ring: they hand what they have to the others, which own a part
each, and get the result of the parts back. With half its rate a slow rank then takes no longer than the ring.

Source: Chen and others, "Don't let a few network failures slow the entire AllReduce", arXiv 2606.01680 (the
bound and a pipeline of four stages for one slow rank); shares of rails as of R2CCL, arXiv 2512.25059. The
schedule is ours.
"""

from collections.abc import Sequence

import numpy as np

from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives.entries import Entries, Parts, columns, parts_of
from railweave.traffic.collectives.ring_blocks import Ready, Rings, add_rings

BY_HEALTH = Parameter(
    "by_health", False, "bool", "slow ranks get less to do, by health when an iteration begins"
)
LEAST_SPEED = 0.05
"""Of a rank whose links are down: how fast it is over other paths no score says."""
MOST_BLOCKS, LEAST_MESSAGE_BYTES = 32, 16384
"""Parts of the buffer that follow one another: while one is in the ring, slow ranks hand over the next and
get back the last. The first and the last have no company, a 32nd of the time. A message keeps four full
packets, so that its headers and its wait for the next one count little."""


def speeds(fabric: Fabric, ranks: Sequence[int], health: HealthSnapshot, within: str = "") -> Float:
    """(n_ranks,): the part of its rate that each rank still has, by the scores of its own links.

    Links of one kind add up; the slowest kind counts, and the slower direction. `within`: the kind of switch
    whose links do not count.
    """
    scores, n, group = np.where(health.down, 0.0, health.link_score), fabric.n_gpus, fabric.group(within)
    slowest, inside = np.ones(n), np.zeros(fabric.n_nodes, bool)
    if group is not None:
        inside[group.first : group.first + group.size] = True
    for near, far in ((fabric.link_src, fabric.link_dst), (fabric.link_dst, fabric.link_src)):
        counted = fabric.usable & (near < n) & ~inside[far]
        for kind in np.unique(fabric.link_kind[counted]):
            links = np.flatnonzero(counted & (fabric.link_kind == kind))
            rate = np.bincount(near[links], fabric.capacity_bps[links], n)
            left = np.bincount(near[links], fabric.capacity_bps[links] * scores[links], n)
            slowest = np.where(rate > 0, np.minimum(slowest, left / np.maximum(rate, 1.0)), slowest)
    return np.asarray(np.maximum(slowest[np.asarray(ranks)], LEAST_SPEED), np.float64)


def slow_members(speed: Float) -> tuple[float, Bool]:
    """Of a ring whose members have these speeds (m,): the least time of an all-reduce, in units of what its
    buffer takes at speed 1, and which members (m,) keep out of the ring for it.

    With all in the ring every one sends 2 (m - 1) / m of the buffer. With s out and f in, those out send the
    buffer once, and those in 2 (f - 1) / f of it and, to s, an f-th. Members are left out by speed.
    """
    m, order = len(speed), np.argsort(speed, kind="stable")
    times = [2 * (m - 1) / m / float(speed.min())]
    for s in range(1, m - 1):
        f, slowest, next_slowest = m - s, float(speed[order[0]]), float(speed[order[s]])
        times.append(max(1 / slowest, (2 * (f - 1) + s) / f / next_slowest))
    out = np.zeros(m, bool)
    out[order[: int(np.argmin(times))]] = True
    return min(times), out


def parts_by(count: int, shares: Float) -> Parts:
    """(1, parts): spans of `count` elements with these shares of them, to within one element."""
    cuts = np.rint(np.append(0.0, np.cumsum(shares)) / shares.sum() * count).astype(np.int64)
    return Parts(cuts[None, :-1], np.diff(cuts)[None])


def add_around(
    entries: Entries, members: Int64, out: Bool, span: tuple[int, int], ready: Ready, names: tuple[str, str]
) -> Ready:
    """All-reduce a span (first element, length) over `members` (m,); members `out` of the ring stand
    aside. `names`: of the phases before and after a part is reduced. What must be complete before they go on.
    """
    fast, slow = members[~out], members[out]
    f, s, base = len(fast), len(slow), entries.next_slot
    most = span[1] * entries.itemsize // (f * LEAST_MESSAGE_BYTES)
    blocks = parts_of(*span, int(np.clip(most, 1, MOST_BLOCKS)))
    done: list[Int64] = []
    for slot, (first, length) in enumerate(zip(*blocks, strict=True), base):
        chunks = parts_of([first], [length], f)
        ring, there = Rings(fast[None], chunks.each), chunks._asdict()
        entries.phase(names[0])
        waits = columns(np.repeat(ready[slow], f, axis=0))
        delivered = entries.add(slow[:, None], fast[None], reduce=True, after=waits, slot=slot, **there)
        delivered = delivered.reshape(s, f).T
        reduced = add_rings(entries, ring, ready, reduce=True, slot=slot)
        entries.phase(names[1])
        gathered = add_rings(entries, ring, reduced, reduce=False, slot=slot + 1, also=delivered)
        waits = columns(np.tile(np.column_stack((reduced[fast], delivered)), (s, 1)))
        back = entries.add(fast[None], slow[:, None], after=waits, slot=slot + 1, **there).reshape(s, f)
        done.append(_by_member(gathered[fast], back, out))
    after = ready.copy()
    after[members] = -1
    after[members, 0] = entries.wait(members, columns(np.concatenate(done, axis=1)))
    return after


def _by_member(gathered: Int64, back: Int64, out: Bool) -> Int64:
    """(m, w): the entries with which each member has a block, -1 for none."""
    width = max(gathered.shape[1], back.shape[1])
    table = np.full((len(out), width), -1)
    table[np.flatnonzero(~out), : gathered.shape[1]] = gathered
    table[np.flatnonzero(out), : back.shape[1]] = back
    return table
