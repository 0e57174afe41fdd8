"""Twisted tori: the shapes k x k x 2k and k x 2k x 2k whose wraps also shift along the longer axes."""

from collections.abc import Mapping

from railweave.framework.errors import FabricError
from railweave.framework.hookspecs import Topology
from railweave.framework.model import Fabric
from railweave.framework.parameters import Parameter, Value, resolve
from railweave.topologies.lattice import AXES, CUBE, LINK_PARAMETERS, Twist, parse_shape, shape_text, wired

KIND = "twisted-torus"


class TwistedTorus(Topology):
    """k,k,2k: crossing the wrap of x or y adds k to z. k,2k,2k: crossing that of x adds k to y and to z.

    The other direction subtracts; everything is modulo the length of the axis. k is a multiple of 4, so that
    the twist is only another setting of the optical switches. Source: Zu et al., NSDI'24; Camara et al.,
    "Twisted torus topologies for enhanced interconnection networks", 2010.
    """

    summary = "k,k,2k or k,2k,2k with a twist: shorter paths than the plain torus"
    parameters: tuple[Parameter, ...] = (
        Parameter("shape", "4x4x8", "text", "lengths of the axes: k,k,2k or k,2k,2k with k a multiple of 4"),
        *LINK_PARAMETERS,
    )
    examples: tuple[Mapping[str, object], ...] = ({"shape": "4x4x8"}, {"shape": "8x8x16"})
    axis_names = tuple(AXES)
    lossless = True

    def build(self, params: Mapping[str, Value]) -> Fabric:
        """The twisted torus. Raises FabricError for a shape that cannot exist, ExperimentError
        for a value beyond its limits."""
        options = resolve(f"topology {KIND}", self.parameters, params)
        shape = parse_shape(KIND, options["shape"])
        return wired(KIND, shape, twist_of(shape), {**options, "shape": shape_text(shape)})


def twist_of(shape: tuple[int, ...]) -> Twist:
    """What crossing the + wrap of each axis adds to (x, y, z). Raises FabricError for a shape without a
    twist."""
    k = shape[0]
    if len(shape) == 3 and k % CUBE == 0:
        if shape == (k, k, 2 * k):
            return ((0, 0, k), (0, 0, k), (0, 0, 0))
        if shape == (k, 2 * k, 2 * k):
            return ((0, k, k), (0, 0, 0), (0, 0, 0))
    raise FabricError(
        f"{KIND} of shape {shape_text(shape)}: there is none. It takes k,k,2k or k,2k,2k in this order, k a "
        f"multiple of {CUBE}: 4x4x8, 4x8x8, 8x8x16, 8x16x16 and so on. For a plain torus: `--topology torus`."
    )
