"""Rail-only clusters: HB domains joined by isolated rails, no spine."""

from collections.abc import Mapping

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.hookspecs import Topology
from railweave.framework.model import CircuitSwitches, Fabric, FabricBuilder, NodeGroup, UnitKind
from railweave.framework.parameters import Parameter, Value, resolve

DOMAIN_RATE_BPS = 3.6e12
"""450 GB/s: one direction of an H100's NVLink."""
RAIL_RATE_BPS = 400e9
"""400 Gb/s: one NIC per GPU."""
MOST_GPUS = 1 << 20
"""GPUs at most: sixteen times the largest fabric that the engines are measured with."""


class RailOnly(Topology):
    """GPU (d, g) has a d-interface to the switch of HB domain d and an r-interface to the switch of rail g.
    With spares an OCS lies between the GPUs of a domain and the rails.

    Node ids: GPUs d * rails + g, then the domains, then the rails. Ports of a GPU's NIC switch: 1 the host, 2
    the d-interface, 3 the r-interface. A link's health counts for the switch at its end. Source: "How to
    Build Low-cost Networks for Large Language Models", sections 3 and 4 (one switch per rail).
    """

    kind = "rail-only"
    summary = "HB domains joined by isolated rails, no spine"
    parameters: tuple[Parameter, ...] = (
        Parameter("domains", 4, "count", "HB domains", minimum=1),
        Parameter("rails", 4, "count", "rails, as many as GPUs in a domain", minimum=1),
        Parameter(
            "domain_rate", DOMAIN_RATE_BPS, "rate", "a GPU's rate into its HB domain, per direction", 1
        ),
        Parameter("rail_rate", RAIL_RATE_BPS, "rate", "a GPU's rate onto its rail, per direction", 1),
        Parameter("domain_latency", 0.0, "time", "latency of a domain link", minimum=0),
        Parameter("rail_latency", 0.0, "time", "latency of a rail link", minimum=0),
        Parameter("spares", 0, "count", "spare GPUs of each domain, behind an OCS to its rails", minimum=0),
        Parameter("spare_domains", 0, "count", "spare HB domains, behind an OCS each", minimum=0),
        Parameter("spare_ports", 0, "count", "ports of an OCS to which circuits can move", minimum=0),
        Parameter(
            "ocs_time", 25e-6, "time", "until light passes over a circuit that is connected anew", minimum=0
        ),
    )
    examples: tuple[Mapping[str, object], ...] = (
        {"domains": 2, "rails": 2},
        {"domains": 3, "rails": 4},
        {"domains": 1, "rails": 3},
        {"domains": 4, "rails": 1},
        {"domains": 32, "rails": 32},
    )
    axis_names = ("domain", "rail")

    def build(self, params: Mapping[str, Value]) -> Fabric:
        """The fabric of D x K GPUs with 2 D K cables.

        Raises FabricError for a shape that cannot exist, ExperimentError for a value beyond its limits.
        """
        options = resolve(f"topology {self.kind}", self.parameters, params)
        return rail_builder(self.kind, options).build()

    def larger(self, params: Mapping[str, Value], factor: int) -> Mapping[str, object]:
        """More HB domains: a domain is a server, and has the GPUs that it has."""
        return {**params, "domains": int(params["domains"]) * factor}


def rail_builder(kind: str, options: Mapping[str, Value], spines: int = 0) -> FabricBuilder:
    """GPUs, domains, rails and spines of a fabric `kind`, every GPU cabled to its domain and its rail. Raises
    FabricError where the GPUs are too many."""
    domains, rails = int(options["domains"]), int(options["rails"])
    n = domains * rails
    if n > MOST_GPUS:
        raise FabricError(f"{kind} of {domains} x {rails} GPUs: {MOST_GPUS} is the most. Lower one of them.")
    groups = [
        NodeGroup("gpu", 0, (domains, rails), "g"),
        NodeGroup("domain", n, (domains,), "d"),
        NodeGroup("rail", n + domains, (rails,), "r"),
    ]
    if spines:
        groups.append(NodeGroup("spine", n + domains + rails, (spines,), "s"))
    circuits = _circuits(options)
    builder, gpu = FabricBuilder(kind, groups, dict(options), circuits=circuits), np.arange(n)
    ocs = None if circuits is None else [f"o{domain}" for domain in (gpu // rails).tolist()]
    # Ports count in link order, so all d-interfaces (port 2) come before any r-interface (port 3).
    for name, switch in (("domain", n + gpu // rails), ("rail", n + domains + gpu % rails)):
        rate_bps, latency_s = float(options[f"{name}_rate"]), float(options[f"{name}_latency"])
        passed = ocs if name == "rail" else None
        builder.cables(gpu, switch, name[0], rate_bps, latency_s, element=switch, ocs=passed)
    return builder


def _circuits(options: Mapping[str, Value]) -> CircuitSwitches | None:
    """An OCS between the GPUs of a domain and the rails, where there is something to set. Source: section 4.1
    of the paper: an idle GPU of the domain takes over, or an idle domain."""
    spares, domains, ports = (int(options[name]) for name in ("spares", "spare_domains", "spare_ports"))
    if not (spares or domains or ports):
        return None
    units = UnitKind("gpu", (1, 1), spares, 1), UnitKind("domain", (1,), domains, own_switches=True)
    return CircuitSwitches(float(options["ocs_time"]), ports, units)
