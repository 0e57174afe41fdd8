"""What there is to solve: a torus with its fault in a canonical place, and the shape of the paths."""

from functools import cached_property
from typing import Self

import numpy as np

from railweave.framework.model.arrays import Bool
from railweave.framework.routing.torus.lattice import Lattice
from railweave.framework.routing.torus.legs import dimension_order
from railweave.framework.routing.torus.placement import CanonicalFault
from railweave.framework.routing.torus.wild_first import Sequence, default_sequence

VERSION = 2
"""Raise it when candidates, their numbering, the canonical place of a fault or the format of files change."""


class Problem(CanonicalFault):
    """A torus, its fault moved to the canonical place by any translation, and the shape of paths to choose
    from."""

    @classmethod
    def of(cls, lattice: Lattice, down: Bool) -> Self:
        """The problem of a torus whose links `down` (n_links,) are dead."""
        for links in lattice.steps:  # in the least place a link of the lowest direction is at GPU 0
            if down[links].any():
                return cls.among(lattice, down, np.flatnonzero(down[links]))
        return cls.among(lattice, down, np.arange(lattice.n_gpus))

    @cached_property
    def sequence(self) -> Sequence:
        """Of all pairs. The axis with the most dead links goes first in dimension order, the others as when
        all is well, with wild hops along all but the first. Every other axis is then hopped before and after
        the one that lost most (sandwich rule)."""
        shape, lost = self.lattice.shape, self.lattice.links_down(self.down)
        return default_sequence(sorted(dimension_order(shape), key=lambda axis: -lost[axis]))

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
