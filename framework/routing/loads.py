"""What a demand puts on every link when it follows a route table."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import RouteError
from railweave.framework.model import Fabric, PathBatch, RouteTable
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.routing.batches import CHUNK, pair_chunks


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
    """Loads of a demand between pairs: `amount[i]` goes from src[i] to dst[i], split by the paths' weights.

    Pairs with src = dst never enter the fabric. Chunks of pairs keep the memory bounded.
    """
    if not (len(src) == len(dst) == len(amount)):
        raise RouteError(f"demand of {len(src)} sources, {len(dst)} destinations and {len(amount)} amounts.")
    outside = np.flatnonzero(src != dst)
    chunks = (outside[first : first + chunk] for first in range(0, len(outside), chunk))
    return _sum(
        fabric, ((table.paths(src[at], dst[at]), np.asarray(amount[at], np.float64)) for at in chunks)
    )


def all_to_all_loads(
    fabric: Fabric, table: RouteTable, amount: float = 1.0, *, chunk: int = CHUNK
) -> LinkLoads:
    """Loads when every ordered pair exchanges `amount`."""
    chunks = pair_chunks(table.n_gpus, chunk)
    return _sum(fabric, ((table.paths(src, dst), np.full(len(src), float(amount))) for src, dst in chunks))


def _sum(fabric: Fabric, parts: Iterator[tuple[PathBatch, Float]]) -> LinkLoads:
    load, lost = np.zeros(fabric.n_links), 0.0
    lost_pairs = [np.empty((0, 2), np.int64)]
    for batch, amount in parts:
        share = np.repeat(amount, np.diff(batch.pair_start)) * batch.weight
        load += np.bincount(batch.links, np.repeat(share, np.diff(batch.hop_start)), fabric.n_links)
        none = (np.diff(batch.pair_start) == 0) & (amount > 0)
        lost += float(amount[none].sum())
        lost_pairs.append(np.stack((batch.src[none], batch.dst[none]), axis=1))
    return LinkLoads(load, np.concatenate(lost_pairs), lost)
