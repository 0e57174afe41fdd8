"""Which UDP source port takes which path of a pair, so that rules of one branch merge over destinations."""

import numpy as np

from railweave.framework.errors import RouteError
from railweave.framework.model import EntropyTable, Fabric, PathBatch
from railweave.framework.model.addressing import ENTROPY_BASE
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.routing.batches import spread, starts

CLASSES = (1 << 16) - ENTROPY_BASE
"""UDP source ports from ENTROPY_BASE on; path classes are counted from it."""

SLOTS = 32
"""Uneven weights become repeats among at most this many entropies."""


def path_classes(fabric: Fabric, batch: PathBatch) -> Int64:
    """(Q,): the entropy class of every path: the sender reaches it by UDP source port ENTROPY_BASE + class.

    One path of a pair has class 0, and rules take every port that is no class of their own for it; so a pair
    with one path needs no match on the port. The others are named by the branch they take: the number of the
    switch crossed, in the first group of switches (the last built first: spines, rails, domains) that
    distinguishes all paths of all pairs. Where none does, by their position in the pair.
    """
    count = np.diff(batch.pair_start)
    single = np.repeat(count == 1, count)
    classes = spread(np.zeros(len(count), np.int64), count)
    if single.all():
        return classes
    several = np.flatnonzero(~single)
    for group in reversed(fabric.groups[1:]):
        branch = _branches(fabric, batch, group.first, group.size)
        labels = batch.path_pair[several] * (group.size + 1) + branch[several]
        if (branch[several] >= 0).all() and len(np.unique(labels)) == len(labels):
            # The lowest branch of a pair is its class 0, the others count from 1.
            lowest = np.full(len(count), np.iinfo(np.int64).max)
            np.minimum.at(lowest, batch.path_pair, branch)
            classes = np.where(single | (branch == lowest[batch.path_pair]), 0, branch + 1)
            break
    if int(classes.max()) >= CLASSES:
        raise RouteError(
            f"a pair with a path number {classes.max()}: senders have {CLASSES} entropies at most."
        )
    return classes


def entropy_table(fabric: Fabric, version: int, batch: PathBatch, classes: Int64) -> EntropyTable:
    """What senders need: every pair's UDP source ports in turn, paths of greater weight more often."""
    slots = _slots(batch)
    path = np.repeat(np.arange(len(slots)), slots)
    turn = (spread(np.zeros(len(slots), np.int64), slots) + 0.5) / slots[path]
    # A pair's paths of equal weight keep their order; a heavy one is spread between the others.
    path = path[np.lexsort((path, turn, batch.path_pair[path]))]
    per_pair = np.bincount(batch.path_pair, slots, len(batch.src)).astype(np.int64)
    capacity = fabric.capacity_bps[batch.links]
    slowest = np.minimum.reduceat(capacity, batch.hop_start[:-1]) if len(slots) else capacity
    depth: Float = slowest * np.bincount(batch.hop_path, 1 / capacity, len(slots)).astype(np.float64)
    latency: Float = np.bincount(batch.hop_path, fabric.latency_s[batch.links], len(slots)).astype(np.float64)
    return EntropyTable(
        version,
        batch.src,
        batch.dst,
        starts(per_pair),
        ENTROPY_BASE + classes[path],
        slowest[path],
        depth[path],
        latency[path],
    )


def _branches(fabric: Fabric, batch: PathBatch, first: int, size: int) -> Int64:
    """(Q,): position in its group of the lowest switch of nodes first..first+size-1 crossed, or -1."""
    node = fabric.link_dst[batch.links].astype(np.int64) - first
    node[(node < 0) | (node >= size)] = size
    branch = np.full(len(batch.weight), size)
    np.minimum.at(branch, batch.hop_path, node)
    return np.where(branch == size, -1, branch)


def _slots(batch: PathBatch) -> Int64:
    """(Q,): how many entropies of its pair each path gets, so that counts are in proportion to the
    weights."""
    pair = batch.path_pair
    slots = np.ones(len(batch.weight), np.int64)
    share = batch.weight * np.diff(batch.pair_start)[pair]
    uneven = np.zeros(len(batch.src), bool)
    uneven[pair[np.abs(share - 1) > 1e-6]] = True
    for total in range(2, SLOTS + 1):
        if not uneven.any():
            break
        exact = batch.weight * total
        count = np.maximum(1, np.rint(exact)).astype(np.int64)
        off = np.zeros(len(batch.src), bool)
        off[pair[np.abs(exact - count) > 1e-6]] = True
        chosen = uneven[pair] & (~off[pair] | (total == SLOTS))
        slots[chosen] = count[chosen]
        uneven &= off
    return slots
