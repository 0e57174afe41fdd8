"""A torus read from its links: which leads where, and its rings laid out so that a straight leg is a
range."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.model.capabilities import require

REQUIRES = ("lattice", "wrap")
AXES = "xyz"


@dataclass(frozen=True)
class UnrolledRings:
    """Every ring of every direction, unrolled beyond its end and laid one after the other.

    A leg of t hops from `node` in a direction is the range `at[direction, node] : ... + t`, t at most the
    length of the ring. At each position: `link` leaves `node`; `wraps` counts the wrap links crossed before
    it. No leg begins behind one: a ring with several is laid out once from behind each of them.
    """

    at: Int64
    link: Int32
    node: Int32
    wraps: Int32

    @cached_property
    def hop(self) -> Int64:
        """`link` and `wraps` in one number, so that both are looked up at once."""
        return np.stack((self.link, self.wraps), axis=1).view(np.int64)[:, 0]


@dataclass(frozen=True)
class Lattice:
    """A torus, plain or twisted. Direction 2a goes up along axis a, 2a + 1 down.

    `coordinates` (axes, n); `steps` (2 axes, n): the link by which a GPU leaves in a direction, the lowest of
    parallel ones; `twist` (axes, axes): what crossing the wrap of an axis upwards adds to the coordinates.
    """

    shape: tuple[int, ...]
    coordinates: Int64
    steps: Int32
    twist: Int64
    rings: UnrolledRings

    @property
    def n_gpus(self) -> int:
        return int(self.coordinates.shape[1])

    @cached_property
    def is_plain(self) -> bool:
        return not self.twist.any()

    def offset(self, a: Int64, b: Int64) -> Int64:
        """(P,): the GPU that lies from GPU 0 as b lies from a; a torus, twisted or not, has no preferred
        GPU."""
        return self._wrapped(self.coordinates[:, b] - self.coordinates[:, a])

    def translated(self, a: Int64, b: Int64) -> Int64:
        """(P,): where a comes to lie when GPU 0 is moved to b."""
        return self._wrapped(self.coordinates[:, b] + self.coordinates[:, a])

    def _wrapped(self, vector: Int64) -> Int64:
        """(P,): the GPU at `vector` (axes, P) from GPU 0, undoing the wraps axis by axis."""
        place = vector.copy()
        for axis, length in enumerate(self.shape):
            times, place[axis] = np.divmod(place[axis], length)
            for other in range(axis + 1, len(self.shape)):
                place[other] += times * self.twist[axis, other]
        ids: Int64 = np.ravel_multi_index(tuple(place), self.shape)
        return ids

    def links_down(self, down: Bool) -> list[int]:
        """How many links of each axis are down. down: (n_links,)."""
        axes = range(len(self.shape))
        return [int(down[np.unique(self.steps[2 * axis : 2 * axis + 2])].sum()) for axis in axes]

    @classmethod
    def of(cls, fabric: Fabric, health: HealthSnapshot, router: str) -> Self:
        """Raises UnsupportedFabricError for fabrics without wraps, FabricError for links that make no torus,
        and HealthError for a snapshot of another fabric."""
        require(fabric, router, REQUIRES)
        health.check_fits(fabric)
        shape = fabric.groups[0].shape
        coordinates = fabric.gpu_coordinates.T.astype(np.int64)
        steps = _steps(fabric, shape)
        twist = _twist(fabric, shape, coordinates, steps)
        return cls(shape, coordinates, steps, twist, _rings(fabric, shape, coordinates, steps))


def letters(order: tuple[int, ...] | list[int]) -> str:
    """An order of axes as the source writes it: ZXY."""
    return "".join(AXES[axis].upper() for axis in order)


def _steps(fabric: Fabric, shape: tuple[int, ...]) -> Int32:
    steps = np.full((2 * len(shape), fabric.n_gpus), -1, np.int32)
    names = [f"{axis}{sign}" for axis in AXES[: len(shape)] for sign in "+-"]
    direction = np.array([names.index(kind) for kind in fabric.kinds])[fabric.link_kind]
    steps[direction[::-1], fabric.link_src[::-1]] = np.arange(fabric.n_links)[::-1]
    for axis, length in enumerate(shape):
        if length == 2:  # the only cable leads both up and down
            up_down = steps[2 * axis : 2 * axis + 2]
            up_down[:] = np.where(up_down < 0, up_down[::-1], up_down)
    return steps


def _twist(fabric: Fabric, shape: tuple[int, ...], coordinates: Int64, steps: Int32) -> Int64:
    axes, sizes = len(shape), np.array(shape)[:, None]
    twist = np.zeros((axes, axes), np.int64)
    for axis, length in enumerate(shape):
        moved = coordinates[:, fabric.link_dst[steps[2 * axis]]] - coordinates
        moved[axis] -= 1
        wraps = coordinates[axis] == length - 1
        shift = (moved % sizes)[:, wraps]
        twist[axis] = shift[:, 0]
        back = np.array_equal(
            fabric.link_dst[steps[2 * axis + 1, fabric.link_dst[steps[2 * axis]]]], np.arange(fabric.n_gpus)
        )
        # Only later axes may be shifted: then one pass over the axes finds any node's place again.
        sound = not (moved % sizes)[:, ~wraps].any() and not twist[axis, : axis + 1].any()
        if not sound or not back or (shift != shift[:, :1]).any():
            raise FabricError(f"{fabric.kind}: its {AXES[axis]} links make no torus of shape {shape}.")
    return twist


def _rings(fabric: Fabric, shape: tuple[int, ...], coordinates: Int64, steps: Int32) -> UnrolledRings:
    at = np.empty((len(steps), fabric.n_gpus), np.int64)
    nodes: list[Int64] = []
    links: list[Int32] = []
    wraps: list[Int64] = []
    offset = 0
    for direction, out in enumerate(steps):
        axis, down = divmod(direction, 2)
        length = shape[axis]
        follow = fabric.link_dst[out].astype(np.int64)
        columns = [np.flatnonzero(coordinates[axis] == (length - 1 if down else 0))]
        while (nxt := follow[columns[-1]])[0] != columns[0][0]:
            columns.append(nxt)
        ring = np.stack(columns + columns[:length], axis=1)
        at[direction, ring[:, :length]] = offset + np.arange(ring.size).reshape(ring.shape)[:, :length]
        nodes.append(ring.ravel())
        links.append(out[nodes[-1]])
        wraps.append(np.tile(np.arange(ring.shape[1]) // length, len(ring)))
        offset += ring.size
    return UnrolledRings(
        at,
        np.concatenate(links),
        np.concatenate(nodes).astype(np.int32),
        np.concatenate(wraps).astype(np.int32),
    )
