"""Deadlock-freedom by the channel-dependency graph: no cycle, no deadlock (Dally and Seitz, 1987)."""

from graphlib import CycleError, TopologicalSorter

import numpy as np

from railweave.framework.model import Fabric, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.framework.routing.batches import batches


def channel_cycle(
    fabric: Fabric, table: RouteTable, pairs: tuple[Int64, Int64] | None = None
) -> tuple[str, ...] | None:
    """One cycle of channels that wait for each other, as names in order, or None if there is none.

    A channel is a (link, virtual channel); a path that takes channel b right after channel a makes a wait for
    b. On a lossless fabric, routing is free of deadlock if this graph has no cycle. Source: Dally and Seitz,
    "Deadlock-free message routing in multiprocessor interconnection networks", theorem 1. Where some links
    are lossless, no channel waits for one of the others, which drop instead; where none is, all count.
    """
    parts = [np.empty((0, 2), np.int64)]
    for batch in batches(table, pairs):
        edges = dependency_edges(fabric, batch)
        parts.append(edges[fabric.lossless[edges[:, 1] % fabric.n_links]] if fabric.lossless.any() else edges)
    cycle = find_cycle(np.unique(np.concatenate(parts), axis=0))
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
    size = int(channel.max(initial=0)) + 1
    distinct = np.unique(channel[:-1][follows] * size + channel[1:][follows])
    return np.stack(np.divmod(distinct, size), axis=1)


def find_cycle(edges: Int64) -> list[int] | None:
    """The nodes of one directed cycle of a graph of (E, 2) edges [from, to], or None."""
    graph = TopologicalSorter[int]()
    for before, after in edges.tolist():
        graph.add(after, before)
    try:
        graph.prepare()
    except CycleError as error:
        cycle: list[int] = error.args[1]  # its first node is also its last
        return cycle[1:]
    return None
