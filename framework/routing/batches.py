"""Path batches cut, joined and walked in chunks: the array work that every part of routing shares."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railweave.framework.errors import RouteError
from railweave.framework.model import PathBatch, RouteTable, all_pairs
from railweave.framework.model.arrays import Bool, Int64

CHUNK = 1 << 18
"""Pairs looked at together: some tens of megabytes of hops, whatever the size of the fabric."""


def spread(start: Int64, count: Int64) -> Int64:
    """The whole numbers of the ranges `start[i] : start[i] + count[i]`, one range after the other."""
    ends = np.cumsum(count)
    flat: Int64 = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(start - (ends - count), count)
    return flat


def starts(count: Int64) -> Int64:
    """(N+1,): where each of N ranges of these lengths begins, and the end."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(count)))


def take(batch: PathBatch, positions: Int64) -> PathBatch:
    """The pairs at `positions` of a batch, in that order."""
    n_paths = np.diff(batch.pair_start)[positions]
    path = spread(batch.pair_start[positions], n_paths)
    n_hops = np.diff(batch.hop_start)[path]
    hop = spread(batch.hop_start[path], n_hops)
    return PathBatch(
        batch.src[positions],
        batch.dst[positions],
        starts(n_paths),
        batch.weight[path],
        starts(n_hops),
        batch.links[hop],
        None if batch.vc is None else batch.vc[hop],
    )


def join(a: PathBatch, b: PathBatch) -> PathBatch:
    """The pairs of `a`, then those of `b`. Where only one carries virtual channels the other's are 0."""
    channels = None
    if a.vc is not None or b.vc is not None:
        channels = np.concatenate(
            [np.zeros(len(x.links), np.int32) if x.vc is None else x.vc for x in (a, b)]
        )
    return PathBatch(
        np.concatenate((a.src, b.src)),
        np.concatenate((a.dst, b.dst)),
        np.concatenate((a.pair_start, b.pair_start[1:] + a.pair_start[-1])),
        np.concatenate((a.weight, b.weight)),
        np.concatenate((a.hop_start, b.hop_start[1:] + a.hop_start[-1])),
        np.concatenate((a.links, b.links)),
        channels,
    )


def pair_position(n_gpus: int, src: Int64, dst: Int64) -> Int64:
    """Where each pair stands in `all_pairs(n_gpus)`."""
    return src * (n_gpus - 1) + dst - (dst > src)


def pair_chunks(n_gpus: int, chunk: int = CHUNK) -> Iterator[tuple[Int64, Int64]]:
    """Every ordered pair in lexicographic order, at most `chunk` at a time: arrays (src, dst)."""
    for first in range(0, n_gpus * (n_gpus - 1), chunk):
        src, rest = np.divmod(np.arange(first, min(first + chunk, n_gpus * (n_gpus - 1))), n_gpus - 1)
        yield src, rest + (rest >= src)


def batches(
    table: RouteTable, pairs: tuple[Int64, Int64] | None = None, chunk: int = CHUNK
) -> Iterator[PathBatch]:
    """The table's paths for `pairs`, or for every pair, chunk by chunk."""
    if pairs is None:
        for src, dst in pair_chunks(table.n_gpus, chunk):
            yield _asked(table, src, dst)
        return
    for first in range(0, len(pairs[0]), chunk):
        yield _asked(table, pairs[0][first : first + chunk], pairs[1][first : first + chunk])


def all_paths(table: RouteTable) -> PathBatch:
    """The paths of every ordered pair, in the order of `all_pairs`."""
    return _asked(table, *all_pairs(table.n_gpus))


def _asked(table: RouteTable, src: Int64, dst: Int64) -> PathBatch:
    batch = table.paths(src, dst)
    if not (np.array_equal(batch.src, src) and np.array_equal(batch.dst, dst)):
        raise RouteError(
            f"router {table.router} answered for other pairs than it was asked. "
            "Its batch must hold the pairs in the order of the question."
        )
    return batch


def same_paths(a: PathBatch, b: PathBatch) -> Bool:
    """(P,): whether the i-th pair of both batches has the same paths in the same order, link by link.

    Weights and virtual channels are not looked at: packets cross the same ports whatever they are.
    """
    if not (np.array_equal(a.src, b.src) and np.array_equal(a.dst, b.dst)):
        raise RouteError(
            "two path batches of different pairs cannot be compared. Ask both tables for the same."
        )
    hops_a, hops_b = (x.hop_start[x.pair_start[1:]] - x.hop_start[x.pair_start[:-1]] for x in (a, b))
    same: Bool = (np.diff(a.pair_start) == np.diff(b.pair_start)) & (hops_a == hops_b)
    alike = np.flatnonzero(same)
    marks = []
    for x in (a, b):
        mark = x.links.astype(np.int64) * 2
        mark[x.hop_start[:-1]] += 1  # where a path begins counts too
        marks.append(mark[spread(x.hop_start[x.pair_start[alike]], hops_a[alike])])
    owner = np.repeat(alike, hops_a[alike])
    same[owner[marks[0] != marks[1]]] = False
    return same
