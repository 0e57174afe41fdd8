"""The order in which SimCCL's flows are sent, what they wait for, and where their data stands."""

from dataclasses import replace

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.routing.batches import spread, starts
from railweave.traffic.collectives.entries import levels
from railweave.traffic.workloads.simccl_file import FlowColumns

MOST_WAITS = 1 << 23
"""Dependencies of a schedule at most."""
MOST_SHOWN = 6
"""Flows of a cycle that an error lists."""


def in_order(flows: FlowColumns) -> FlowColumns:
    """The flows by collective, then by the length of the longest chain before them, else in the order of the
    file. Raises ExperimentError for a cycle of parents, and for parents of another collective."""
    parent, flow, n_parents = flows.parent, flows.waiting, np.diff(flows.parent_start)
    for edge in np.flatnonzero(flows.collective[flow] != flows.collective[parent])[:1]:
        raise flows.refuse(
            flow[edge],
            f"its parent in line {flows.line[parent[edge]]} is of another collective. Fix the parents.",
        )
    level = levels((flows.parent_start, parent))
    if (level < 0).any():
        raise _cycle(flows, flow, level < 0)
    order = np.lexsort((level, flows.collective))
    columns = {name: getattr(flows, name)[order] for name in ("line", "collective", "src", "dst", "size")}
    waits = spread(flows.parent_start[order], n_parents[order])
    return replace(
        flows, **columns, parent_start=starts(n_parents[order]), parent=np.argsort(order)[parent[waits]]
    )


def _cycle(flows: FlowColumns, waiting: Int64, stuck: Bool) -> ExperimentError:
    on = stuck[waiting] & stuck[flows.parent]
    one_before = dict(zip(waiting[on].tolist(), flows.parent[on].tolist(), strict=True))
    flow, seen = int(np.argmax(stuck)), list[int]()
    while flow not in seen:
        seen.append(flow)
        flow = one_before[flow]
    cycle = seen[seen.index(flow) :]
    lines = ", ".join(str(flows.line[index]) for index in cycle[:MOST_SHOWN])
    rest = f" and {len(cycle) - MOST_SHOWN} more" if len(cycle) > MOST_SHOWN else ""
    return flows.refuse(
        flow, f"the flow waits for itself, in the cycle of lines {lines}{rest}. Fix the parents."
    )


def dependencies(flows: FlowColumns) -> tuple[Int64, Int64]:
    """The flows that each of these ordered ones waits for, one range after the other: its parents, and what
    completes its sender's part in the collective before, which is the last flow between it and each other
    rank. Raises ExperimentError where they are too many."""
    n, n_names = len(flows.src), len(flows.names)
    src, collective = flows.src, flows.collective
    between = (collective * flows.n_ranks + src) * flows.n_ranks + flows.dst
    last = n - 1 - np.unique(between[::-1], return_index=True)[1]
    # parts: of every rank in every collective it takes part in, by rank, then by collective
    ends = np.concatenate([src[last], flows.dst[last]]) * n_names + np.tile(collective[last], 2)
    parts, part = np.unique(ends, return_inverse=True)
    completes = np.tile(last, 2)[np.argsort(part)]
    begin = starts(np.bincount(part))
    before = np.searchsorted(parts, src * n_names + collective) - 1
    later = np.flatnonzero((before >= 0) & (parts[before] // n_names == src))
    count = np.diff(begin)[before[later]]
    if (total := len(flows.parent) + int(count.sum())) > MOST_WAITS:
        raise ExperimentError(
            f"{flows.path}: {n_names} collectives one after the other make {total} dependencies, more than "
            f"{MOST_WAITS}. Make a file of fewer collectives."
        )
    waiting = np.concatenate([flows.waiting, np.repeat(later, count)])
    waits_for = np.concatenate([flows.parent, completes[spread(begin[before[later]], count)]])
    return starts(np.bincount(waiting, minlength=n)), waits_for[np.argsort(waiting, kind="stable")]


def brought(flows: FlowColumns, length: Int64) -> Int64:
    """(n,): for each of these ordered flows, the first parent of equal length that ends where the flow
    begins; -1 if there is none."""
    flow, parent = flows.waiting, flows.parent
    fits = (flows.dst[parent] == flows.src[flow]) & (length[parent] == length[flow])
    passes, first = np.unique(flow[fits], return_index=True)
    by = np.full(len(length), -1)
    by[passes] = parent[fits][first]
    return by


def places(src: Int64, dst: Int64, length: Int64, brought: Int64) -> tuple[Int64, Int64, int]:
    """Elements: where each flow's data stands at its sender and where it goes at its receiver, and the length
    of a buffer: what a rank sends of its own, then what it receives, each flow at a place of its own."""
    own_length = np.where(brought < 0, length, 0)
    n_ranks = 1 + int(max(src.max(initial=0), dst.max(initial=0)))
    ahead = np.bincount(src, own_length, n_ranks).astype(np.int64)
    to = ahead[dst] + _before(dst, length)
    first = np.where(brought < 0, _before(src, own_length), to[brought] if len(to) else to)
    return first, to, int((ahead + np.bincount(dst, length, n_ranks).astype(np.int64)).max())


def _before(group: Int64, amount: Int64) -> Int64:
    """(n,): the sum of the amounts of the same group that come earlier."""
    order = np.argsort(group, kind="stable")
    total = np.cumsum(amount[order]) - amount[order]
    _, begin, sizes = np.unique(group[order], return_index=True, return_counts=True)
    before = np.empty(len(group), np.int64)
    before[order] = total - np.repeat(total[begin], sizes)
    return before
