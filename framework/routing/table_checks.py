"""Whether packets could follow a route table: reachable, joined, loop-free, over live links."""

import numpy as np

from railweave.framework.errors import RouteError
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.model.routes import MOST_PATHS
from railweave.framework.routing.batches import batches, seen_before, unreachable

WEIGHTS_WITHIN = 1e-9
"""How far the weights of a pair may sum from 1."""


def check_table(fabric: Fabric, table: RouteTable, health: HealthSnapshot) -> Int64:
    """The pairs (M, 2) without a path, once all paths are proved sound; raises as `check_batch` does."""
    lost = [np.empty((0, 2), np.int64)]
    for batch in batches(table):
        check_batch(fabric, table.router, batch, health)
        lost.append(unreachable(batch))
    return np.concatenate(lost)


def check_batch(fabric: Fabric, router: str, batch: PathBatch, health: HealthSnapshot) -> None:
    """Raises RouteError for the first path that is not sound; names router, pair and link.

    Sound: it starts at the source and ends at the destination, each link begins where the one before ended,
    no node is met twice, no link is down or unusable, and a pair's weights are positive and sum to 1. Paths
    may pass through GPUs: their NIC switch forwards.
    """
    for name, ranges in (("pair_start", batch.pair_start), ("hop_start", batch.hop_start)):
        if ranges[0] != 0 or np.any(np.diff(ranges) < 0):
            raise RouteError(f"router {router}: {name} of its path batch must begin at 0 and never fall.")
    links, every_hop = batch.links, np.arange(len(batch.links))
    path_pair, hop_path = batch.path_pair, batch.hop_path

    def refuse(wrong: Bool, why: str, hops: Int64 | None = None) -> None:
        """Raises for the first wrong path, or with `hops` for the first of these hops that is wrong."""
        if not wrong.any():
            return
        path, where = int(wrong.argmax()), ""
        if hops is not None:
            hop = hops[path]
            path, link = int(hop_path[hop]), int(links[hop])
            where = f" at link {fabric.link_name(link) if 0 <= link < fabric.n_links else link}"
        pair = path_pair[path]
        name, nth = pair_name(fabric, batch.src[pair], batch.dst[pair]), path - batch.pair_start[pair]
        raise RouteError(f"router {router}: path {nth} of {name} is wrong{where}: {why}.")

    if np.diff(batch.pair_start).max(initial=0) > MOST_PATHS:
        number = np.arange(len(batch.weight)) - batch.pair_start[path_pair]
        refuse(number >= MOST_PATHS, f"packets tell {MOST_PATHS} paths of a pair apart at most")
    refuse((links < 0) | (links >= fabric.n_links), "the fabric has no such link", every_hop)
    refuse(np.diff(batch.hop_start) == 0, "a path without links; an unreachable pair has no path at all")
    begin, end = batch.hop_start[:-1], batch.hop_start[1:] - 1
    source, target = batch.src[path_pair], batch.dst[path_pair]
    refuse(fabric.link_src[links[begin]] != source, "the first link does not leave the source", begin)
    onward = np.flatnonzero(hop_path[1:] == hop_path[:-1]) + 1
    apart = fabric.link_src[links[onward]] != fabric.link_dst[links[onward - 1]]
    refuse(apart, "the link does not begin where the one before it ends", onward)
    refuse(fabric.link_dst[links[end]] != target, "the last link does not reach the destination", end)
    idle = ~fabric.usable[links]
    refuse(idle, "the link is one direction of a one-way cable and carries nothing", every_hop)
    refuse(health.down[links], "the link is down", every_hop)
    path = np.concatenate((np.arange(len(batch.weight)), hop_path))
    met = seen_before(path * fabric.n_nodes + np.concatenate((source, fabric.link_dst[links])))
    refuse(met[len(batch.weight) :], "the link returns to a node the path has met: a loop", every_hop)
    refuse(~(batch.weight > 0), "its weight is not positive")
    total = np.bincount(path_pair, batch.weight, len(batch.src))
    off = np.flatnonzero((np.diff(batch.pair_start) > 0) & ~(np.abs(total - 1) <= WEIGHTS_WITHIN))
    if off.size:
        name = pair_name(fabric, batch.src[off[0]], batch.dst[off[0]])
        raise RouteError(f"router {router}: the weights of {name} sum to {total[off[0]]:g}, not to 1.")


def pair_name(fabric: Fabric, src: int, dst: int) -> str:
    """`g0.0 -> g1.1`."""
    return f"{fabric.node_name(int(src))} -> {fabric.node_name(int(dst))}"
