"""Fat trees of equal switches: hosts below edge switches, pods of edge and aggregation switches, a core."""

from collections.abc import Mapping
from itertools import count

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.hookspecs import Topology
from railweave.framework.model import Fabric, FabricBuilder, NodeGroup
from railweave.framework.parameters import Parameter, Value, resolve
from railweave.topologies.rail_only import RAIL_RATE_BPS


class FatTree(Topology):
    """k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 core switches, k^3/4 GPUs: 5 k^2/4 switches of
    k ports and 3 k^3/4 cables, all of one rate, so that any permutation of the GPUs can be routed at it.

    GPU (pod, edge, port) is below that edge switch; every edge switch reaches all aggregation switches of its
    pod; aggregation switch i of every pod reaches core switches i.0 to i.(k/2 - 1). Node ids: GPUs, edge,
    aggregation, core switches, each (pod, i) with i counting fastest. A GPU has one interface, port 2 of its
    NIC switch. A cable's health counts for its upper switch. Source: Al-Fares et al., "A Scalable, Commodity
    Data Center Network Architecture", SIGCOMM 2008, section 3.
    """

    kind = "fat-tree"
    summary = "a three-tier fat tree of k-port switches, k^3/4 GPUs"
    parameters: tuple[Parameter, ...] = (
        Parameter("k", 4, "count", "ports of a switch: an even number", minimum=2, maximum=128),
        Parameter("link_rate", RAIL_RATE_BPS, "rate", "rate of a link, per direction", 1),
        Parameter("link_latency", 0.0, "time", "latency of a link", minimum=0),
    )
    examples: tuple[Mapping[str, object], ...] = ({"k": 4}, {"k": 2}, {"k": 6}, {"k": 16})
    axis_names = ("pod", "edge", "port")
    router = "spray"  # single paths use one of k/2 uplinks, or collide there (docs/routers.md)

    def larger(self, params: Mapping[str, Value], factor: int) -> Mapping[str, object]:
        """Of the next switches with enough ports."""
        k = int(params["k"])
        return {**params, "k": next(m for m in count(k, 2) if m**3 >= k**3 * factor)}

    def build(self, params: Mapping[str, Value]) -> Fabric:
        """Raises FabricError for an odd k, ExperimentError for a value beyond its limits."""
        options = resolve(f"topology {self.kind}", self.parameters, params)
        k, half = int(options["k"]), int(options["k"]) // 2
        if k % 2:
            raise FabricError(
                f"{self.kind} with k = {k}: half of a switch's ports go up, so k is even. "
                f"Use {k - 1} or {k + 1}."
            )
        gpus, tier = k * half * half, k * half
        edge, aggregation, core = gpus, gpus + tier, gpus + 2 * tier
        groups = (
            NodeGroup("gpu", 0, (k, half, half), "g"),
            NodeGroup("edge", edge, (k, half), "e"),
            NodeGroup("aggregation", aggregation, (k, half), "a"),
            NodeGroup("core", core, (half, half), "c"),
        )
        builder, up = FabricBuilder(self.kind, groups, dict(options)), np.arange(gpus)
        below, port = np.divmod(up, half)  # the k^3/4 cables of a tier leave its k^2/2 switches by k/2 ports
        pod, place = np.divmod(below, half)
        for kind, lower, upper in (
            ("host", up, edge + below),
            ("pod", edge + below, aggregation + pod * half + port),
            ("core", aggregation + below, core + place * half + port),
        ):
            rate_bps, latency_s = float(options["link_rate"]), float(options["link_latency"])
            builder.cables(lower, upper, kind, rate_bps, latency_s, element=upper)
        return builder.build()
