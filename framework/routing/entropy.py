"""Which UDP source port takes which path of a pair, so that rules of one branch merge over destinations."""

import numpy as np

from railweave.framework.errors import RouteError
from railweave.framework.model import EntropyTable, Fabric, PathBatch
from railweave.framework.model.addressing import ENTROPY_BASE
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.model.routes import MOST_PATHS
from railweave.framework.routing.batches import seen_before, spread


def path_classes(fabric: Fabric, batch: PathBatch) -> Int64:
    """(Q,): the entropy class of every path: the sender reaches it by UDP source port ENTROPY_BASE + class.

    One path of a pair has class 0, and rules take every port that is no class of their own for it; so a pair
    with one path needs no match on the port. The others are named by the branch they take: the number of the
    switch crossed, in the first group of switches (the last built first: spines, rails, domains) that
    distinguishes all paths of the pair. Where none does, by their position in the pair.
    """
    count = np.diff(batch.pair_start)
    classes, open_pairs, first = spread(np.zeros(len(count), np.int64), count), count > 1, 1
    for group in reversed(fabric.groups[1:]):
        if not open_pairs.any():
            break
        branch, pair = _branches(fabric, batch, group.first, group.size), batch.path_pair
        crossing = np.minimum.reduceat(branch, batch.pair_start[:-1][count > 0]) >= 0
        distinguished = np.zeros(len(count), bool)
        distinguished[count > 0] = crossing
        distinguished[pair[seen_before(pair * (group.size + 1) + branch)]] = False
        distinguished &= open_pairs
        # The lowest branch of a pair is its class 0, the others count from that of the group's first switch.
        lowest = np.full(len(count), np.iinfo(np.int64).max)
        np.minimum.at(lowest, pair, branch)
        named = np.where(branch == lowest[pair], 0, first + branch)
        classes, open_pairs = np.where(distinguished[pair], named, classes), open_pairs & ~distinguished
        first += group.size
    if len(classes) and int(classes.max()) >= MOST_PATHS:
        raise RouteError(
            f"a pair with a path number {classes.max()}: senders have {MOST_PATHS} entropies at most."
        )
    return classes


def entropy_table(fabric: Fabric, version: int, batch: PathBatch, classes: Int64) -> EntropyTable:
    """What senders need: the UDP source port and the share of every path of every pair."""
    capacity, n = fabric.capacity_bps[batch.links], len(batch.weight)
    slowest = np.minimum.reduceat(capacity, batch.hop_start[:-1]) if n else capacity
    depth: Float = slowest * np.bincount(batch.hop_path, 1 / capacity, n).astype(np.float64)
    latency: Float = np.bincount(batch.hop_path, fabric.latency_s[batch.links], n).astype(np.float64)
    ports = ENTROPY_BASE + classes
    return EntropyTable(
        version, batch.src, batch.dst, batch.pair_start, ports, batch.weight, slowest, depth, latency
    )


def _branches(fabric: Fabric, batch: PathBatch, first: int, size: int) -> Int64:
    """(Q,): position in its group of the lowest switch of nodes first..first+size-1 crossed, or -1."""
    node = fabric.link_dst[batch.links].astype(np.int64) - first
    node[(node < 0) | (node >= size)] = size
    branch = np.full(len(batch.weight), size)
    np.minimum.at(branch, batch.hop_path, node)
    return np.where(branch == size, -1, branch)
