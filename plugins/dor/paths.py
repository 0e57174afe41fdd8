"""From displacements to hops: straight ways in a given order of the axes, as ranges on rings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from railweave.framework.model import PathBatch
from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.routing.batches import starts
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
    signed = displacements.of(src, dst)
    rings, n = lattice.rings, lattice.n_gpus
    at = rings.at.ravel()
    node = src
    firsts: list[Int64] = []
    lengths: list[Int64] = []
    for axis in order:
        first = at[(2 * axis + (signed[axis] < 0)) * n + node]
        hops = np.abs(signed[axis])
        firsts.append(first)
        lengths.append(hops)
        node = rings.node[first + hops]
    return Ways(firsts, lengths, [0] * len(firsts))


def marked_before(rings: Rings, marked: Bool) -> Int32:
    """(positions + 1,): how many marked links stand before each position of the rings. marked: (n_links,)."""
    return np.concatenate((np.zeros(1, np.int32), np.cumsum(marked[rings.link], dtype=np.int32)))


def batch_of(rings: Rings, src: Int64, dst: Int64, ways: Ways, reachable: Bool | None = None) -> PathBatch:
    """One path per pair, with the virtual channel of every hop: a leg's own, one more behind its dateline.

    Source: Zu et al., NSDI'24 (two channels); the dateline is Dally and Seitz's, reset on every axis.
    """
    has = np.arange(len(src)) if reachable is None else np.flatnonzero(reachable)
    legs = len(ways.hops)
    first, hops = np.empty((len(has), legs), np.int64), np.empty((len(has), legs), np.int64)
    for leg in range(legs):
        first[:, leg], hops[:, leg] = ways.first[leg][has], ways.hops[leg][has]
    flat_hops = hops.ravel()
    ends = np.cumsum(flat_hops)
    total = int(ends[-1]) if len(ends) else 0
    position = np.arange(total)
    position += np.repeat(first.ravel() - (ends - flat_hops), flat_hops)
    channel = np.array(ways.channel, np.int32) - rings.wraps[first]
    vc = rings.wraps[position] + np.repeat(channel.ravel(), flat_hops)
    links = rings.link[position]
    hop_start = np.concatenate((np.zeros(1, np.int64), ends[legs - 1 :: legs]))
    count = np.ones(len(src), np.int64) if reachable is None else reachable.astype(np.int64)
    for array in (links, vc, hop_start):
        array.flags.writeable = False  # spares the batch its own copy
    return PathBatch(src, dst, starts(count), np.ones(len(has)), hop_start, links, vc)
