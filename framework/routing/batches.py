"""Path batches split, joined and walked in chunks: the array work that every part of routing shares."""

from collections.abc import Iterator
from functools import cache
from math import ceil

import numpy as np

from railweave.framework.errors import RouteError
from railweave.framework.model import PathBatch, RouteTable, all_pairs, arrays, routes
from railweave.framework.model.arrays import Bool, Int64

CHUNK = 1 << 18
"""Pairs worked on together: some tens of megabytes of hops, whatever the size of the fabric."""
MOST_HOPS, PROBED = 1 << 22, 256
"""Hops worked on together, and pairs by which they are foreseen."""
LARGE = 31 << 20
"""Bytes: just below what glibc maps anew each time, whatever came before."""
starts, same_paths = routes.starts, routes.same_paths
spread, distinct = arrays.spread, arrays.distinct


def seen_before(keys: Int64) -> Bool:
    """(N,): whether an equal key came earlier."""
    order = np.argsort(keys, kind="stable")
    again = np.zeros(len(keys), bool)
    again[order[1:]] = np.diff(keys[order]) == 0
    return again


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


def join(*parts: PathBatch) -> PathBatch:
    """The pairs of each part in turn. Where only some carry virtual channels those of the others are 0."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        none, start = np.empty(0, np.int64), np.zeros(1, np.int64)
        return PathBatch(none, none, start, np.empty(0), start, np.empty(0, np.int32))
    some = any(part.vc is not None for part in parts)
    return PathBatch(
        np.concatenate([part.src for part in parts]),
        np.concatenate([part.dst for part in parts]),
        starts(np.concatenate([np.diff(part.pair_start) for part in parts])),
        np.concatenate([part.weight for part in parts]),
        starts(np.concatenate([np.diff(part.hop_start) for part in parts])),
        np.concatenate([part.links for part in parts]),
        np.concatenate([np.zeros(len(p.links), np.int32) if p.vc is None else p.vc for p in parts])
        if some
        else None,
    )


def replaced(batch: PathBatch, positions: Int64, others: PathBatch) -> PathBatch:
    """`batch` with the paths of the pairs at `positions` taken from `others`, which holds these pairs in
    order."""
    if not len(positions):
        return batch
    pick = np.arange(len(batch.src))
    pick[positions] = len(pick) + np.arange(len(positions))
    return take(join(batch, others), pick)


def unreachable(batch: PathBatch) -> Int64:
    """(M, 2): the pairs [src, dst] that have no path."""
    none = np.flatnonzero(np.diff(batch.pair_start) == 0)
    return np.stack((batch.src[none], batch.dst[none]), axis=1)


def table_from_batch(router: str, version: int, n_gpus: int, batch: PathBatch) -> RouteTable:
    """A table that looks its answers up in `batch`; RouteError for pairs that it does not hold."""

    @cache
    def index() -> tuple[Int64, Int64]:
        """The pairs as ascending numbers, and the position of each in the batch; made when first needed."""
        numbers = batch.src * n_gpus + batch.dst
        order = np.argsort(numbers, kind="stable")
        return numbers[order], order

    def resolve(src: Int64, dst: Int64) -> PathBatch:
        if batch.is_of(src, dst):
            return batch
        numbers, order = index()
        wanted = src * n_gpus + dst
        place = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
        unknown = np.flatnonzero(numbers[place] != wanted) if len(numbers) else np.arange(len(wanted))
        if unknown.size:
            i = int(unknown[0])
            raise RouteError(f"router {router}: its table does not hold the pair {src[i]} -> {dst[i]}.")
        return take(batch, order[place])

    return RouteTable(router, version, n_gpus, resolve)


def pair_chunks(n_gpus: int, chunk: int = CHUNK) -> Iterator[tuple[Int64, Int64]]:
    """Every ordered pair in lexicographic order, at most `chunk` at a time: read-only arrays (src, dst).

    All pairs of a source stay together where `chunk` has room for them; `whole_sources` recognises them.
    """
    # This has glibc keep the memory of freed arrays (up to 62 MB), as it does once a process has freed a
    # large one. Until then it returns the memory to the kernel after each chunk, and faulting it in again
    # takes longer than the search for paths. Nothing is written to the array, so it costs no memory.
    np.empty(LARGE, np.int8)
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


def whole_sources(n_gpus: int, src: Int64, dst: Int64) -> Int64 | None:
    """The sources if these are all pairs of each, in order; else None. Routers may answer those faster."""
    others = n_gpus - 1
    if others < 1 or len(src) == 0 or len(src) % others:
        return None
    sources = src[::others]
    alike = (src.reshape(-1, others) == sources[:, None]).all()
    return sources if alike and np.array_equal(dst.reshape(-1, others), _others(sources, others)) else None


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
    """The table's paths for `pairs`, or for every pair, chunk by chunk; of pairs with many paths fewer at a
    time, so that no chunk has far more than MOST_HOPS."""
    chunks = (
        pair_chunks(table.n_gpus, chunk)
        if pairs is None
        else ((pairs[0][i : i + chunk], pairs[1][i : i + chunk]) for i in range(0, len(pairs[0]), chunk))
    )
    for src, dst in chunks:
        if len(src) <= PROBED:
            yield answer(table, src, dst)
            continue
        hops = len(answer(table, src[:PROBED], dst[:PROBED]).links) / PROBED * len(src)
        parts = max(1, ceil(hops / MOST_HOPS))
        size = -(-len(src) // parts)
        for low in range(0, len(src), size):
            yield answer(table, src[low : low + size], dst[low : low + size])


def all_paths(table: RouteTable) -> PathBatch:
    """The paths of every ordered pair, in the order of `all_pairs`."""
    return answer(table, *all_pairs(table.n_gpus))


def answer(table: RouteTable, src: Int64, dst: Int64) -> PathBatch:
    """The table's paths for these pairs; RouteError if it answers for others."""
    batch = table.paths(src, dst)
    if not batch.is_of(src, dst):
        raise RouteError(
            f"router {table.router} answered for other pairs than requested. "
            "Its batch must hold the requested pairs in their order."
        )
    return batch
