"""From GPUs to hops: the shortest displacement between two, ties by parity, and straight legs in a given
order of the axes, as ranges on rings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from typing import Self

import numpy as np

from railweave.framework.model import PathBatch
from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.routing.torus.lattice import AXES, Lattice, UnrolledRings

FAR = 2
"""Multiples of each lattice vector tried; minimal displacements never need more on the shapes there are."""


class Displacements:
    """The displacement that each pair takes, (axes, P) signed hops.

    Plain torus: the shorter direction of each ring; half way round, up if the source's coordinate on that
    axis is even, down if it is odd (Zu et al., NSDI'24). Twisted torus: of all displacements of least 1-norm
    that lead there; of tied ones the choice alternates with the sum of the source's coordinates (ours: the
    source leaves it to its optimiser).
    """

    def __init__(self, lattice: Lattice) -> None:
        self._lattice = lattice
        if lattice.is_plain:
            self._signed = [_signed(length) for length in lattice.shape]
            # Where a source's row begins, less what the destination's coordinate adds to it.
            self._row = [
                (here & 1) * (2 * length - 1) - here + (length - 1)
                for length, here in zip(lattice.shape, lattice.coordinates, strict=True)
            ]
        else:
            self._start, self._vectors = shortest_vectors(lattice)
            self._parity = lattice.coordinates.sum(axis=0)

    def of(self, src: Int64, dst: Int64) -> list[Int64]:
        """For each axis (P,): signed hops."""
        if self._lattice.is_plain:
            return [
                table.take(row.take(src) + where.take(dst))
                for table, row, where in zip(self._signed, self._row, self._lattice.coordinates, strict=True)
            ]
        place = self._lattice.offset(src, dst)
        start = self._start[place]
        choice = start + self._parity[src] % (self._start[place + 1] - start)
        return list(self._vectors[:, choice])

    def to_all(self, sources: Int64) -> list[Int64]:
        """For each axis: signed hops from each source to every GPU. (S, 1, .., length of the axis, .., 1) on
        plain tori, by coordinates; (S, n) on twisted ones, whose axes depend on each other."""
        shape, n = self._lattice.shape, self._lattice.n_gpus
        if not self._lattice.is_plain:
            signed = self.of(np.repeat(sources, n), np.tile(np.arange(n), len(sources)))
            return [hops.reshape(-1, n) for hops in signed]
        return [
            table.take(row.take(sources)[:, None] + np.arange(length)).reshape(
                -1, *(length if other == axis else 1 for other in range(len(shape)))
            )
            for axis, (table, row, length) in enumerate(zip(self._signed, self._row, shape, strict=True))
        ]

    @cached_property
    def neutral(self) -> Int64:
        """The GPUs to which GPU 0 can be moved so that all choices between ties move with it: on axes of even
        length by even steps. Twisted tori, where ties of three exist, have none but GPU 0."""
        if not self._lattice.is_plain:
            return np.zeros(1, np.int64)
        odd = np.array(self._lattice.shape)[:, None] % 2
        return np.flatnonzero(((self._lattice.coordinates % 2 == 0) | odd.astype(bool)).all(axis=0))

    def ties(self, src: int, dst: int) -> tuple[str, ...]:
        """What decided for this pair where two displacements are equally short, as words."""
        source, destination = self._lattice.coordinates[:, src], self._lattice.coordinates[:, dst]
        if self._lattice.is_plain:
            return tuple(
                f"{AXES[axis]}: half way round {length}, source at {AXES[axis]} = {source[axis]}, so "
                + ("up (even)" if source[axis] % 2 == 0 else "down (odd)")
                for axis, length in enumerate(self._lattice.shape)
                if 2 * ((destination[axis] - source[axis]) % length) == length
            )
        place = int(self._lattice.offset(np.array([src]), np.array([dst]))[0])
        if self._start[place + 1] - self._start[place] == 1:
            return ()
        return (f"equally short displacements: by the sum of the source's coordinates, {int(source.sum())}",)


def signed_text(displacement: Sequence[Int64] | Int64) -> str:
    """`x +2, y 0, z -1`: the displacement of one pair, one number per axis."""
    signed = np.ravel(displacement).tolist()
    return ", ".join(f"{AXES[axis]} {f'{hops:+d}' if hops else '0'}" for axis, hops in enumerate(signed))


def _signed(length: int) -> Int64:
    """Signed hops by [parity of the source, coordinate difference + length - 1], flat."""
    ahead = np.arange(-(length - 1), length) % length
    up = np.where(2 * ahead <= length, ahead, ahead - length)
    down = np.where(2 * ahead < length, ahead, ahead - length)
    return np.concatenate((up, down))


def shortest_vectors(lattice: Lattice) -> tuple[Int64, Int64]:
    """(start (n + 1,), vectors (axes, V)): every minimal displacement from GPU 0 to each GPU, in descending
    order."""
    multiples = np.array(list(product(range(-FAR, FAR + 1), repeat=len(lattice.shape))))
    offsets = multiples @ (np.diag(lattice.shape) - lattice.twist)
    displacement = lattice.coordinates + offsets[:, :, None]
    length = np.abs(displacement).sum(axis=1)
    tried, node = np.nonzero(length == length.min(axis=0))
    vectors = displacement[tried, :, node].T
    order = np.lexsort((*-vectors[::-1], node))
    return np.searchsorted(node[order], np.arange(lattice.n_gpus + 1)), vectors[:, order]


@dataclass(frozen=True)
class Legs:
    """Paths of straight legs in the order of travel: where on the rings each leg begins, and its hops.

    `first`, `hops`: (P,) each, one entry per leg. `channel`: the virtual channel of each leg before its
    dateline.
    """

    first: list[Int64]
    hops: list[Int64]
    channel: list[int]

    def crosses(self, marked_before: Int32) -> Bool:
        """Whether any link of a path is marked, in the shape of the legs; `marked_before` counts marked links
        before a position."""
        legs = zip(self.first, self.hops, strict=True)
        hits = (marked_before.take(first + hops) != marked_before.take(first) for first, hops in legs)
        return np.asarray(reduce(np.logical_or, hits))

    def length(self) -> Int64:
        """(P,): the hops of all legs."""
        total: Int64 = np.sum(self.hops, axis=0, dtype=np.int64)
        return total

    def end(self, rings: UnrolledRings, src: Int64) -> Int64:
        """(P,): the GPU where the last leg ends; the source where there is no leg."""
        return rings.node[self.first[-1] + self.hops[-1]].astype(np.int64) if self.first else src

    def then(self, rest: Self) -> Self:
        """These legs, and behind them those of `rest`, which begin where these end."""
        return type(self)(self.first + rest.first, self.hops + rest.hops, self.channel + rest.channel)


def dimension_order(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes from the longest to the shortest; equal ones in the order x, y, z."""
    return tuple(int(axis) for axis in np.argsort([-length for length in shape], kind="stable"))


def dimension_legs(
    lattice: Lattice, displacements: Displacements, order: Sequence[int], src: Int64, dst: Int64
) -> Legs:
    """One leg per axis, in this order."""
    signed = displacements.of(src, dst)
    return straight_legs(lattice, ((axis, signed[axis]) for axis in order), src)


def legs_from(lattice: Lattice, displacements: Displacements, order: Sequence[int], sources: Int64) -> Legs:
    """One leg per axis, in this order, from each source to every GPU, in shapes that broadcast as those of
    `to_all`."""
    signed = displacements.to_all(sources)
    start = sources.reshape(-1, *[1] * (signed[0].ndim - 1))
    return straight_legs(lattice, ((axis, signed[axis]) for axis in order), start)


def straight_legs(lattice: Lattice, moves: Iterable[tuple[int, Int64]], src: Int64, channel: int = 0) -> Legs:
    """A leg per move (axis, signed hops (P,)), starting at `src`; arrays of any shapes that broadcast."""
    rings, n = lattice.rings, lattice.n_gpus
    firsts: list[Int64] = []
    lengths: list[Int64] = []
    for axis, signed in moves:
        node = rings.node.take(firsts[-1] + lengths[-1]) if firsts else src
        firsts.append(rings.at.take((2 * axis + (signed < 0)) * n + node))
        lengths.append(np.abs(signed))
    return Legs(firsts, lengths, [channel] * len(firsts))


def marked_before(rings: UnrolledRings, marked: Bool) -> Int32:
    """(positions + 1,): how many marked links precede each position of the rings. marked: (n_links,)."""
    return np.concatenate((np.zeros(1, np.int32), np.cumsum(marked[rings.link], dtype=np.int32)))


def batch_of(
    rings: UnrolledRings, src: Int64, dst: Int64, legs: Legs, reachable: Bool | None = None
) -> PathBatch:
    """One path per pair, with the virtual channel of every hop: a leg's own, one more behind its dateline.

    Source: Zu et al., NSDI'24 (two channels); the dateline is Dally and Seitz's, reset on every axis.
    """
    first, hops = _side_by_side(legs.first, (len(src),)), _side_by_side(legs.hops, (len(src),))
    if reachable is not None:
        hops[~reachable] = 0
    ends, links, vc = _laid_out(rings, first, hops, legs.channel)
    return PathBatch.in_row(
        src, dst, np.concatenate((np.zeros(1, np.int64), ends)), links, vc, reachable=reachable
    )


def batch_from(
    lattice: Lattice,
    displacements: Displacements,
    order: Sequence[int],
    src: Int64,
    dst: Int64,
    sources: Int64,
) -> PathBatch:
    """As `batch_of` where src, dst are all pairs of `sources`: what a plane of GPUs shares is looked up once.

    Plain tori only: the axes of twisted ones depend on each other.
    """
    axes = len(lattice.shape)
    legs = legs_from(lattice, displacements, order, sources)
    shape = (len(sources), *lattice.shape)
    first, hops = _side_by_side(legs.first, shape), _side_by_side(legs.hops, shape)
    ends, links, vc = _laid_out(lattice.rings, first.reshape(-1, axes), hops.reshape(-1, axes), legs.channel)
    hop_start = np.zeros(len(src) + 1, np.int64)
    hop_start[1:] = ends.reshape(len(sources), -1)[np.arange(lattice.n_gpus) != sources[:, None]]
    return PathBatch.in_row(src, dst, hop_start, links, vc)


def _side_by_side(legs: list[Int64], shape: tuple[int, ...]) -> Int64:
    """(*shape, legs): what np.stack makes of them, broadcast; quicker for few pairs."""
    table = np.empty((*shape, len(legs)), np.int64)
    for leg, values in enumerate(legs):
        table[..., leg] = values
    return table


def _laid_out(
    rings: UnrolledRings, first: Int64, hops: Int64, channel: list[int]
) -> tuple[Int64, Int32, Int32]:
    """(end of each path (P,), links (H,), vc (H,)) of paths given as ranges (P, legs)."""
    count = hops.ravel()
    ends = np.cumsum(count)
    position = np.repeat(first.ravel() - ends + count, count)
    position += np.arange(len(position))
    links, vc = rings.hop.take(position).view(np.int32).reshape(-1, 2).T
    if any(channel):
        vc += np.repeat(np.tile(np.array(channel, np.int32), len(hops)), count)
    return ends[len(channel) - 1 :: len(channel)], links, vc
