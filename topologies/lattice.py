"""Cables of a torus with any twist: every GPU joined with its neighbour along each axis."""

import re
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.model import Fabric, NodeGroup
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Parameter, Value

AXES = "xyz"
CUBE = 4
"""Chips along each side of a cube; links between cubes are optical."""
MOST_GPUS = 1 << 20
LINK_RATE_BPS = 400e9
"""50 GB/s: one direction of a TPUv4's link."""

LINK_PARAMETERS = (
    Parameter("link_rate", LINK_RATE_BPS, "rate", "rate of a link, per direction", 1),
    Parameter("link_latency", 0.0, "time", "latency of a link", minimum=0),
)

Twist = tuple[tuple[int, ...], ...]
"""For each axis, what crossing its wrap in the + direction adds to the coordinates."""


def parse_shape(kind: str, text: object) -> tuple[int, ...]:
    """The lengths in `4x4x8`, which may also be written with commas.

    Raises FabricError for anything else than one to three whole numbers of 2 or more.
    """
    words = re.split(r"[x,]", str(text).strip().lower().replace(" ", ""))
    if not 1 <= len(words) <= len(AXES) or not all(re.fullmatch(r"-?\d+", w) for w in words):
        raise FabricError(
            f"{kind} of shape {str(text)!r}: a shape is one to three whole lengths, such as 8, 4x4 or 4x4x8."
        )
    shape = tuple(int(w) for w in words)
    for axis, length in zip(AXES, shape, strict=False):
        if length < 2:
            raise FabricError(
                f"{kind} of shape {str(text)!r}: length {length} along {axis} is no ring; it takes 3 or "
                "more, or 2 for a single link. Leave out an axis that does not exist."
            )
    if prod(shape) > MOST_GPUS:
        raise FabricError(
            f"{kind} of shape {str(text)!r}: {prod(shape)} GPUs are too many; {MOST_GPUS} is the most."
        )
    return shape


def shape_text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def wired(kind: str, shape: tuple[int, ...], twist: Twist, params: Mapping[str, Value]) -> Fabric:
    """The fabric of GPUs `g<x>.<y>.<z>` with a cable to the next GPU along each axis.

    GPU ids count with the last axis fastest. Cables: first those of x, by the id of the GPU they leave in the
    + direction, then y, then z; so a NIC switch has its host at port 1 and then the x, y and z links. Kinds
    are the axis and the direction, `x+` and `x-`. An axis of length 2 has one cable. Where there are three
    axes, all multiples of 4, links between cubes carry the OCS `X:y0,z0` that all links along X with y mod 4
    = y0 and z mod 4 = z0 share, and likewise Y:x0,z0 and Z:x0,y0. Source: Zu et al., NSDI'24, figure 10.
    """
    n, axes = prod(shape), len(shape)
    where = np.stack(np.unravel_index(np.arange(n), shape))
    optical = axes == 3 and all(length % CUBE == 0 for length in shape)
    ends: list[tuple[Int64, Int64]] = []
    kinds: list[Int64] = []
    planes: list[Int64] = []
    for axis in range(axes):
        a = np.arange(n) if shape[axis] > 2 else np.flatnonzero(where[axis] == 0)
        ends.append((a, _next(where, shape, twist, axis)[a]))
        kinds.append(np.tile([2 * axis, 2 * axis + 1], len(a)))
        planes.append(np.repeat(_plane(where, axis)[a] if optical else np.full(len(a), -1), 2))
    a, b = (np.concatenate(side) for side in zip(*ends, strict=True))
    n_links = 2 * len(a)
    src, dst = np.empty(n_links, np.int64), np.empty(n_links, np.int64)
    src[0::2], src[1::2], dst[0::2], dst[1::2] = a, b, b, a
    return Fabric(
        kind=kind,
        groups=(NodeGroup("gpu", 0, shape, "g"),),
        kinds=tuple(f"{axis}{sign}" for axis in AXES[:axes] for sign in "+-"),
        link_src=src.astype(np.int32),
        link_dst=dst.astype(np.int32),
        link_kind=np.concatenate(kinds).astype(np.int32),
        capacity_bps=np.full(n_links, float(params["link_rate"])),
        latency_s=np.full(n_links, float(params["link_latency"])),
        link_element=np.full(n_links, -1, np.int32),
        wavelength=np.full(n_links, -1, np.int32),
        ocs=np.concatenate(planes).astype(np.int32),
        ocs_names=_plane_names() if optical else (),
        params=dict(params),
    )


def _next(where: Int64, shape: tuple[int, ...], twist: Twist, axis: int) -> Int64:
    """(n,): each GPU's neighbour in the + direction."""
    there = where.copy()
    there[axis] += 1
    crossing = there[axis] == shape[axis]
    there[axis, crossing] = 0
    for other, shift in enumerate(twist[axis]):
        there[other, crossing] = (there[other, crossing] + shift) % shape[other]
    ids: Int64 = np.ravel_multi_index(tuple(there), shape).astype(np.int64)
    return ids


def _plane(where: Int64, axis: int) -> Int64:
    """(n,): the OCS of each GPU's + link along the axis, -1 inside a cube."""
    first, second = (where[other] % CUBE for other in range(3) if other != axis)
    plane = (axis * CUBE + first) * CUBE + second
    return np.where(where[axis] % CUBE == CUBE - 1, plane, -1)


def _plane_names() -> tuple[str, ...]:
    return tuple(f"{axis.upper()}:{i},{j}" for axis in AXES for i in range(CUBE) for j in range(CUBE))
