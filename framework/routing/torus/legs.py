"""From displacements to hops: straight legs in a given order of the axes, as ranges on rings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from railweave.framework.model import PathBatch
from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.routing.batches import counting
from railweave.framework.routing.torus.displacement import Displacements
from railweave.framework.routing.torus.lattice import Lattice, Rings


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
        """(P,): whether any link of the path is marked; `marked_before` counts marked links before a
        position."""
        hit = np.zeros(len(self.first[0]), bool)
        for first, hops in zip(self.first, self.hops, strict=True):
            hit |= marked_before[first + hops] != marked_before[first]
        return hit

    def length(self) -> Int64:
        """(P,): the hops of all legs."""
        total: Int64 = np.sum(self.hops, axis=0, dtype=np.int64)
        return total

    def end(self, rings: Rings, src: Int64) -> Int64:
        """(P,): the GPU where the last leg ends; the source where there is no leg."""
        return rings.node[self.first[-1] + self.hops[-1]].astype(np.int64) if self.first else src

    def at(self, rows: Int64) -> Legs:
        """The paths at these positions."""
        return Legs([f[rows] for f in self.first], [h[rows] for h in self.hops], self.channel)

    def then(self, rest: Legs) -> Legs:
        """These legs, and behind them those of `rest`, which begin where these end."""
        return Legs(self.first + rest.first, self.hops + rest.hops, self.channel + rest.channel)


def dimension_order(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes from the longest to the shortest; equal ones in the order x, y, z."""
    return tuple(int(axis) for axis in np.argsort([-length for length in shape], kind="stable"))


def dimension_legs(
    lattice: Lattice, displacements: Displacements, order: Sequence[int], src: Int64, dst: Int64
) -> Legs:
    """One leg per axis, in this order."""
    signed = displacements.of(src, dst)
    return straight_legs(lattice, ((axis, signed[axis]) for axis in order), src)


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


def marked_before(rings: Rings, marked: Bool) -> Int32:
    """(positions + 1,): how many marked links precede each position of the rings. marked: (n_links,)."""
    return np.concatenate((np.zeros(1, np.int32), np.cumsum(marked[rings.link], dtype=np.int32)))


def batch_of(rings: Rings, src: Int64, dst: Int64, legs: Legs, reachable: Bool | None = None) -> PathBatch:
    """One path per pair, with the virtual channel of every hop: a leg's own, one more behind its dateline.

    Source: Zu et al., NSDI'24 (two channels); the dateline is Dally and Seitz's, reset on every axis.
    """
    shape = (len(src), len(legs.hops))
    first, hops = np.empty(shape, np.int64), np.empty(shape, np.int64)
    for leg in range(shape[1]):
        first[:, leg], hops[:, leg] = legs.first[leg], legs.hops[leg]
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
    signed = displacements.to_all(sources)
    legs = straight_legs(lattice, ((axis, signed[axis]) for axis in order), sources.reshape(-1, *[1] * axes))
    shape = (len(sources), *lattice.shape, axes)
    first, hops = np.empty(shape, np.int64), np.empty(shape, np.int64)
    for leg in range(axes):
        first[..., leg], hops[..., leg] = legs.first[leg], legs.hops[leg]
    ends, links, vc = _laid_out(lattice.rings, first.reshape(-1, axes), hops.reshape(-1, axes), legs.channel)
    hop_start = np.zeros(len(src) + 1, np.int64)
    hop_start[1:] = ends.reshape(len(sources), -1)[np.arange(lattice.n_gpus) != sources[:, None]]
    return PathBatch.in_row(src, dst, hop_start, links, vc)


def _laid_out(rings: Rings, first: Int64, hops: Int64, channel: list[int]) -> tuple[Int64, Int32, Int32]:
    """(end of each path (P,), links (H,), vc (H,)) of paths given as ranges (P, legs)."""
    count = hops.ravel()
    ends = np.cumsum(count)
    position = np.repeat(first.ravel() - ends + count, count)
    position += counting(len(position))
    links, vc = rings.hop.take(position).view(np.int32).reshape(-1, 2).T
    if any(channel):
        vc += np.repeat(np.tile(np.array(channel, np.int32), len(hops)), count)
    return ends[len(channel) - 1 :: len(channel)], links, vc
