"""A ring fabric as tracks: the links in the order in which each direction meets them on each wavelength."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.model.capabilities import require
from railweave.framework.routing.batches import spread

REQUIRES = ("ring", "wavelengths")

UP, DOWN = 0, 1


@dataclass(frozen=True)
class RingLinks:
    """`track` (2, w + 1, 2n): link ids from GPU 0 twice round, up (0) or down (1).

    Column w keeps to no wavelength: each link is the lowest that lives there. `dead_before` (2, w + 1, 2n +
    1): dead links before each place of the track. `both_ways`: whether down is used at all. On a track going
    down, GPU i is place -i mod n.
    """

    nodes: int
    wavelengths: int
    both_ways: bool
    track: Int32
    dead_before: Int32

    @classmethod
    def of(cls, fabric: Fabric, health: HealthSnapshot) -> Self:
        """Raises UnsupportedFabricError for other kinds, HealthError for health of another fabric,
        FabricError for a ring whose wavelengths do not all go round."""
        require(fabric, "optree", REQUIRES)
        health.check_fits(fabric)
        n = fabric.n_gpus
        names, column = np.unique(fabric.wavelength, return_inverse=True)
        w = len(names)
        heading = np.arange(fabric.n_links) % 2
        begin, end = fabric.link_src.astype(np.int64), fabric.link_dst.astype(np.int64)
        once = np.full((2, w, n), -1, np.int32)
        once[heading, column, np.where(heading == UP, begin, -begin % n)] = np.arange(fabric.n_links)
        if np.any(once < 0) or fabric.n_links != once.size or np.any(end != (begin + 1 - 2 * heading) % n):
            raise FabricError(
                f"{fabric.kind} of {n} GPUs and {w} wavelengths: each wavelength must have one cable from "
                f"every "
                "GPU i to GPU i + 1."
            )
        lives = (fabric.usable & ~health.down)[once]
        lowest = np.take_along_axis(once, lives.argmax(axis=1)[:, None], axis=1)
        track = np.concatenate((once, lowest), axis=1)
        dead = ~np.concatenate((lives, lives.any(axis=1, keepdims=True)), axis=1)
        dead_before = np.zeros((2, w + 1, 2 * n + 1), np.int32)
        dead_before[:, :, 1:] = np.cumsum(np.tile(dead, (1, 1, 2)), axis=2)
        return cls(n, w, bool(fabric.usable.all()), np.tile(track, (1, 1, 2)), dead_before)

    def distance(self, src: Int64, dst: Int64, heading: Int64) -> Int64:
        """Links from src to dst in that direction."""
        return np.where(heading == UP, dst - src, src - dst) % self.nodes

    def lives(self, src: Int64, dst: Int64, heading: Int64, column: Int64) -> Bool:
        """Whether no link is dead from src to dst in that direction on that column."""
        start = np.where(heading == UP, src, -src % self.nodes)
        passed = self.dead_before[heading, column, start + self.distance(src, dst, heading)]
        return np.asarray(passed == self.dead_before[heading, column, start], np.bool_)

    def hops(self, src: Int64, heading: Int64, column: Int64, length: Int64) -> Int32:
        """Flat: the links of each path in turn, `length` of them from src."""
        start = np.where(heading == UP, src, -src % self.nodes)
        track = (heading * (self.wavelengths + 1) + column) * 2 * self.nodes
        return self.track.ravel().take(spread(track + start, length))
