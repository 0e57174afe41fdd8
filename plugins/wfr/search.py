"""The wild hops of pairs whose dimension-order path is broken: every choice of signs, ranked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.plugins.dor.displacement import Displacements
from railweave.plugins.dor.lattice import Lattice
from railweave.plugins.dor.paths import Ways, dimension_ways
from railweave.plugins.wfr.sequences import Sequence

WILD_CHANNEL = 2
"""Wild hops have a channel class of their own: with it and one order the dependencies have no cycle."""

BLOCK = 1 << 16
"""Broken pairs looked at in one go; bounds the memory."""

Signs = tuple[int, ...]


@dataclass(frozen=True)
class WildFirst:
    """Wild-first ways on a lattice. `dead_before`: dead links before each position of the rings."""

    lattice: Lattice
    displacements: Displacements
    sequence: Sequence
    dead_before: Int32

    @property
    def choices(self) -> list[Signs]:
        """Every choice of signs for the wild axes: none, up, down; the earlier wins a tie."""
        return list(product((0, 1, -1), repeat=len(self.sequence.wild)))

    def dimension_order(self, src: Int64, dst: Int64) -> Ways:
        return dimension_ways(self.lattice, self.displacements, self.sequence.order, src, dst)

    def candidate(self, signs: Signs, src: Int64, dst: Int64) -> Ways:
        """The way with these wild hops; legs without a hop stay, so that all candidates have equal legs.

        The dimension-order phase begins at the end of the wild hops, and so do its ties.
        """
        rings, n = self.lattice.rings, self.lattice.n_gpus
        firsts, hops, node = [], [], src
        for axis, sign in zip(self.sequence.wild, signs, strict=True):
            first = rings.at.ravel()[(2 * axis + (sign < 0)) * n + node]
            firsts.append(first)
            hops.append(np.full(len(src), abs(sign)))
            node = rings.node[first + abs(sign)].astype(np.int64)
        rest = self.dimension_order(node, dst)
        channels = [WILD_CHANNEL] * len(signs) + rest.channel
        return Ways(firsts + rest.first, hops + rest.hops, channels)

    def fits(self, signs: Signs, ways: Ways) -> tuple[Bool, Bool]:
        """(live, whole): whether each way crosses no dead link, and whether it meets no node twice."""
        return ~ways.crosses(self.dead_before), ~self._returns(signs, ways)

    def best(self, src: Int64, dst: Int64) -> tuple[Int64, Ways]:
        """(choice (P,), ways): the first by hops, then wild hops, then order of signs; choice -1 where none fits."""
        legs = len(self.sequence.wild) + len(self.sequence.order)
        choice = np.full(len(src), -1, np.int64)
        first, hops = np.zeros((legs, len(src)), np.int64), np.zeros((legs, len(src)), np.int64)
        for low in range(0, len(src), BLOCK):
            part = slice(low, low + BLOCK)
            rank = np.full(len(src[part]), np.iinfo(np.int64).max)
            for number, signs in enumerate(self.choices):
                ways = self.candidate(signs, src[part], dst[part])
                live, whole = self.fits(signs, ways)
                worth = np.where(live & whole, ways.length() * (legs + 1) + sum(map(abs, signs)), rank)
                rows = np.flatnonzero(worth < rank)
                rank[rows], choice[low + rows] = worth[rows], number
                for leg in range(legs):
                    first[leg, low + rows] = ways.first[leg][rows]
                    hops[leg, low + rows] = ways.hops[leg][rows]
        channels = [WILD_CHANNEL] * len(self.sequence.wild) + [0] * len(self.sequence.order)
        return choice, Ways(list(first), list(hops), channels)

    def _returns(self, signs: Signs, ways: Ways) -> Bool:
        """(P,): whether the dimension-order phase comes back to a node of the wild phase.

        What was left by w wild hops can only be met within the first w hops back: those are a shortest way.
        """
        back = np.zeros(len(ways.first[0]), bool)
        n_wild = len(self.sequence.wild)
        used = [leg for leg in range(n_wild) if signs[leg]]
        met = [self.lattice.rings.node[ways.first[leg]] for leg in used]
        for node in self._first_nodes(ways, n_wild, len(used)):
            for earlier in met:
                back |= node == earlier
        return back

    def _first_nodes(self, ways: Ways, skip: int, count: int) -> Iterator[Int64]:
        """The nodes after 1 .. count hops of the legs behind `skip`; the last one again where there are fewer."""
        rings = self.lattice.rings
        for after in range(1, count + 1):
            node = rings.node[ways.first[skip]].astype(np.int64)
            left = np.full(len(node), after)
            for first, hops in zip(ways.first[skip:], ways.hops[skip:], strict=True):
                step = np.minimum(left, hops)
                node = np.where(step > 0, rings.node[first + step], node)
                left = left - step
            yield node
