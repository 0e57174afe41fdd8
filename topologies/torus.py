"""Tori of one to three axes, with the optical switches of a TPUv4 pod where cubes fit."""

from __future__ import annotations

from collections.abc import Mapping

from railweave.framework.model import Fabric
from railweave.framework.parameters import Parameter, Value
from railweave.topologies.lattice import LINK_PARAMETERS, parse_shape, shape_text, wired

KIND = "torus"


class Torus:
    """Every GPU has a link to both neighbours along each axis, and each axis closes to a ring.

    Source: Zu et al., "Resiliency at Scale: Managing Google's TPUv4 Machine Learning Supercomputer", NSDI'24.
    """

    summary = "a torus of one to three axes, with OCS labels where cubes of 4x4x4 fit"
    parameters: tuple[Parameter, ...] = (
        Parameter("shape", "4x4x4", "text", "lengths of the axes, such as 8, 4x4 or 4x4x8"),
        *LINK_PARAMETERS,
    )

    def build(self, params: Mapping[str, Value]) -> Fabric:
        """The torus. Raises FabricError for a shape, rate or latency that cannot exist."""
        given = {p.name: params.get(p.name, p.default) for p in self.parameters}
        shape = parse_shape(KIND, given["shape"])
        flat = tuple((0,) * len(shape) for _ in shape)
        return wired(KIND, shape, flat, {**given, "shape": shape_text(shape)})
