"""Rail-optimised clusters: the same HB domains and rails as rail-only, the rails joined by spines."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.model import Fabric, FabricBuilder, NodeGroup
from railweave.framework.parameters import Parameter, Value
from railweave.topologies.rail_only import RailOnly, join_rails, rail_groups

KIND = "rail-optimised"


class RailOptimised:
    """GPU (d, g) as in rail-only; the switch of rail g is a leaf with one trunk to every spine.

    A leaf's trunks carry together what its GPUs can send, divided by the oversubscription: each runs at
    domains x rail_rate / (oversubscription x spines). Node ids: GPUs d * rails + g, the domains, the rails, the
    spines. Ports of a GPU's NIC switch: 1 the host, 2 the d-interface, 3 the r-interface. A trunk's health counts
    for its spine. Source: "How to Build Low-cost Networks for Large Language Models".
    """

    summary = "HB domains and rails joined by spines"
    parameters: tuple[Parameter, ...] = (
        *RailOnly.parameters,
        Parameter("spines", 2, "count", "spine switches", minimum=1),
        Parameter(
            "oversubscription", 1.0, "factor", "a leaf's rate to its GPUs over its rate to the spines", minimum=1e-3
        ),
        Parameter("spine_latency", 0.0, "time", "latency of a link to a spine", minimum=0),
    )  # fmt: skip

    def build(self, params: Mapping[str, Value]) -> Fabric:
        """The fabric of D x K GPUs with 2 D K + K S cables.

        Raises FabricError for a shape, rate or latency that cannot exist.
        """
        given = {p.name: params.get(p.name, p.default) for p in self.parameters}
        spines, over, latency = (
            int(given["spines"]),
            float(given["oversubscription"]),
            float(given["spine_latency"]),
        )
        if spines < 1:
            raise FabricError(
                f"{KIND} of {spines} spines: it needs 1 or more. Raise `--spines`, or use `--topology rail-only`."
            )
        if not 0 < over < float("inf"):
            raise FabricError(f"{KIND}: oversubscription {over} is not a positive number. Give 1 for none.")
        if not 0 <= latency < float("inf"):
            raise FabricError(
                f"{KIND}: spine_latency {latency} s is not a latency. Give 0 or more, such as 1us."
            )
        *_, rail = groups = rail_groups(KIND, given)
        first = rail.first + rail.size
        builder = FabricBuilder(KIND, (*groups, NodeGroup("spine", first, (spines,), "s")), dict(given))
        join_rails(builder, given)
        leaf, spine = np.divmod(np.arange(rail.size * spines), spines)
        trunk_bps = int(given["domains"]) * float(given["rail_rate"]) / (over * spines)
        builder.cables(rail.first + leaf, first + spine, "s", trunk_bps, latency, element=first + spine)
        return builder.build()
