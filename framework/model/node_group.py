"""Nodes of one kind: their ids, coordinates and names."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from railweave.framework.errors import FabricError
from railweave.framework.model.arrays import ArrayNoun, Int32


@dataclass(frozen=True, eq=False, slots=True)
class NodeGroup(ArrayNoun):
    """Nodes of one kind with coordinates: `NodeGroup("gpu", 0, (4, 4), "g")` holds g0.0 to g3.3 with ids
    0..15.

    Ids count through the grid of `shape` with the last axis fastest. `places` (n, axes) instead gives the
    coordinates of node `first + i` in row i, within `shape`, for groups that leave parts of the grid empty,
    such as HB domains of unequal size; see `NodeGroup.at`. It is None where the group fills its grid.
    """

    kind: str
    first: int
    shape: tuple[int, ...]
    prefix: str
    places: Int32 | None = None

    def __post_init__(self) -> None:
        ArrayNoun.__post_init__(self)
        if not self.shape or min(self.shape) < 1:
            raise FabricError(f"{self.kind} group of shape {self.shape}: every length must be 1 or more.")
        if self.places is None:
            return
        if self.places.ndim != 2 or self.places.shape[1] != len(self.shape) or not len(self.places):
            raise FabricError(
                f"{self.kind} group: places of shape {self.places.shape} must be (nodes, {len(self.shape)})."
            )
        if self.places.min() < 0 or np.any(self.places >= self.shape):
            raise FabricError(f"{self.kind} group: a place lies outside the shape {self.shape}.")
        if len(np.unique(self.places, axis=0)) < len(self.places):
            raise FabricError(f"{self.kind} group: two nodes have the same coordinates.")
        if len(self.places) == prod(self.shape) and np.array_equal(self.places, _grid(self.shape)):
            object.__setattr__(self, "places", None)

    @classmethod
    def at(cls, kind: str, first: int, places: ArrayLike, prefix: str) -> Self:
        """The group of nodes at these coordinates, (n, axes); its shape is the smallest that holds them.

        `NodeGroup.at("gpu", 0, [(0, 0), (0, 1), (1, 0)], "g")`: two GPUs in domain 0, one in domain 1.
        """
        rows = np.atleast_2d(np.asarray(places, np.int32))
        return cls(kind, first, tuple(map(int, rows.max(axis=0) + 1)) if rows.size else (), prefix, rows)

    @property
    def size(self) -> int:
        return prod(self.shape) if self.places is None else len(self.places)

    @property
    def all_coordinates(self) -> Int32:
        """(size, axes): the coordinates of every node, by id."""
        return _grid(self.shape) if self.places is None else self.places

    def coordinates(self, node: int) -> tuple[int, ...]:
        i = node - self.first
        place = np.unravel_index(i, self.shape) if self.places is None else self.places[i]
        return tuple(map(int, place))

    def node_at(self, place: Sequence[int]) -> int | None:
        """The id of the node with these coordinates; None if there is none."""
        if len(place) != len(self.shape) or not all(
            0 <= c < n for c, n in zip(place, self.shape, strict=True)
        ):
            return None
        if self.places is None:
            return self.first + int(np.ravel_multi_index(tuple(place), self.shape))
        row = np.flatnonzero((self.places == place).all(axis=1))
        return self.first + int(row[0]) if row.size else None

    def name(self, node: int) -> str:
        return self.prefix + ".".join(map(str, self.coordinates(node)))


def _grid(shape: tuple[int, ...]) -> Int32:
    """(prod(shape), axes): every point of a grid, the last axis fastest."""
    return np.stack(np.unravel_index(np.arange(prod(shape)), shape), axis=1).astype(np.int32)
