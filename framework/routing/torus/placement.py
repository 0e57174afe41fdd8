"""A fault of a torus in a canonical place, and the translations that leave it there."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.routing.torus.lattice import Lattice


@dataclass(frozen=True)
class CanonicalFault:
    """A torus with its fault moved to a canonical place, the same for all faults that are translations of it.

    (n_links,) each: `direction` of a link, up where a single cable leads both ways, -1 for links never used;
    `tail`, the GPU that it leaves. `origin`: the GPU that is GPU 0 once the fault is moved there. `fault`:
    (M,) direction * n + GPU of the dead links there, ascending. `orbit`: (n,) of the canonical GPUs, which of
    them the remaining translations map to each other, numbered in the order of the lowest GPU, which is its
    representative: `representatives` (R,). Source: Zu et al., NSDI'24 (one cube is the period when an OCS is
    down).
    """

    lattice: Lattice
    direction: Int64
    tail: Int64
    origin: int
    fault: Int64
    orbit: Int64
    representatives: Int64

    @classmethod
    def among(cls, lattice: Lattice, down: Bool, origins: Int64) -> Self:
        """The canonical place of the dead links `down` (n_links,): the least image under the translations
        that move one of `origins` (K,) to GPU 0. They form a group, or are the members of one that may give
        the least image."""
        n = lattice.n_gpus
        direction, tail = np.full((2, len(down)), -1, np.int64)
        direction[lattice.steps[::-1]] = np.arange(len(lattice.steps))[::-1, None]
        tail[lattice.steps] = np.arange(n)
        dead = np.flatnonzero(down & (direction >= 0))
        images = np.sort(direction[dead] * n + lattice.offset(origins[:, None], tail[dead][None]), axis=1)
        best = min(range(len(origins)), key=lambda i: images[i].tolist())
        same = origins[(images == images[best]).all(axis=1)]
        shifts = lattice.offset(origins[[best]], same)
        orbit, representatives = np.full(n, -1, np.int64), list[int]()
        for gpu in range(n):
            if orbit[gpu] < 0:
                orbit[lattice.translated(np.array([gpu]), shifts)] = len(representatives)
                representatives.append(gpu)
        return cls(
            lattice, direction, tail, int(origins[best]), images[best], orbit, np.array(representatives)
        )

    @cached_property
    def rows(self) -> Int64:
        """(n,): the orbit of each GPU as it really lies."""
        row: Int64 = self.orbit[self.lattice.offset(np.array([self.origin]), np.arange(self.lattice.n_gpus))]
        return row

    @property
    def down(self) -> Bool:
        """(n_links,): the dead links in the canonical place."""
        down = np.zeros(len(self.direction), bool)
        down[self.lattice.steps[np.divmod(self.fault, self.lattice.n_gpus)]] = True
        return down

    @property
    def classes(self) -> Int32:
        """(n_links,): which links of the canonical place the translations map to each other; -1 for unused
        ones."""
        used = np.flatnonzero(self.direction >= 0)
        key = self.direction[used] * len(self.representatives) + self.orbit[self.tail[used]]
        classes = np.full(len(self.direction), -1, np.int32)
        classes[used] = np.unique(key, return_inverse=True)[1]
        return classes
