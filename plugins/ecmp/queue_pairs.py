"""The paths of a pair's queue pairs, several of which may take the same one."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.model import PathBatch
from railweave.framework.routing.batches import starts


def together(parts: Sequence[PathBatch]) -> PathBatch:
    """The paths of all `parts`, which are of the same pairs and have one path or none for each: every path
    once, its weight how many of them take it. Pairs without a path have none in any."""
    first, n, longest = (
        parts[0],
        len(parts[0].src),
        max(int(np.diff(p.hop_start).max(initial=0)) for p in parts),
    )
    has = np.diff(first.pair_start) > 0
    rows = np.full((len(parts), n, longest), -1, np.int32)
    for row, part in zip(rows, parts, strict=True):
        length = np.diff(part.hop_start)
        place = np.arange(longest) < length[:, None]
        filled = np.full((len(length), longest), -1, np.int32)
        filled[place] = part.links
        row[has] = filled
    original = np.full((len(parts), n), -1)  # of each pair's queue pairs, the first with the same path
    for number, row in enumerate(rows):
        original[(rows == row).all(axis=2) & (original < 0)] = number
    weight = np.stack([(original == number).sum(axis=0) for number in range(len(parts))], axis=1) / len(parts)
    kept = (weight > 0) & has[:, None]
    hops = rows.transpose(1, 0, 2)[kept]
    return PathBatch(
        first.src,
        first.dst,
        starts(kept.sum(axis=1)),
        weight[kept],
        starts((hops >= 0).sum(axis=1)),
        hops[hops >= 0],
    )
