"""What SimCCL's flows wait for, the order in which they are sent, and where their data stands."""

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.routing.batches import spread, starts
from railweave.traffic.workloads.simccl_file import Flows

MOST_WAITS = 1 << 23
"""The most dependencies of a schedule."""
MOST_SHOWN = 6


def in_order(flows: Flows) -> Int64:
    """(n,): the flows by collective, then by the length of the longest chain before them, else in the order
    of the file. Raises ExperimentError for a cycle of parents, and for parents of another collective."""
    n = len(flows.src)
    flow, parent = np.repeat(np.arange(n), np.diff(flows.parent_start)), flows.parent
    for one in np.flatnonzero(flows.collective[flow] != flows.collective[parent])[:1]:
        raise flows.refuse(
            flow[one],
            f"its parent in line {flows.line[parent[one]]} is of another collective. Fix the parents.",
        )
    children, start = flow[np.argsort(parent)], starts(np.bincount(parent, minlength=n))
    left, level, depth = np.diff(flows.parent_start), np.full(n, -1), 0
    ready = np.flatnonzero(left == 0)
    while ready.size:
        level[ready] = depth
        reached = children[spread(start[ready], np.diff(start)[ready])]
        np.subtract.at(left, reached, 1)
        ready, depth = np.unique(reached[left[reached] == 0]), depth + 1
    if (level < 0).any():
        raise _cycle(flows, flow, parent, level < 0)
    return np.lexsort((level, flows.collective))


def dependencies(flows: Flows, order: Int64) -> tuple[Int64, Int64]:
    """In numbers of `order`, the flows that each waits for, one range after the other: its parents, and what
    completes its sender's part in the collective before, which is the last flow between it and each other
    rank. Raises ExperimentError where they are too many."""
    n, n_names = len(order), len(flows.names)
    place = np.argsort(order)
    src, dst, collective = flows.src[order], flows.dst[order], flows.collective[order]
    between = (collective * flows.n_ranks + src) * flows.n_ranks + dst
    last = n - 1 - np.unique(between[::-1], return_index=True)[1]
    # parts: of every rank in every collective it takes part in, by rank, then by collective
    ends = np.concatenate([src[last], dst[last]]) * n_names + np.tile(collective[last], 2)
    parts, of = np.unique(ends, return_inverse=True)
    completes = np.tile(last, 2)[np.argsort(of)]
    begin = starts(np.bincount(of))
    before = np.searchsorted(parts, src * n_names + collective) - 1
    later = np.flatnonzero((before >= 0) & (parts[before] // n_names == src))
    count = np.diff(begin)[before[later]]
    if (total := len(flows.parent) + int(count.sum())) > MOST_WAITS:
        raise ExperimentError(
            f"{flows.path}: {n_names} collectives one after the other make {total} dependencies, more than "
            f"{MOST_WAITS}. Make a file of fewer collectives."
        )
    waiting = np.concatenate([np.repeat(place, np.diff(flows.parent_start)), np.repeat(later, count)])
    waits_for = np.concatenate([place[flows.parent], completes[spread(begin[before[later]], count)]])
    return starts(np.bincount(waiting, minlength=n)), waits_for[np.argsort(waiting)]


def _cycle(flows: Flows, waiting: Int64, waits_for: Int64, stuck: Bool) -> ExperimentError:
    on = stuck[waiting] & stuck[waits_for]
    one_before = dict(zip(waiting[on].tolist(), waits_for[on].tolist(), strict=True))
    flow, seen = int(np.flatnonzero(stuck)[0]), list[int]()
    while flow not in seen:
        seen.append(flow)
        flow = one_before[flow]
    cycle = seen[seen.index(flow) :]
    lines = ", ".join(str(flows.line[each]) for each in cycle[:MOST_SHOWN])
    more = f" and {len(cycle) - MOST_SHOWN} more" if len(cycle) > MOST_SHOWN else ""
    return flows.refuse(
        flow, f"the flow waits for itself, in the cycle of lines {lines}{more}. Fix the parents."
    )


def brought(flows: Flows, order: Int64, length: Int64) -> Int64:
    """(n,): in the order given, the first parent of equal length that ends where the flow begins; -1 if there
    is none."""
    place = np.full(len(flows.src), -1)
    place[order] = np.arange(len(order))
    flow = np.repeat(place, np.diff(flows.parent_start))
    flow, parent = flow[flow >= 0], place[flows.parent][flow >= 0]
    fits = (flows.dst[order[parent]] == flows.src[order[flow]]) & (length[parent] == length[flow])
    passes, first = np.unique(flow[fits], return_index=True)
    by = np.full(len(order), -1)
    by[passes] = parent[fits][first]
    return by


def places(src: Int64, dst: Int64, length: Int64, brought: Int64) -> tuple[Int64, Int64, int]:
    """Elements: where each flow's data stands at its sender and where it goes at its receiver, and the length
    of a buffer: what a rank sends of its own, then what it receives, each flow at a place of its own."""
    own = np.where(brought < 0, length, 0)
    n_ranks = 1 + int(max(src.max(initial=0), dst.max(initial=0)))
    ahead = np.bincount(src, own, n_ranks).astype(np.int64)
    to = ahead[dst] + _before(dst, length)
    first = np.where(brought < 0, _before(src, own), to[brought] if len(to) else to)
    return first, to, int((ahead + np.bincount(dst, length, n_ranks).astype(np.int64)).max())


def _before(group: Int64, amount: Int64) -> Int64:
    """(n,): the sum of the amounts of the same group that come earlier."""
    order = np.argsort(group, kind="stable")
    total = np.cumsum(amount[order]) - amount[order]
    _, begin = np.unique(group[order], return_index=True)
    sizes = np.diff(np.append(begin, len(group)))
    before = np.empty(len(group), np.int64)
    before[order] = total - np.repeat(total[begin], sizes)
    return before
