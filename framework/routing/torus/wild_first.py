"""The wild hops of pairs whose dimension-order path is broken: every choice of signs, ranked."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.routing.torus.displacement import Displacements
from railweave.framework.routing.torus.lattice import AXES, Lattice
from railweave.framework.routing.torus.legs import Legs, dimension_legs, straight_legs
from railweave.framework.routing.torus.sequences import Sequence

WILD_CHANNEL = 2
"""Wild hops have a channel class of their own: with it and one order the dependencies have no cycle."""

BLOCK = 1 << 16
"""Broken pairs worked on at a time; bounds the memory."""

Signs = tuple[int, ...]


def choices(sequence: Sequence) -> list[Signs]:
    """Every choice of signs for the wild axes: 0 none, 1 up, -1 down; the earlier wins a tie, the first has
    none."""
    return list(product((0, 1, -1), repeat=len(sequence.wild)))


def wild_legs(lattice: Lattice, sequence: Sequence, signs: Int64, src: Int64) -> Legs:
    """The wild hops: a leg of one hop or none per wild axis. signs: (P, wild axes)."""
    return straight_legs(lattice, zip(sequence.wild, signs.T, strict=True), src, WILD_CHANNEL)


def vector_legs(lattice: Lattice, sequence: Sequence, signs: Int64, vector: Int64, src: Int64) -> Legs:
    """The wild hops `signs` (P, wild axes), then the displacement `vector` (axes, P) in dimension order."""
    wild = wild_legs(lattice, sequence, signs, src)
    moves = ((axis, vector[axis]) for axis in sequence.order)
    return wild.then(straight_legs(lattice, moves, wild.end(lattice.rings, src)))


def wild_text(sequence: Sequence, signs: Signs) -> str:
    """`z+ y-`, or `none`."""
    hops = zip(sequence.wild, signs, strict=True)
    return " ".join(f"{AXES[axis]}{'+' if sign > 0 else '-'}" for axis, sign in hops if sign) or "none"


@dataclass(frozen=True)
class WildFirst:
    """Wild-first paths on a lattice. `dead_before`: dead links before each position of the rings."""

    lattice: Lattice
    displacements: Displacements
    sequence: Sequence
    dead_before: Int32

    def dimension_order(self, src: Int64, dst: Int64) -> Legs:
        return dimension_legs(self.lattice, self.displacements, self.sequence.order, src, dst)

    def candidate(self, signs: Signs, src: Int64, dst: Int64) -> Legs:
        """The path with these wild hops; legs without a hop stay, so that all candidates have equal legs.

        The dimension-order phase begins at the end of the wild hops, and so do its ties.
        """
        wild = wild_legs(self.lattice, self.sequence, np.tile(signs, (len(src), 1)), src)
        return wild.then(self.dimension_order(wild.end(self.lattice.rings, src), dst))

    def fits(self, signs: Signs, legs: Legs) -> tuple[Bool, Bool]:
        """(live, whole): whether each path crosses no dead link, and whether it meets no node twice."""
        return ~legs.crosses(self.dead_before), ~self._returns(signs, legs)

    def best(self, src: Int64, dst: Int64) -> tuple[Int64, Legs]:
        """(choice (P,), legs): the first by hops, then wild hops, then order of signs; choice -1 where none
        fits."""
        n_legs = len(self.sequence.wild) + len(self.sequence.order)
        choice = np.full(len(src), -1, np.int64)
        first, hops = np.zeros((n_legs, len(src)), np.int64), np.zeros((n_legs, len(src)), np.int64)
        for low in range(0, len(src), BLOCK):
            part = slice(low, low + BLOCK)
            rank = np.full(len(src[part]), np.iinfo(np.int64).max)
            for number, signs in enumerate(choices(self.sequence)):
                legs = self.candidate(signs, src[part], dst[part])
                live, whole = self.fits(signs, legs)
                worth = np.where(live & whole, legs.length() * (n_legs + 1) + sum(map(abs, signs)), rank)
                rows = np.flatnonzero(worth < rank)
                rank[rows], choice[low + rows] = worth[rows], number
                for leg in range(n_legs):
                    first[leg, low + rows] = legs.first[leg][rows]
                    hops[leg, low + rows] = legs.hops[leg][rows]
        channels = [WILD_CHANNEL] * len(self.sequence.wild) + [0] * len(self.sequence.order)
        return choice, Legs(list(first), list(hops), channels)

    def _returns(self, signs: Signs, legs: Legs) -> Bool:
        """(P,): whether the dimension-order phase comes back to a node of the wild phase.

        What was left by w wild hops can only be met within the first w hops back: those are a shortest path.
        """
        back = np.zeros(len(legs.first[0]), bool)
        n_wild = len(self.sequence.wild)
        used = [leg for leg in range(n_wild) if signs[leg]]
        met = [self.lattice.rings.node[legs.first[leg]] for leg in used]
        for node in self._first_nodes(legs, n_wild, len(used)):
            for earlier in met:
                back |= node == earlier
        return back

    def _first_nodes(self, legs: Legs, skip: int, count: int) -> Iterator[Int64]:
        """The nodes after 1 .. count hops of the legs behind `skip`; the last one again where there are
        fewer."""
        rings = self.lattice.rings
        for after in range(1, count + 1):
            node = rings.node[legs.first[skip]].astype(np.int64)
            left = np.full(len(node), after)
            for first, hops in zip(legs.first[skip:], legs.hops[skip:], strict=True):
                step = np.minimum(left, hops)
                node = np.where(step > 0, rings.node[first + step], node)
                left = left - step
            yield node
