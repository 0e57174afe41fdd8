"""Optical rings: every wavelength between two neighbours is a cable of its own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.model import Fabric, FabricBuilder, NodeGroup
from railweave.framework.parameters import Parameter, Value

KIND = "ring"
UNUSED = "unused"
WAVELENGTH_RATE_BPS = 40e9
"""One wavelength in OpTree's setup (arXiv 2211.15119)."""
LARGEST = 1 << 16


class Ring:
    """GPU i is joined with GPU i + 1 (mod n) by one cable per wavelength, each with a rate of its own.

    A circuit that passes a node therefore never queues behind another wavelength. Cable w * n + i is wavelength
    w between i and i + 1; its first link goes up, its second down. Both have kind `ring`. With `directions` 1
    the way down exists physically, because a cable has two ends, but has kind `unused`: routers for rings leave
    it alone. Ports of a GPU's NIC switch: 1 the host, then two per wavelength in the order of link ids.
    Two GPUs have two cables per wavelength between them, as any ring.
    """

    summary = "GPUs in a ring, one cable per wavelength between neighbours"
    parameters: tuple[Parameter, ...] = (
        Parameter("nodes", 16, "count", "GPUs on the ring", minimum=2, maximum=LARGEST),
        Parameter("directions", 2, "count", "ways round that carry traffic", minimum=1, maximum=2),
        Parameter("wavelengths", 1, "count", "wavelengths per direction", minimum=1),
        Parameter("rate", WAVELENGTH_RATE_BPS, "rate", "rate of one wavelength, per direction"),
        Parameter("latency", 0.0, "time", "latency of a link between neighbours", minimum=0),
    )

    def build(self, params: Mapping[str, Value]) -> Fabric:
        """The fabric of n GPUs with n x wavelengths cables.

        Raises FabricError for a shape, rate or latency that cannot exist.
        """
        given = {p.name: params.get(p.name, p.default) for p in self.parameters}
        nodes, directions, wavelengths = (int(given[k]) for k in ("nodes", "directions", "wavelengths"))
        _check(nodes, directions, wavelengths, given)
        builder = FabricBuilder(KIND, (NodeGroup("gpu", 0, (nodes,), "g"),), dict(given))
        here = np.arange(nodes)
        for wavelength in range(wavelengths):
            builder.cables(
                here, (here + 1) % nodes, (KIND, KIND if directions == 2 else UNUSED),
                float(given["rate"]), float(given["latency"]), wavelength=wavelength,
            )  # fmt: skip
        return builder.build()


def _check(nodes: int, directions: int, wavelengths: int, given: Mapping[str, Value]) -> None:
    if not 2 <= nodes <= LARGEST:
        raise FabricError(f"{KIND} of {nodes} GPUs: it needs 2 to {LARGEST}. Change `--nodes`.")
    if directions not in (1, 2):
        raise FabricError(f"{KIND} with {directions} directions: there are 1 or 2. Change `--directions`.")
    if wavelengths < 1:
        raise FabricError(
            f"{KIND} of {wavelengths} wavelengths: it needs 1 or more. Raise `--wavelengths`; one is a plain ring."
        )
    if not 0 < float(given["rate"]) < float("inf"):
        raise FabricError(
            f"{KIND}: rate {given['rate']} bit/s is not a positive rate. Give one such as 40Gb/s; a dead link is a "
            "fault, not a rate."
        )
    if not 0 <= float(given["latency"]) < float("inf"):
        raise FabricError(
            f"{KIND}: latency {given['latency']} s is not a latency. Give 0 or more, such as 1us."
        )
