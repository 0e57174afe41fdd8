"""Deadlock-freedom by the channel-dependency graph: no cycle, no deadlock (Dally and Seitz, 1987)."""

import numpy as np

from railweave.framework.model import Fabric, PathBatch, RouteTable
from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.routing.batches import batches, spread, starts


def channel_cycle(
    fabric: Fabric, table: RouteTable, pairs: tuple[Int64, Int64] | None = None
) -> tuple[str, ...] | None:
    """One cycle of channels that wait for each other, as names in order, or None if there is none.

    A channel is a (link, virtual channel); a path that takes channel b right after channel a makes a wait for
    b. On a lossless fabric, routing is free of deadlock if this graph has no cycle. Source: Dally and Seitz,
    "Deadlock-free message routing in multiprocessor interconnection networks", theorem 1.
    """
    edges: list[Int64] = [np.empty((0, 2), np.int64)]
    for batch in batches(table, pairs):
        edges.append(dependency_edges(fabric, batch))
    cycle = find_cycle(np.unique(np.concatenate(edges), axis=0))
    if cycle is None:
        return None
    return tuple(
        f"{fabric.link_name(channel % fabric.n_links)} vc{channel // fabric.n_links}" for channel in cycle
    )


def dependency_edges(fabric: Fabric, batch: PathBatch) -> Int64:
    """(E, 2): distinct pairs of channels that follow each other on a path; channel = vc * n_links + link."""
    channel = batch.links.astype(np.int64)
    if batch.vc is not None:
        channel = channel + batch.vc.astype(np.int64) * fabric.n_links
    follows = np.diff(batch.hop_path) == 0
    before, after = channel[:-1][follows], channel[1:][follows]
    size = int(channel.max(initial=0)) + 1
    before, after = np.divmod(np.unique(before * size + after), size)
    return np.stack((before, after), axis=1)


def find_cycle(edges: Int64) -> list[int] | None:
    """The nodes of one directed cycle of a graph of (E, 2) edges [from, to], or None.

    Kahn's elimination, whole layers at a time: nodes that none waits for are taken out until nothing changes.
    Every node that remains has a predecessor that remains, so going back from any leads to a cycle.
    """
    names, flat = np.unique(edges, return_inverse=True)
    tail, head = flat.reshape(-1, 2)[:, 0], flat.reshape(-1, 2)[:, 1]
    by_tail = np.argsort(tail, kind="stable")
    out_count = np.bincount(tail, minlength=len(names))
    out_start, out_head = starts(out_count), head[by_tail]
    waiting = np.bincount(head, minlength=len(names))
    left: Bool = np.ones(len(names), bool)
    layer = np.flatnonzero(waiting == 0)
    while layer.size:
        left[layer] = False
        reached = out_head[spread(out_start[layer], out_count[layer])]
        np.subtract.at(waiting, reached, 1)
        reached = np.unique(reached)
        layer = reached[(waiting[reached] == 0) & left[reached]]
    if not left.any():
        return None
    inside = left[tail] & left[head]
    predecessor = np.full(len(names), -1)
    predecessor[head[inside][::-1]] = tail[inside][::-1]
    node, seen = int(np.flatnonzero(left)[0]), dict[int, int]()
    walk: list[int] = []
    while node not in seen:
        seen[node] = len(walk)
        walk.append(node)
        node = int(predecessor[node])
    return [int(names[i]) for i in reversed(walk[seen[node] :])]
