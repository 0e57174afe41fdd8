"""What there is to solve: a torus with its fault in a canonical place, and the translations that leave it
there."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.routing.torus.lattice import Lattice
from railweave.framework.routing.torus.legs import dimension_order
from railweave.framework.routing.torus.wild_first import Sequence, default_sequence

VERSION = 2
"""Raise it when candidates, their numbering, the canonical place of a fault or the format of files change."""


@dataclass(frozen=True)
class Problem:
    """A torus, its fault moved to the canonical place, and the shape of paths to choose from.

    `sequence`: of all pairs. (n_links,) each: `direction` of a link, up where a single cable leads both ways,
    -1 for links never used; `tail`, the GPU that it leaves. `origin`: the GPU that is GPU 0 once the fault is
    moved there. `fault`: (M,) direction * n + GPU of the dead links there, ascending: equal for faults that
    are translations of each other. `orbit`: (n,) of the canonical GPUs, which of them the remaining
    translations map to each other, numbered in the order of the lowest GPU, which is its representative:
    `representatives` (R,). Source: Zu et al., NSDI'24 (one cube is the period when an OCS is down).
    """

    lattice: Lattice
    sequence: Sequence
    direction: Int64
    tail: Int64
    origin: int
    fault: Int64
    orbit: Int64
    representatives: Int64

    @classmethod
    def of(cls, lattice: Lattice, down: Bool) -> Self:
        """The problem of a torus whose links `down` (n_links,) are dead.

        The axis with the most dead links goes first in dimension order, the others as when all is well, with
        wild hops along all but the first. Every other axis is then hopped before and after the one that lost
        most (sandwich rule).
        """
        n, lost = lattice.n_gpus, lattice.links_down(down)
        sequence = default_sequence(sorted(dimension_order(lattice.shape), key=lambda axis: -lost[axis]))
        direction, tail = np.full((2, len(down)), -1, np.int64)
        direction[lattice.steps[::-1]] = np.arange(len(lattice.steps))[::-1, None]
        tail[lattice.steps] = everyone = np.arange(n)
        dead = np.flatnonzero(down & (direction >= 0))
        if not len(dead):
            nobody, alike = np.empty(0, np.int64), np.zeros(n, np.int64)
            return cls(lattice, sequence, direction, tail, 0, nobody, alike, np.zeros(1, np.int64))
        # In its canonical place a fault has a link of its lowest direction at GPU 0; of those places, the
        # least.
        anchors = tail[dead[direction[dead] == direction[dead].min()]]
        images = [np.sort(direction[dead] * n + lattice.offset(at, tail[dead])) for at in anchors[:, None]]
        best = min(range(len(anchors)), key=lambda i: images[i].tolist())
        same = [np.array_equal(image, images[best]) for image in images]
        shifts = lattice.offset(anchors[[best]], anchors[same])
        label = np.min([lattice.translated(everyone, shift) for shift in shifts[:, None]], axis=0)
        representatives, orbit = np.unique(label, return_inverse=True)
        origin = int(anchors[best])
        return cls(lattice, sequence, direction, tail, origin, images[best], orbit, representatives)

    @property
    def key(self) -> str:
        """The problem as text: equal for faults that are translations of each other, different for all
        else."""
        lattice = self.lattice
        single = [bool((up == down).any()) for up, down in lattice.steps.reshape(-1, 2, lattice.n_gpus)]
        return (
            f"railweave ilp {VERSION}; shape {lattice.shape}; twist {lattice.twist.tolist()}; single cable "
            f"{single}; sequence {self.sequence}; down {self.fault.tolist()}"
        )

    @property
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
