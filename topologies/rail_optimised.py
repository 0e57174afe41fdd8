"""Rail-optimised clusters: the same HB domains and rails as rail-only, the rails joined by spines."""

from collections.abc import Mapping

import numpy as np

from railweave.framework.model import Fabric
from railweave.framework.parameters import Parameter, Value, resolve
from railweave.topologies.rail_only import RailOnly, rail_builder


class RailOptimised(RailOnly):
    """GPU (d, g) as in rail-only; the switch of rail g is a leaf with one trunk to every spine.

    A leaf's trunks carry together what its GPUs can send, divided by the oversubscription: each runs at
    domains x rail_rate / (oversubscription x spines). Node ids: GPUs d * rails + g, the domains, the rails,
    the spines. Ports of a GPU's NIC switch: 1 the host, 2 the d-interface, 3 the r-interface. A trunk's
    health counts for its spine. Source: "How to Build Low-cost Networks for Large Language Models".
    """

    kind = "rail-optimised"
    summary = "HB domains and rails joined by spines"
    router = "spray"  # over all spines
    parameters: tuple[Parameter, ...] = (
        *RailOnly.parameters,
        Parameter("spines", 2, "count", "spine switches", minimum=1, maximum=4096),
        Parameter(
            "oversubscription", 1.0, "factor", "a leaf's rate to its GPUs over its rate to the spines", 1e-3
        ),
        Parameter("spine_latency", 0.0, "time", "latency of a link to a spine", minimum=0),
    )
    examples: tuple[Mapping[str, object], ...] = (
        {"domains": 2, "rails": 3, "spines": 2},
        {"domains": 3, "rails": 2, "spines": 1},
        {"domains": 32, "rails": 32, "spines": 16},
    )

    def build(self, params: Mapping[str, Value]) -> Fabric:
        """The fabric of D x K GPUs with 2 D K + K S cables.

        Raises FabricError for a shape that cannot exist, ExperimentError for a value beyond its limits.
        """
        options = resolve(f"topology {self.kind}", self.parameters, params)
        domains, rails, spines = (int(options[name]) for name in ("domains", "rails", "spines"))
        builder = rail_builder(self.kind, options, spines)
        leaf, spine = np.divmod(np.arange(rails * spines), spines)
        first = domains * rails + domains  # the rails follow the domains, the spines the rails
        up_bps = domains * float(options["rail_rate"]) / float(options["oversubscription"])
        spine += first + rails
        builder.cables(
            first + leaf, spine, "s", up_bps / spines, float(options["spine_latency"]), element=spine
        )
        return builder.build()
