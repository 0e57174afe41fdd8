"""Tori of one to three axes, plain and twisted, with the optical switches of a TPUv4 pod where cubes fit."""

import re
from collections.abc import Mapping
from itertools import count
from math import prod

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.hookspecs import Topology
from railweave.framework.model import CircuitSwitches, Fabric, NodeGroup, UnitKind
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Parameter, Value, resolve

AXES = "xyz"
CUBE = 4
"""Chips along each side of a cube; links between cubes are optical."""
MOST_GPUS = 1 << 20
"""GPUs at most: sixteen times the largest fabric that the engines are measured with."""
LINK_RATE_BPS = 400e9
"""50 GB/s: one direction of a TPUv4's link."""

LINK_PARAMETERS = (
    Parameter("link_rate", LINK_RATE_BPS, "rate", "rate of a link, per direction", 1),
    Parameter("link_latency", 0.0, "time", "latency of a link", minimum=0),
)

CIRCUIT_PARAMETERS = (
    Parameter("spare_cubes", 0, "count", "cubes that can take the place of another", minimum=0),
    Parameter("spare_ports", 8, "count", "ports of an OCS to which circuits can move", minimum=0),
    Parameter(
        "ocs_time", 25e-6, "time", "until light passes over a circuit that is connected anew", minimum=0
    ),
)
"""Of fabrics of whole cubes. An OCS of a TPUv4 pod has 136 ports, 8 of them spare, and takes milliseconds;
the default is the 25 us of silicon photonics, which a lab can wait for."""

Twist = tuple[tuple[int, ...], ...]
"""For each axis, what crossing its wrap in the + direction adds to the coordinates."""


class Torus(Topology):
    """Every GPU has a link to both neighbours along each axis, and each axis closes to a ring.

    Source: Zu et al., "Resiliency at Scale: Managing Google's TPUv4 Machine Learning Supercomputer", NSDI'24.
    """

    kind = "torus"
    summary = "a torus of one to three axes, with OCS labels where cubes of 4x4x4 fit"
    parameters: tuple[Parameter, ...] = (
        Parameter("shape", "4x4x4", "text", "lengths of the axes, such as 8, 4x4 or 4x4x8"),
        *LINK_PARAMETERS,
        *CIRCUIT_PARAMETERS,
    )
    examples: tuple[Mapping[str, object], ...] = tuple(
        {"shape": shape} for shape in ("3x3", "5", "2x3", "4x4", "3x4x3", "2x2x2", "8x8x16")
    )
    axis_names = tuple(AXES)
    lossless = True

    def build(self, params: Mapping[str, Value]) -> Fabric:
        """The torus. Raises FabricError for a shape that cannot exist, ExperimentError
        for a value beyond its limits."""
        options = resolve(f"topology {self.kind}", self.parameters, params)
        shape = self._shape(str(options["shape"]))
        return _wired(self.kind, shape, self.twist(shape), {**options, "shape": _text(shape)})

    def larger(self, params: Mapping[str, Value], factor: int) -> Mapping[str, object]:
        """The prime factors, the largest first, each along the axis that is shortest then."""
        shape = list(self._shape(str(params["shape"])))
        for prime in _primes(factor):
            shape[shape.index(min(shape))] *= prime
        return {**params, "shape": _text(tuple(shape))}

    def twist(self, shape: tuple[int, ...]) -> Twist:
        """What crossing the + wrap of each axis adds to the coordinates."""
        return ((0,) * len(shape),) * len(shape)

    def _shape(self, text: str) -> tuple[int, ...]:
        """The lengths in `4x4x8`, which may also be written with commas.

        Raises FabricError for anything else than one to three whole numbers of 2 or more.
        """
        words = re.split(r"[x,]", text.strip().lower().replace(" ", ""))
        if not 1 <= len(words) <= len(AXES) or not all(re.fullmatch(r"-?\d+", w) for w in words):
            raise FabricError(
                f"{self.kind} of shape {text!r}: a shape is one to three whole lengths, such as 8, 4x4 or "
                "4x4x8."
            )
        shape = tuple(int(w) for w in words)
        for axis, length in zip(AXES, shape, strict=False):
            if length < 2:
                raise FabricError(
                    f"{self.kind} of shape {text!r}: length {length} along {axis} is no ring; it takes 3 or "
                    "more, or 2 for a single link. Leave out an axis that does not exist."
                )
        if prod(shape) > MOST_GPUS:
            raise FabricError(
                f"{self.kind} of shape {text!r}: {prod(shape)} GPUs are too many; {MOST_GPUS} is the most."
            )
        return shape


class TwistedTorus(Torus):
    """k,k,2k: crossing the wrap of x or y adds k to z. k,2k,2k: crossing that of x adds k to y and to z.

    The other direction subtracts; everything is modulo the length of the axis. k is a multiple of 4, so that
    the twist is only another setting of the optical switches. Source: Zu et al., NSDI'24; Camara et al.,
    "Twisted torus topologies for enhanced interconnection networks", 2010.
    """

    kind = "twisted-torus"
    summary = "k,k,2k or k,2k,2k with a twist: shorter paths than the plain torus"
    parameters: tuple[Parameter, ...] = (
        Parameter("shape", "4x4x8", "text", "lengths of the axes: k,k,2k or k,2k,2k with k a multiple of 4"),
        *LINK_PARAMETERS,
        *CIRCUIT_PARAMETERS,
    )
    examples: tuple[Mapping[str, object], ...] = ({"shape": "4x4x8"}, {"shape": "8x8x16"})

    def larger(self, params: Mapping[str, Value], factor: int) -> Mapping[str, object]:
        """The next shape of either form with enough GPUs."""
        gpus = prod(self._shape(str(params["shape"]))) * factor
        shapes = (shape for k in count(CUBE, CUBE) for shape in ((k, k, 2 * k), (k, 2 * k, 2 * k)))
        return {**params, "shape": _text(next(shape for shape in shapes if prod(shape) >= gpus))}

    def twist(self, shape: tuple[int, ...]) -> Twist:
        """What crossing the + wrap of each axis adds to (x, y, z). Raises FabricError for a shape without a
        twist."""
        k = shape[0]
        if k % CUBE == 0 and shape == (k, k, 2 * k):
            return ((0, 0, k), (0, 0, k), (0, 0, 0))
        if k % CUBE == 0 and shape == (k, 2 * k, 2 * k):
            return ((0, k, k), (0, 0, 0), (0, 0, 0))
        raise FabricError(
            f"{self.kind} of shape {_text(shape)}: there is none. It takes k,k,2k or k,2k,2k in this order, "
            f"k a multiple of {CUBE}: 4x4x8, 4x8x8, 8x8x16, 8x16x16 and so on. For a plain torus: "
            "`--topology torus`."
        )


def _primes(number: int) -> list[int]:
    """Descending."""
    primes = []
    for divisor in range(2, number + 1):
        while number % divisor == 0:
            primes.append(divisor)
            number //= divisor
    return primes[::-1]


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _wired(kind: str, shape: tuple[int, ...], twist: Twist, params: Mapping[str, Value]) -> Fabric:
    """The fabric of GPUs `g<x>.<y>.<z>` with a cable to the next GPU along each axis.

    GPU ids count with the last axis fastest. Cables: first those of x, by the id of the GPU they leave in the
    + direction, then y, then z; so a NIC switch has its host at port 1 and then the x, y and z links. Kinds
    are the axis and the direction, `x+` and `x-`. An axis of length 2 has one cable. Where there are three
    axes, all multiples of 4, links between cubes carry the OCS `X:y0,z0` that all links along X with y mod 4
    = y0 and z mod 4 = z0 share, and likewise Y:x0,z0 and Z:x0,y0. Source: Zu et al., NSDI'24, figure 10.
    """
    where = np.stack(np.unravel_index(np.arange(prod(shape)), shape))
    optical = len(shape) == 3 and all(length % CUBE == 0 for length in shape)
    ends, kinds, planes = [], [], []
    for axis, length in enumerate(shape):
        near = np.flatnonzero((length > 2) | (where[axis] == 0))
        far = _next(where, shape, twist, axis)[near]
        ends.append(np.stack((near, far), axis=1))
        kinds.append(np.tile([2 * axis, 2 * axis + 1], len(near)))
        planes.append(np.repeat(_plane(where, axis)[near] if optical else np.full(len(near), -1), 2))
    spare_cubes = int(params["spare_cubes"])
    if spare_cubes and not optical:
        raise FabricError(
            f"{kind} of shape {_text(shape)} with {spare_cubes} spare cubes: it is not made of cubes. Choose "
            f"three axes that are multiples of {CUBE}, or leave spare_cubes out."
        )
    cubes = UnitKind("cube", (CUBE,) * 3, spare_cubes)
    cables = np.concatenate(ends)
    n_links = cables.size
    return Fabric(
        kind=kind,
        groups=(NodeGroup("gpu", 0, shape, "g"),),
        kinds=tuple(f"{axis}{sign}" for axis in AXES[: len(shape)] for sign in "+-"),
        link_src=cables.ravel().astype(np.int32),
        link_dst=cables[:, ::-1].ravel().astype(np.int32),
        link_kind=np.concatenate(kinds).astype(np.int32),
        capacity_bps=np.full(n_links, float(params["link_rate"])),
        latency_s=np.full(n_links, float(params["link_latency"])),
        link_element=np.full(n_links, -1, np.int32),
        wavelength=np.full(n_links, -1, np.int32),
        ocs=np.concatenate(planes).astype(np.int32),
        ocs_names=tuple(f"{axis}:{i},{j}" for axis in "XYZ" for i in range(CUBE) for j in range(CUBE))
        if optical
        else (),
        params=dict(params),
        circuits=CircuitSwitches(float(params["ocs_time"]), int(params["spare_ports"]), (cubes,))
        if optical
        else None,
    )


def _next(where: Int64, shape: tuple[int, ...], twist: Twist, axis: int) -> Int64:
    """(n,): each GPU's neighbour in the + direction."""
    neighbour = where.copy()
    neighbour[axis] += 1
    crossing = neighbour[axis] == shape[axis]
    neighbour[axis, crossing] = 0
    neighbour[:, crossing] += np.array(twist[axis])[:, None]
    ids: Int64 = np.ravel_multi_index(tuple(neighbour), shape, mode="wrap")
    return ids


def _plane(where: Int64, axis: int) -> Int64:
    """(n,): the OCS of each GPU's + link along the axis, -1 inside a cube."""
    first, second = (where[other] % CUBE for other in range(3) if other != axis)
    plane = (axis * CUBE + first) * CUBE + second
    return np.where(where[axis] % CUBE == CUBE - 1, plane, -1)
