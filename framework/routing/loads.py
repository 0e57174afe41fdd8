"""What a demand puts on every link when it follows a route table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from railweave.framework.model import Fabric, RouteTable
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.routing.batches import CHUNK, pair_chunks, same_paths

Demanded = Iterator[tuple[Int64, Int64, Float]]
"""src, dst and amount of pairs, chunk by chunk."""


@dataclass(frozen=True, eq=False)
class LinkLoads:
    """`load` (n_links,): in the demand's unit; `unreachable` (M, 2): pairs [src, dst] with a demand and no
    path; `unroutable`: their demand together."""

    load: Float
    unreachable: Int64
    unroutable: float


def link_loads(
    fabric: Fabric, table: RouteTable, src: Int64, dst: Int64, amount: Float, *, chunk: int = CHUNK
) -> LinkLoads:
    """Loads of a demand between pairs: `amount[i]` from src[i] to dst[i], split by the paths' weights."""
    return loads_of(fabric, [table], between(src, dst, amount, chunk=chunk))[0][0]


def all_to_all_loads(
    fabric: Fabric, table: RouteTable, amount: float = 1.0, *, chunk: int = CHUNK
) -> LinkLoads:
    """Loads when every ordered pair exchanges `amount`."""
    return loads_of(fabric, [table], everywhere(table.n_gpus, amount, chunk=chunk))[0][0]


def between(src: Int64, dst: Int64, amount: Float, *, chunk: int = CHUNK) -> Demanded:
    """A demand between pairs, in chunks that bound the memory; pairs of equal ends never enter it."""
    outside = np.flatnonzero(src != dst)
    chunks = (outside[first : first + chunk] for first in range(0, len(outside), chunk))
    return ((src[at], dst[at], np.asarray(amount[at], np.float64)) for at in chunks)


def everywhere(n_gpus: int, amount: float = 1.0, *, chunk: int = CHUNK) -> Demanded:
    """`amount` between all ordered pairs."""
    return ((src, dst, np.full(len(src), float(amount))) for src, dst in pair_chunks(n_gpus, chunk))


def loads_of(fabric: Fabric, tables: Sequence[RouteTable], demanded: Demanded) -> tuple[list[LinkLoads], int]:
    """What a demand puts on the links by each table, and how many pairs take other paths by the last one than
    by the first; pairs without a path in either are not counted."""
    load = np.zeros((len(tables), fabric.n_links))
    cut: list[list[Int64]] = [[np.empty((0, 2), np.int64)] for _ in tables]
    lost, moved = [0.0] * len(tables), 0
    for src, dst, amount in demanded:
        answers = [table.paths(src, dst) for table in tables]
        for i, batch in enumerate(answers):
            share = np.repeat(amount, np.diff(batch.pair_start)) * batch.weight
            load[i] += np.bincount(batch.links, np.repeat(share, np.diff(batch.hop_start)), fabric.n_links)
            none = (np.diff(batch.pair_start) == 0) & (amount > 0)
            lost[i] += float(amount[none].sum())
            cut[i].append(np.stack((batch.src[none], batch.dst[none]), axis=1))
        first, last = answers[0], answers[-1]
        if first is not last:
            both = (np.diff(first.pair_start) > 0) & (np.diff(last.pair_start) > 0)
            moved += int((both & ~same_paths(first, last)).sum())
    sums = zip(load, cut, lost, strict=True)
    return [LinkLoads(links, np.concatenate(pairs), amount) for links, pairs, amount in sums], moved
