"""Path batches cut, joined and walked in chunks: the array work that every part of routing shares."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from railweave.framework.errors import RouteError
from railweave.framework.model import PathBatch, RouteTable, all_pairs, routes
from railweave.framework.model.arrays import Bool, Int64

CHUNK = 1 << 18
"""Pairs looked at together: some tens of megabytes of hops, whatever the size of the fabric."""
MOST_COUNTED = 1 << 20
"""Longest range that is kept: 8 MB."""
LARGE = 31 << 20
"""Bytes: just below what glibc maps anew each time, whatever came before."""

starts = routes.starts


def counting(size: int) -> Int64:
    """0 .. size - 1, read-only. Short ones are kept: making them anew is a quarter of laying out hops."""
    return _counting(1 << size.bit_length())[:size] if size <= MOST_COUNTED else np.arange(size)


@lru_cache(maxsize=1)
def _counting(size: int) -> Int64:
    numbers = np.arange(size)
    numbers.flags.writeable = False
    return numbers


def spread(start: Int64, count: Int64) -> Int64:
    """The whole numbers of the ranges `start[i] : start[i] + count[i]`, one range after the other."""
    ends = np.cumsum(count)
    flat: Int64 = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(start - (ends - count), count)
    return flat


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
    """Every ordered pair in lexicographic order, at most `chunk` at a time: read-only arrays (src, dst).

    All pairs of a source stay together where `chunk` has room for them; `whole_sources` finds them again.
    """
    _keep_freed_memory()
    others = n_gpus - 1
    if 0 < others <= chunk:
        step = chunk // others
        for first in range(0, n_gpus, step):
            src = np.repeat(np.arange(first, min(first + step, n_gpus)), others)
            yield _frozen(src, _others(src[::others], others).ravel())
        return
    for first in range(0, n_gpus * others, chunk):
        src, rest = np.divmod(np.arange(first, min(first + chunk, n_gpus * others)), others)
        yield _frozen(src, rest + (rest >= src))


def _keep_freed_memory() -> None:
    """Has glibc keep the memory of freed arrays (up to 62 MB), as it does once a process has freed a large one.

    Until then it gives theirs back to the kernel chunk after chunk, and faulting it in again takes longer than
    finding the paths. Nothing is written to the array, so it costs no memory.
    """
    np.empty(LARGE, np.int8)


def whole_sources(n_gpus: int, src: Int64, dst: Int64) -> Int64 | None:
    """The sources if the question is all pairs of each, in order; else None. Routers may answer those faster."""
    others = n_gpus - 1
    if others < 1 or len(src) == 0 or len(src) % others:
        return None
    sources = src[::others]
    if (src.reshape(-1, others) != sources[:, None]).any():
        return None
    return sources if np.array_equal(dst.reshape(-1, others), _others(sources, others)) else None


def _others(sources: Int64, others: int) -> Int64:
    """(sources, others): every GPU but the source itself."""
    rest = np.arange(others)
    return rest + (rest >= sources[:, None])


def _frozen(src: Int64, dst: Int64) -> tuple[Int64, Int64]:
    src.flags.writeable = dst.flags.writeable = False  # spares batches their own copy
    return src, dst


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
