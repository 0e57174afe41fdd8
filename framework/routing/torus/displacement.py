"""How far and in which direction along each axis: the shortest displacement between two GPUs, ties by
parity."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.routing.torus.lattice import AXES, Lattice

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
        self._where, self._shape = lattice.coordinates, lattice.shape
        self._plain = lattice.is_plain
        if self._plain:
            self._signed = [_signed(length) for length in lattice.shape]
            # Where a source's row begins, less what the destination's coordinate adds to it.
            self._row = [
                (here & 1) * (2 * length - 1) - here + (length - 1)
                for length, here in zip(lattice.shape, lattice.coordinates, strict=True)
            ]
        else:
            self._lattice = lattice
            self._start, self._vectors = shortest_vectors(lattice)
            self._parity = lattice.coordinates.sum(axis=0)

    def of(self, src: Int64, dst: Int64) -> list[Int64]:
        """For each axis (P,): signed hops."""
        if self._plain:
            return [
                table.take(row.take(src) + where.take(dst))
                for table, row, where in zip(self._signed, self._row, self._where, strict=True)
            ]
        place = self._lattice.offset(src, dst)
        start = self._start[place]
        choice = start + self._parity[src] % (self._start[place + 1] - start)
        return list(self._vectors[:, choice])

    def to_all(self, sources: Int64) -> list[Int64]:
        """For each axis (S, 1, .., length of the axis, .., 1): signed hops to every coordinate. Plain tori
        only."""
        axes = len(self._shape)
        return [
            table.take(row.take(sources)[:, None] + np.arange(length)).reshape(
                -1, *(length if other == axis else 1 for other in range(axes))
            )
            for axis, (table, row, length) in enumerate(
                zip(self._signed, self._row, self._shape, strict=True)
            )
        ]

    def tied(self, src: Int64, dst: Int64) -> Bool:
        """(P,): whether there was more than one shortest displacement."""
        if self._plain:
            sizes = np.array(self._shape)[:, None]
            return np.asarray(
                (2 * ((self._where[:, dst] - self._where[:, src]) % sizes) == sizes).any(axis=0)
            )
        place = self._lattice.offset(src, dst)
        return np.asarray(self._start[place + 1] - self._start[place] > 1)


def signed_text(displacement: Sequence[Int64] | Int64) -> str:
    """`x +2, y 0, z -1`: the displacement of one pair, one number per axis."""
    signed = np.ravel(displacement).tolist()
    return ", ".join(f"{AXES[axis]} {f'{hops:+d}' if hops else '0'}" for axis, hops in enumerate(signed))


def ties(lattice: Lattice, displacements: Displacements, src: int, dst: int) -> tuple[str, ...]:
    """What decided for this pair where two displacements are equally short, as words."""
    if not displacements.tied(np.array([src]), np.array([dst])).any():
        return ()
    here, there = lattice.coordinates[:, src], lattice.coordinates[:, dst]
    if not lattice.is_plain:
        return (f"equally short displacements: by the sum of the source's coordinates, {int(here.sum())}",)
    return tuple(
        f"{AXES[axis]}: half way round {length}, source at {AXES[axis]} = {here[axis]}, so "
        + ("up (even)" if here[axis] % 2 == 0 else "down (odd)")
        for axis, length in enumerate(lattice.shape)
        if 2 * ((there[axis] - here[axis]) % length) == length
    )


def _signed(length: int) -> Int64:
    """Signed hops by [parity of the source, coordinate difference + length - 1], flat."""
    ahead = np.arange(-(length - 1), length) % length
    up = np.where(2 * ahead <= length, ahead, ahead - length)
    down = np.where(2 * ahead < length, ahead, ahead - length)
    return np.concatenate((up, down))


def shortest_vectors(lattice: Lattice) -> tuple[Int64, Int64]:
    """(start (n + 1,), vectors (axes, V)): every minimal displacement from GPU 0 to each GPU, in descending
    order."""
    shape, n = lattice.shape, lattice.n_gpus
    basis = np.diag(shape) - lattice.twist
    offsets = np.array(list(product(range(-FAR, FAR + 1), repeat=len(shape)))) @ basis
    least = np.full(n, np.iinfo(np.int64).max)
    for offset in offsets:
        np.minimum(least, np.abs(lattice.coordinates + offset[:, None]).sum(axis=0), out=least)
    parts: list[tuple[Int64, Int64]] = []
    for offset in offsets:
        vector = lattice.coordinates + offset[:, None]
        minimal = np.flatnonzero(np.abs(vector).sum(axis=0) == least)
        parts.append((minimal, vector[:, minimal]))
    node = np.concatenate([p[0] for p in parts])
    vectors = np.concatenate([p[1] for p in parts], axis=1)
    order = np.lexsort((*-vectors[::-1], node))
    node, vectors = node[order], vectors[:, order]
    return np.searchsorted(node, np.arange(n + 1)), vectors
