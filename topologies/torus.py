"""Tori of one to three axes, with the optical switches of a TPUv4 pod where cubes fit."""

from collections.abc import Mapping

from railweave.framework.hookspecs import Topology
from railweave.framework.model import Fabric
from railweave.framework.parameters import Parameter, Value, resolve
from railweave.topologies.lattice import AXES, LINK_PARAMETERS, parse_shape, shape_text, wired

KIND = "torus"


class Torus(Topology):
    """Every GPU has a link to both neighbours along each axis, and each axis closes to a ring.

    Source: Zu et al., "Resiliency at Scale: Managing Google's TPUv4 Machine Learning Supercomputer", NSDI'24.
    """

    summary = "a torus of one to three axes, with OCS labels where cubes of 4x4x4 fit"
    parameters: tuple[Parameter, ...] = (
        Parameter("shape", "4x4x4", "text", "lengths of the axes, such as 8, 4x4 or 4x4x8"),
        *LINK_PARAMETERS,
    )
    examples: tuple[Mapping[str, object], ...] = tuple(
        {"shape": shape} for shape in ("3x3", "5", "2x3", "4x4", "3x4x3", "2x2x2", "8x8x16")
    )
    axis_names = tuple(AXES)
    lossless = True

    def build(self, params: Mapping[str, Value]) -> Fabric:
        """The torus. Raises FabricError for a shape that cannot exist, ExperimentError
        for a value beyond its limits."""
        options = resolve(f"topology {KIND}", self.parameters, params)
        shape = parse_shape(KIND, options["shape"])
        flat = tuple((0,) * len(shape) for _ in shape)
        return wired(KIND, shape, flat, {**options, "shape": shape_text(shape)})
