"""How far and which way along each axis: the shortest displacement between two GPUs, ties by parity."""

from __future__ import annotations

from itertools import product

import numpy as np

from railweave.framework.model.arrays import Bool, Int64
from railweave.plugins.dor.lattice import Lattice

FAR = 2
"""Multiples of each lattice vector looked at; minimal displacements never need more on the shapes there are."""


class Displacements:
    """The displacement that each pair takes, (axes, P) signed hops.

    Plain torus: the shorter way round each ring; half way round, up if the source's coordinate on that axis is
    even, down if it is odd (Zu et al., NSDI'24). Twisted torus: of all displacements of least 1-norm that lead
    there; of tied ones the choice alternates with the sum of the source's coordinates (ours: the source leaves it
    to its optimiser).
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
            self._twist = lattice.twist
            self._start, self._vectors = shortest_vectors(lattice)
            self._turn = lattice.coordinates.sum(axis=0)

    def of(self, src: Int64, dst: Int64) -> list[Int64]:
        """For each axis (P,): signed hops."""
        if self._plain:
            return [
                table.take(row.take(src) + where.take(dst))
                for table, row, where in zip(self._signed, self._row, self._where, strict=True)
            ]
        place = self._place(src, dst)
        start = self._start[place]
        choice = start + self._turn[src] % (self._start[place + 1] - start)
        return list(self._vectors[:, choice])

    def to_all(self, sources: Int64) -> list[Int64]:
        """For each axis (S, 1, .., length of the axis, .., 1): signed hops to every coordinate. Plain tori only."""
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
        place = self._place(src, dst)
        return np.asarray(self._start[place + 1] - self._start[place] > 1)

    def _place(self, src: Int64, dst: Int64) -> Int64:
        """(P,): the GPU that lies from GPU 0 as dst lies from src."""
        return wrapped(self._where[:, dst] - self._where[:, src], self._shape, self._twist)


def _signed(length: int) -> Int64:
    """Signed hops by [parity of the source, coordinate difference + length - 1], flat."""
    ahead = np.arange(-(length - 1), length) % length
    up = np.where(2 * ahead <= length, ahead, ahead - length)
    down = np.where(2 * ahead < length, ahead, ahead - length)
    return np.concatenate((up, down))


def wrapped(vector: Int64, shape: tuple[int, ...], twist: Int64) -> Int64:
    """(P,): the GPU at `vector` (axes, P) from GPU 0, undoing the wraps axis by axis."""
    place = vector.copy()
    for axis, length in enumerate(shape):
        times, place[axis] = np.divmod(place[axis], length)
        for other in range(axis + 1, len(shape)):
            place[other] += times * twist[axis, other]
    ids: Int64 = np.ravel_multi_index(tuple(place), shape)
    return ids


def shortest_vectors(lattice: Lattice) -> tuple[Int64, Int64]:
    """(start (n + 1,), vectors (axes, V)): every minimal displacement from GPU 0 to each GPU, in descending order."""
    shape, twist, n = lattice.shape, lattice.twist, lattice.n_gpus
    basis = np.diag(shape) - twist
    offsets = np.array(list(product(range(-FAR, FAR + 1), repeat=len(shape)))) @ basis
    least = np.full(n, np.iinfo(np.int64).max)
    for offset in offsets:
        np.minimum(least, np.abs(lattice.coordinates + offset[:, None]).sum(axis=0), out=least)
    parts: list[tuple[Int64, Int64]] = []
    for offset in offsets:
        vector = lattice.coordinates + offset[:, None]
        found = np.flatnonzero(np.abs(vector).sum(axis=0) == least)
        parts.append((found, vector[:, found]))
    node = np.concatenate([p[0] for p in parts])
    vectors = np.concatenate([p[1] for p in parts], axis=1)
    order = np.lexsort((*-vectors[::-1], node))
    node, vectors = node[order], vectors[:, order]
    return np.searchsorted(node, np.arange(n + 1)), vectors
