"""Wild-first sequences: which axes get a wild hop, in which order, and which faults that avoids; and the wild
hops of pairs whose dimension-order path is broken: every choice of signs, ranked."""

from collections.abc import Sequence as Many
from dataclasses import dataclass
from itertools import product

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.routing.batches import spread, starts
from railweave.framework.routing.torus.lattice import AXES, Lattice
from railweave.framework.routing.torus.legs import Displacements, Legs, dimension_legs, straight_legs

WILD_CHANNEL = 2
"""Wild hops have a channel class of their own: with it and one order the dependencies have no cycle."""

Signs = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    """At most one wild hop along each axis of `wild`, then dimension order along `order`.

    Written as the source does, wild hops in lower case: `zyXYZ`. Source: Zu et al., NSDI'24.
    """

    wild: tuple[int, ...]
    order: tuple[int, ...]

    def __str__(self) -> str:
        return "".join(AXES[axis] for axis in self.wild) + "".join(AXES[axis].upper() for axis in self.order)

    @property
    def is_ordered(self) -> bool:
        """Whether the wild hops come in the reverse of the dimension order (order rule)."""
        return self.wild == tuple(axis for axis in reversed(self.order) if axis in self.wild)


def parse_sequence(text: str) -> Sequence:
    """The sequence written as `text`. Raises ExperimentError for anything else; does not check the order
    rule."""
    wild = [c for c in text if c.islower()]
    order = [c.lower() for c in text if c.isupper()]
    if (
        not text.isalpha()
        or not text.startswith("".join(wild))
        or not set(order) >= set(wild)
        or not set(order) <= set(AXES)
        or len(set(wild)) != len(wild)
        or len(set(order)) != len(order)
    ):
        raise ExperimentError(
            f"sequence {text!r}: write the wild hops in lower case, then every axis once in upper case, "
            f"such as "
            "zyXYZ: one hop along z and one along y at most, then X, Y, Z."
        )
    return Sequence(tuple(map(AXES.index, wild)), tuple(map(AXES.index, order)))


def default_sequence(order: Many[int]) -> Sequence:
    """The source's sequence for a dimension order: wild hops along all axes but the first, in reverse."""
    return Sequence(tuple(reversed(order[1:])), tuple(order))


def order_around(healthy: Many[int], dead_links: Many[int]) -> tuple[int, ...]:
    """The dimension order to use when axis a has `dead_links[a]` dead links.

    A fault on the last axis cannot be avoided, so the axis with the fewest dead links goes last; among equals
    the one that is last when all is well. The others keep their order.
    """
    last = min(reversed(healthy), key=lambda axis: dead_links[axis])
    return (*(axis for axis in healthy if axis != last), last)


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
class Options:
    """The paths that pairs may take; those of one pair have equally many hops and stand in the order of their
    wild hops, then of their signs.

    `start` (P + 1,): which are a pair's; `number` (C,): the choice of wild hops of each. `hop_start` (P +
    1,): the hops of all paths of a pair, one path after the other, in `links` (H,).
    """

    start: Int64
    number: Int64
    hop_start: Int64
    links: Int32


@dataclass(frozen=True)
class WildFirst:
    """Wild-first paths on a lattice. `dead_before`: dead links before each position of the rings."""

    lattice: Lattice
    displacements: Displacements
    sequence: Sequence
    dead_before: Int32

    def dimension_order(self, src: Int64, dst: Int64) -> Legs:
        return dimension_legs(self.lattice, self.displacements, self.sequence.order, src, dst)

    def candidate(self, signs: Signs | Int64, src: Int64, dst: Int64) -> Legs:
        """The paths with these wild hops, of all pairs or (P, wild axes) of each; legs without a hop stay, so
        that all candidates have equal legs.

        The dimension-order phase begins at the end of the wild hops, and so do its ties.
        """
        hops = np.broadcast_to(signs, (len(src), len(self.sequence.wild)))
        wild = wild_legs(self.lattice, self.sequence, hops, src)
        return wild.then(self.dimension_order(wild.end(self.lattice.rings, src), dst))

    def fits(self, signs: Signs, legs: Legs) -> tuple[Bool, Bool]:
        """(live, simple): whether each path crosses no dead link, and whether it meets no node twice."""
        return ~legs.crosses(self.dead_before), ~self._returns(signs, legs)

    def options(self, src: Int64, dst: Int64) -> "Options":
        """The live and simple paths of the fewest hops of each pair."""
        every = choices(self.sequence)
        owner, number, first, hops = list[Int64](), list[Int64](), list[Int64](), list[Int64]()
        for rank in sorted(range(len(every)), key=lambda rank: sum(map(abs, every[rank]))):
            legs = self.candidate(every[rank], src, dst)
            live, simple = self.fits(every[rank], legs)
            fitting = np.flatnonzero(live & simple)
            owner.append(fitting)
            number.append(np.full(len(fitting), rank))
            first.append(np.stack(legs.first, axis=1)[fitting])
            hops.append(np.stack(legs.hops, axis=1)[fitting])
        pair, legs_hops = np.concatenate(owner), np.concatenate(hops)
        length = legs_hops.sum(axis=1)
        least = np.full(len(src), np.iinfo(np.int64).max)
        np.minimum.at(least, pair, length)
        some = np.flatnonzero(length == least[pair])
        some = some[np.argsort(pair[some], kind="stable")]
        position = spread(np.concatenate(first)[some].ravel(), legs_hops[some].ravel())
        return Options(
            starts(np.bincount(pair[some], minlength=len(src))),
            np.concatenate(number)[some],
            starts(np.bincount(pair[some], length[some], len(src)).astype(np.int64)),
            self.lattice.rings.link[position],
        )

    def _returns(self, signs: Signs, legs: Legs) -> Bool:
        """(P,): whether the dimension-order phase comes back to a node of the wild phase.

        What was left by w wild hops can only be met within the first w hops back: those are a shortest path.
        """
        rings, n_wild = self.lattice.rings, len(self.sequence.wild)
        left_behind = [rings.node[legs.first[leg]] for leg in range(n_wild) if signs[leg]]
        back = np.zeros(len(legs.first[0]), bool)
        for after in range(1, len(left_behind) + 1):
            node, left = rings.node[legs.first[n_wild]], np.full(len(back), after)
            for first, hops in zip(legs.first[n_wild:], legs.hops[n_wild:], strict=True):
                step = np.minimum(left, hops)
                node = np.where(step > 0, rings.node[first + step], node)
                left = left - step
            back |= np.any([node == earlier for earlier in left_behind], axis=0)
        return back
