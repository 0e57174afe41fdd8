"""Wild hops, then a given displacement axis by axis: the shape of every path the optimiser may choose."""

from __future__ import annotations

from itertools import product

import numpy as np

from railweave.framework.model.arrays import Int64
from railweave.plugins.dor.lattice import Lattice
from railweave.plugins.dor.paths import Ways
from railweave.plugins.wfr.search import WILD_CHANNEL
from railweave.plugins.wfr.sequences import Sequence


def signs_of(sequence: Sequence) -> Int64:
    """(choices, wild axes): every choice of wild hops, 0 none, 1 up, -1 down; the first has none."""
    return np.array(list(product((0, 1, -1), repeat=len(sequence.wild))), np.int64).reshape(
        3 ** len(sequence.wild), len(sequence.wild)
    )


def after_wild(lattice: Lattice, sequence: Sequence, signs: Int64, src: Int64) -> Int64:
    """(P,): the GPU where the wild hops end. signs: (P, wild axes)."""
    node = src
    for axis, sign in zip(sequence.wild, signs.T, strict=True):
        step = lattice.rings.at[2 * axis + (sign < 0), node]
        node = lattice.rings.node[step + np.abs(sign)].astype(np.int64)
    return node


def ways_of(lattice: Lattice, sequence: Sequence, signs: Int64, vector: Int64, src: Int64) -> Ways:
    """One leg per wild axis, none or one hop, then one per axis. signs: (P, wild axes); vector: (axes, P) hops."""
    rings = lattice.rings
    firsts: list[Int64] = []
    lengths: list[Int64] = []
    node = src
    legs = [*zip(sequence.wild, signs.T, strict=True), *((axis, vector[axis]) for axis in sequence.order)]
    for axis, signed in legs:
        first = rings.at[2 * axis + (signed < 0), node]
        hops = np.abs(signed)
        firsts.append(first)
        lengths.append(hops)
        node = rings.node[first + hops].astype(np.int64)
    channels = [WILD_CHANNEL] * len(sequence.wild) + [0] * len(sequence.order)
    return Ways(firsts, lengths, channels)
