"""What a route table holds, once every path of it is proved sound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railweave.framework.model import Fabric, HealthSnapshot, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.framework.routing.batches import batches, unreachable
from railweave.framework.routing.table_checks import check_batch


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
    """What the table holds for `pairs` (all by default). Raises RouteError as `check_batch` does."""
    lost = [np.empty((0, 2), np.int64)]
    n_pairs = n_paths = n_hops = longest = 0
    for batch in batches(table, pairs):
        check_batch(fabric, table.router, batch, health)
        lost.append(unreachable(batch))
        assert allow_unreachable or not len(lost[-1]), f"no path: {lost[-1].tolist()}"
        n_pairs, n_paths = n_pairs + len(batch.src), n_paths + len(batch.weight)
        n_hops = n_hops + len(batch.links)
        longest = max(longest, int(np.diff(batch.hop_start).max(initial=0)))
    return TableReport(n_pairs, n_paths, n_hops, longest, np.concatenate(lost))
