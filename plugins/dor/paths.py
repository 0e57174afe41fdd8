"""From displacements to hops: straight ways in a given order of the axes, as ranges on rings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from railweave.framework.model import PathBatch
from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.routing.batches import counting
from railweave.plugins.dor.displacement import Displacements
from railweave.plugins.dor.lattice import Lattice, Rings


@dataclass(frozen=True)
class Ways:
    """Straight ways in the order of travel, one array per leg: where on the rings it begins, and its hops.

    `first`, `hops`: (P,) each, one entry per leg. `channel`: the virtual channel of each leg before its dateline.
    """

    first: list[Int64]
    hops: list[Int64]
    channel: list[int]

    def crosses(self, marked_before: Int32) -> Bool:
        """(P,): whether any link of the way is marked; `marked_before` counts marked links before a position."""
        hit = np.zeros(len(self.first[0]), bool)
        for first, hops in zip(self.first, self.hops, strict=True):
            hit |= marked_before[first + hops] != marked_before[first]
        return hit

    def length(self) -> Int64:
        total: Int64 = np.sum(self.hops, axis=0, dtype=np.int64)
        return total

    def at(self, rows: Int64) -> Ways:
        return Ways([f[rows] for f in self.first], [h[rows] for h in self.hops], self.channel)


def dimension_ways(
    lattice: Lattice, displacements: Displacements, order: Sequence[int], src: Int64, dst: Int64
) -> Ways:
    """One leg per axis, in this order."""
    return straight_ways(lattice, displacements.of(src, dst), order, src)


def straight_ways(lattice: Lattice, signed: list[Int64], order: Sequence[int], src: Int64) -> Ways:
    """The legs of these displacements (per axis, signed hops); arrays of any shapes that broadcast."""
    rings, n = lattice.rings, lattice.n_gpus
    firsts: list[Int64] = []
    lengths: list[Int64] = []
    for axis in order:
        node = rings.node.take(firsts[-1] + lengths[-1]) if firsts else src
        first = rings.at.take((2 * axis + (signed[axis] < 0)) * n + node)
        hops = np.abs(signed[axis])
        firsts.append(first)
        lengths.append(hops)
    return Ways(firsts, lengths, [0] * len(firsts))


def marked_before(rings: Rings, marked: Bool) -> Int32:
    """(positions + 1,): how many marked links stand before each position of the rings. marked: (n_links,)."""
    return np.concatenate((np.zeros(1, np.int32), np.cumsum(marked[rings.link], dtype=np.int32)))


def batch_of(rings: Rings, src: Int64, dst: Int64, ways: Ways, reachable: Bool | None = None) -> PathBatch:
    """One path per pair, with the virtual channel of every hop: a leg's own, one more behind its dateline.

    Source: Zu et al., NSDI'24 (two channels); the dateline is Dally and Seitz's, reset on every axis.
    """
    shape = (len(src), len(ways.hops))
    first, hops = np.empty(shape, np.int64), np.empty(shape, np.int64)
    for leg in range(shape[1]):
        first[:, leg], hops[:, leg] = ways.first[leg], ways.hops[leg]
    if reachable is not None:
        hops[~reachable] = 0
    ends, links, vc = _laid_out(rings, first, hops, ways.channel)
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

    Plain tori only: the axes of twisted ones hang together.
    """
    axes = len(lattice.shape)
    ways = straight_ways(lattice, displacements.to_all(sources), order, sources.reshape(-1, *[1] * axes))
    shape = (len(sources), *lattice.shape, axes)
    first, hops = np.empty(shape, np.int64), np.empty(shape, np.int64)
    for leg in range(axes):
        first[..., leg], hops[..., leg] = ways.first[leg], ways.hops[leg]
    ends, links, vc = _laid_out(lattice.rings, first.reshape(-1, axes), hops.reshape(-1, axes), ways.channel)
    hop_start = np.zeros(len(src) + 1, np.int64)
    hop_start[1:] = ends.reshape(len(sources), -1)[np.arange(lattice.n_gpus) != sources[:, None]]
    return PathBatch.in_row(src, dst, hop_start, links, vc)


def _laid_out(rings: Rings, first: Int64, hops: Int64, channel: list[int]) -> tuple[Int64, Int32, Int32]:
    """(end of each way (P,), links (H,), vc (H,)) of ways given as ranges (P, legs)."""
    count = hops.ravel()
    ends = np.cumsum(count)
    position = np.repeat(first.ravel() - ends + count, count)
    position += counting(len(position))
    links, vc = rings.hop.take(position).view(np.int32).reshape(-1, 2).T
    if any(channel):
        vc += np.repeat(np.tile(np.array(channel, np.int32), len(hops)), count)
    return ends[len(channel) - 1 :: len(channel)], links, vc
