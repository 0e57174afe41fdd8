"""What senders know of the packets that took each of their paths."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from railweave.framework.model.arrays import ArrayNoun, Float, Int64, spread
from railweave.framework.model.routes import PathBatch, same_paths


@dataclass(frozen=True, eq=False, slots=True)
class PathCounts(ArrayNoun):
    """Counts by pair and path. `paths`: those of the pairs that send, a pair of two jobs twice; `packets`
    (3, Q), a column a path: packets whose fate the sender knows, lost packets as far as it can tell, and
    packets that came marked (ECN).
    """

    paths: PathBatch
    packets: Float

    @classmethod
    def none(cls) -> Self:
        """Of no pair.

        >>> len(PathCounts.none().paths.src)
        0
        """
        pairs, start = np.empty(0, np.int64), np.zeros(1, np.int64)
        no_paths = PathBatch(pairs, pairs, start, np.empty(0), start, np.empty(0, np.int32))
        return cls(no_paths, np.empty((3, 0)))

    def after(self, before: Self) -> Self:
        """These counts added to earlier ones. A pair whose paths have changed meanwhile begins anew, and so
        do all where the pairs are others; what a sender considered lost may have arrived after all.

        >>> PathCounts.none().after(PathCounts.none()) == PathCounts.none()
        True
        """
        new, old = self.paths, before.paths
        if not (np.array_equal(new.src, old.src) and np.array_equal(new.dst, old.dst)):
            return self
        packets = self.packets.copy()
        kept = np.flatnonzero(same_paths(old, new))
        packets[:, _paths_of(new, kept)] += before.packets[:, _paths_of(old, kept)]
        return type(self)(new, np.maximum(packets, 0.0))


def _paths_of(batch: PathBatch, pairs: Int64) -> Int64:
    """The positions of all paths of these pairs."""
    return spread(batch.pair_start[pairs], np.diff(batch.pair_start)[pairs])
