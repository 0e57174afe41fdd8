"""Optical rings: every wavelength between two neighbours is a cable of its own."""

from collections.abc import Mapping

import numpy as np

from railweave.framework.hookspecs import Topology
from railweave.framework.model import Fabric, FabricBuilder, NodeGroup
from railweave.framework.parameters import Parameter, Value, resolve

WAVELENGTH_RATE_BPS = 40e9
"""One wavelength in OpTree's setup (arXiv 2211.15119)."""
LARGEST = 1 << 16
"""Nodes at most: a path has half as many links."""


class Ring(Topology):
    """GPU i is joined with GPU i + 1 (mod n) by one cable per wavelength, each with a rate of its own.

    A circuit that passes a node therefore never queues behind another wavelength. Cable w * n + i is
    wavelength w between i and i + 1; its first link goes up, its second down. Both have kind `ring`. With
    `directions` 1 the direction down exists physically, because a cable has two ends, but `Fabric.usable` is
    False for it: routers leave it alone. Ports of a GPU's NIC switch: 1 the host, then two per wavelength in
    the order of link ids. Two GPUs have two cables per wavelength between them, as any ring.
    """

    kind = "ring"
    summary = "GPUs in a ring, one cable per wavelength between neighbours"
    parameters: tuple[Parameter, ...] = (
        Parameter("nodes", 16, "count", "GPUs on the ring", minimum=2, maximum=LARGEST),
        Parameter(
            "directions", 2, "count", "directions round the ring that carry traffic", minimum=1, maximum=2
        ),
        Parameter("wavelengths", 1, "count", "wavelengths per direction", minimum=1, maximum=512),
        Parameter("rate", WAVELENGTH_RATE_BPS, "rate", "rate of one wavelength, per direction", 1),
        Parameter("latency", 0.0, "time", "latency of a link between neighbours", minimum=0),
    )
    examples: tuple[Mapping[str, object], ...] = (
        {"nodes": 4},
        {"nodes": 2},
        {"nodes": 7, "wavelengths": 2},
        {"nodes": 8},
        {"nodes": 5, "directions": 1},
        {"nodes": 1024},
    )

    def larger(self, params: Mapping[str, Value], factor: int) -> Mapping[str, object]:
        return {**params, "nodes": int(params["nodes"]) * factor}

    def build(self, params: Mapping[str, Value]) -> Fabric:
        """The fabric of n GPUs with n x wavelengths cables.

        Raises ExperimentError for a value beyond its limits.
        """
        options = resolve(f"topology {self.kind}", self.parameters, params)
        nodes, directions, wavelengths = (int(options[k]) for k in ("nodes", "directions", "wavelengths"))
        builder = FabricBuilder(self.kind, (NodeGroup("gpu", 0, (nodes,), "g"),), dict(options))
        here = np.arange(nodes)
        for wavelength in range(wavelengths):
            builder.cables(
                here, (here + 1) % nodes, self.kind,
                float(options["rate"]), float(options["latency"]), wavelength=wavelength,
                one_way=directions == 1,
            )  # fmt: skip
        return builder.build()
