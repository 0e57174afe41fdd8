"""Whether packets could follow a route table: reachable, joined, loop-free, over live links."""

from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import NoPathError, RouteError
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.routing.batches import batches, unreachable

WEIGHTS_WITHIN = 1e-9
"""How far the weights of a pair may sum from 1."""


@dataclass(frozen=True)
class TableReport:
    """What a sound table holds. `unreachable`: (M, 2) pairs [src, dst] without a path; `longest` in hops."""

    pairs: int
    paths: int
    hops: int
    longest: int
    unreachable: Int64


def check_table(
    fabric: Fabric,
    table: RouteTable,
    health: HealthSnapshot,
    pairs: tuple[Int64, Int64] | None = None,
    *,
    allow_unreachable: bool = False,
) -> TableReport:
    """What the table holds, once every path of `pairs` (all by default) is proved sound.

    Sound: it starts at the source and ends at the destination, each link begins where the one before ended,
    no node is met twice, no link is down or unusable, and a pair's weights are positive and sum to 1. Paths
    may pass through GPUs: their NIC switch forwards.

    Raises:
        RouteError: a path that no packet could follow; names router, pair and link.
        NoPathError: a pair without a path, unless `allow_unreachable`; names it and the links that are down.
    """
    lost = [np.empty((0, 2), np.int64)]
    n_pairs = n_paths = n_hops = longest = 0
    for batch in batches(table, pairs):
        check_batch(fabric, table.router, batch, health)
        lost.append(unreachable(batch))
        if len(lost[-1]) and not allow_unreachable:
            src, dst = (fabric.node_name(int(gpu)) for gpu in lost[-1][0])
            raise NoPathError(
                f"router {table.router}: {src} -> {dst} has no path ({len(lost[-1])} such pairs). "
                f"Down: {down_names(fabric, health)}."
            )
        n_pairs, n_paths = n_pairs + len(batch.src), n_paths + len(batch.weight)
        n_hops = n_hops + len(batch.links)
        longest = max(longest, int(np.diff(batch.hop_start).max(initial=0)))
    return TableReport(n_pairs, n_paths, n_hops, longest, np.concatenate(lost))


def check_batch(fabric: Fabric, router: str, batch: PathBatch, health: HealthSnapshot) -> None:
    """Raises RouteError for the first path that is not sound."""
    for name in ("pair_start", "hop_start"):
        ranges = getattr(batch, name)
        if ranges[0] != 0 or np.any(np.diff(ranges) < 0):
            raise RouteError(f"router {router}: {name} of its path batch must begin at 0 and never fall.")
    blame = _Blame(fabric, router, batch)
    links = batch.links
    blame.hop((links < 0) | (links >= fabric.n_links), "the fabric has no such link")
    blame.path(np.diff(batch.hop_start) == 0, "a path without links; an unreachable pair has no path at all")
    begin, end = batch.hop_start[:-1], batch.hop_start[1:] - 1
    source, target = batch.src[batch.path_pair], batch.dst[batch.path_pair]
    blame.at(begin, fabric.link_src[links[begin]] != source, "the first link does not leave the source")
    inner = np.flatnonzero(np.diff(batch.hop_path) == 0)
    apart = fabric.link_src[links[inner + 1]] != fabric.link_dst[links[inner]]
    blame.at(inner + 1, apart, "the link does not begin where the one before it ends")
    blame.at(end, fabric.link_dst[links[end]] != target, "the last link does not reach the destination")
    blame.hop(~fabric.usable[links], "the link is one direction of a one-way cable and carries nothing")
    blame.hop(health.down[links], "the link is down")
    blame.hop(_met_before(fabric, batch), "the link returns to a node the path has met: a loop")
    blame.path(~(batch.weight > 0), "its weight is not positive")
    has = np.diff(batch.pair_start) > 0
    total = np.bincount(batch.path_pair, batch.weight, len(has))
    off = np.flatnonzero(has & ~(np.abs(total - 1) <= WEIGHTS_WITHIN))
    if off.size:
        pair = pair_name(fabric, batch, int(off[0]))
        raise RouteError(f"router {router}: the weights of {pair} sum to {total[off[0]]:g}, not to 1.")


def unreachable_pairs(table: RouteTable, pairs: tuple[Int64, Int64] | None = None) -> Int64:
    """(M, 2): the pairs [src, dst] that have no path."""
    return np.concatenate([unreachable(batch) for batch in batches(table, pairs)])


def pair_name(fabric: Fabric, batch: PathBatch, pair: int) -> str:
    """`g0.0 -> g1.1`."""
    return f"{fabric.node_name(int(batch.src[pair]))} -> {fabric.node_name(int(batch.dst[pair]))}"


def down_names(fabric: Fabric, health: HealthSnapshot, most: int = 8) -> str:
    """The names of the links that are down, as text; at most `most` of them."""
    down = np.flatnonzero(health.down)
    names = [fabric.link_name(int(link)) for link in down[:most]]
    if len(down) > most:
        names.append(f"{len(down) - most} more")
    return ", ".join(names) or "no link"


def _met_before(fabric: Fabric, batch: PathBatch) -> Bool:
    """(H,): whether the hop ends at a node that its path met before."""
    path = np.concatenate((np.arange(len(batch.weight)), batch.hop_path))
    node = np.concatenate((batch.src[batch.path_pair], fabric.link_dst[batch.links].astype(np.int64)))
    order = np.argsort(path * fabric.n_nodes + node, kind="stable")
    again = np.zeros(len(path), bool)
    again[order[1:]] = (np.diff(path[order]) == 0) & (np.diff(node[order]) == 0)
    return again[len(batch.weight) :]


class _Blame:
    """Raises the RouteError that names router, pair and link of the first wrong hop or path."""

    def __init__(self, fabric: Fabric, router: str, batch: PathBatch) -> None:
        self._fabric, self._router, self._batch = fabric, router, batch

    def hop(self, wrong: Bool, why: str) -> None:
        self.at(np.arange(len(wrong)), wrong, why)

    def at(self, hops: Int64, wrong: Bool, why: str) -> None:
        bad = np.flatnonzero(wrong)
        if bad.size:
            hop = int(hops[bad[0]])
            path = int(np.searchsorted(self._batch.hop_start, hop, side="right")) - 1
            self._raise(path, int(self._batch.links[hop]), why)

    def path(self, wrong: Bool, why: str) -> None:
        bad = np.flatnonzero(wrong)
        if bad.size:
            self._raise(int(bad[0]), None, why)

    def _raise(self, path: int, link: int | None, why: str) -> None:
        batch, fabric = self._batch, self._fabric
        pair = int(np.searchsorted(batch.pair_start, path, side="right")) - 1
        where = ""
        if link is not None:
            known = 0 <= link < fabric.n_links
            where = f" at link {fabric.link_name(link) if known else link}"
        nth = path - int(batch.pair_start[pair])
        raise RouteError(
            f"router {self._router}: path {nth} of {pair_name(fabric, batch, pair)} is wrong{where}: {why}."
        )
