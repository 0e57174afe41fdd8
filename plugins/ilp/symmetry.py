"""Translations of a torus: where a fault lies once moved to its canonical place, and which moves leave it
there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.routing.torus.lattice import Lattice


def directions(lattice: Lattice, n_links: int) -> Int64:
    """(n_links,): the direction of each link, up where a single cable leads both ways, -1 for links never
    used."""
    direction = np.full(n_links, -1, np.int64)
    for number in reversed(range(len(lattice.steps))):
        direction[lattice.steps[number]] = number
    return direction


@dataclass(frozen=True)
class Symmetry:
    """A fault in its canonical place, and the translations that leave it as it is.

    `origin`: the GPU that is GPU 0 once the fault is moved there. `fault`: (M,) direction * n + GPU of the
    dead links there, ascending: equal for faults that are translations of each other. `orbit`: (n,) of the
    canonical GPUs, which of them the remaining translations map to each other, numbered in the order of the
    lowest GPU, which is its representative: `representatives` (R,). Source: Zu et al., NSDI'24 (one cube is
    the period when an OCS is down).
    """

    origin: int
    fault: Int64
    orbit: Int64
    representatives: Int64

    @classmethod
    def of(cls, lattice: Lattice, down: Bool) -> Symmetry:
        n = lattice.n_gpus
        direction = directions(lattice, len(down))
        dead = np.flatnonzero(down & (direction >= 0))
        if not len(dead):
            return cls(0, np.empty(0, np.int64), np.zeros(n, np.int64), np.zeros(1, np.int64))
        heading, tail = direction[dead], _tails(lattice, len(down))[dead]
        # In its canonical place a fault has a link of its lowest direction at GPU 0; of those places, the
        # least.
        anchors = tail[heading == heading.min()]
        images = [np.sort(heading * n + lattice.offset(np.full(len(tail), at), tail)) for at in anchors]
        best = min(range(len(anchors)), key=lambda i: images[i].tolist())
        same = [i for i, image in enumerate(images) if np.array_equal(image, images[best])]
        shifts = lattice.offset(np.full(len(same), anchors[best]), anchors[same])
        everyone = np.arange(n)
        label = np.min([lattice.translated(everyone, np.full(n, shift)) for shift in shifts], axis=0)
        representatives, orbit = np.unique(label, return_inverse=True)
        return cls(int(anchors[best]), images[best], orbit, representatives)

    def rows(self, lattice: Lattice) -> Int64:
        """(n,): the orbit of each GPU as it really lies."""
        everyone = np.arange(lattice.n_gpus)
        row: Int64 = self.orbit[lattice.offset(np.full(len(everyone), self.origin), everyone)]
        return row

    def down(self, lattice: Lattice, n_links: int) -> Bool:
        """(n_links,): the dead links in the canonical place."""
        down = np.zeros(n_links, bool)
        heading, tail = np.divmod(self.fault, lattice.n_gpus)
        down[lattice.steps[heading, tail]] = True
        return down

    def classes(self, lattice: Lattice, n_links: int) -> Int32:
        """(n_links,): which links of the canonical place the translations map to each other; -1 for unused
        ones."""
        direction = directions(lattice, n_links)
        used = np.flatnonzero(direction >= 0)
        key = direction[used] * len(self.representatives) + self.orbit[_tails(lattice, n_links)[used]]
        classes = np.full(n_links, -1, np.int32)
        classes[used] = np.unique(key, return_inverse=True)[1]
        return classes


def _tails(lattice: Lattice, n_links: int) -> Int64:
    """(n_links,): the GPU that each used link leaves."""
    tail = np.full(n_links, -1, np.int64)
    tail[lattice.steps] = np.arange(lattice.n_gpus)
    return tail
