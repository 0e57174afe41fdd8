"""Rail-only clusters: HB domains joined by isolated rails, no spine."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.model import Fabric, FabricBuilder, NodeGroup
from railweave.framework.parameters import Parameter, Value

KIND = "rail-only"
DOMAIN_RATE_BPS = 3.6e12
"""450 GB/s: one direction of an H100's NVLink."""
RAIL_RATE_BPS = 400e9
"""400 Gb/s: one NIC per GPU."""


class RailOnly:
    """GPU (d, g) has a d-interface to the switch of HB domain d and an r-interface to the switch of rail g.

    Node ids: GPUs d * rails + g, then the domains, then the rails. Ports of a GPU's NIC switch: 1 the host,
    2 the d-interface, 3 the r-interface. A link's health counts for the switch at its end.
    Source: "How to Build Low-cost Networks for Large Language Models", sections 3 and 4 (one switch a rail).
    """

    summary = "HB domains joined by isolated rails, no spine"
    parameters: tuple[Parameter, ...] = (
        Parameter("domains", 4, "count", "HB domains", minimum=1),
        Parameter("rails", 4, "count", "rails, which is the GPUs of one domain", minimum=1),
        Parameter("domain_rate", DOMAIN_RATE_BPS, "rate", "a GPU's rate into its HB domain, per direction"),
        Parameter("rail_rate", RAIL_RATE_BPS, "rate", "a GPU's rate onto its rail, per direction"),
        Parameter("domain_latency", 0.0, "time", "latency of a domain link", minimum=0),
        Parameter("rail_latency", 0.0, "time", "latency of a rail link", minimum=0),
    )

    def build(self, params: Mapping[str, Value]) -> Fabric:
        """The fabric of D x K GPUs with 2 D K cables.

        Raises FabricError for a shape, rate or latency that cannot exist.
        """
        given = {p.name: params.get(p.name, p.default) for p in self.parameters}
        builder = FabricBuilder(KIND, rail_groups(KIND, given), dict(given))
        join_rails(builder, given)
        return builder.build()


def rail_groups(kind: str, given: Mapping[str, Value]) -> tuple[NodeGroup, NodeGroup, NodeGroup]:
    """GPUs, domains and rails of a fabric `kind`. Raises FabricError where they cannot exist."""
    domains, rails = int(given["domains"]), int(given["rails"])
    _check(kind, domains, rails, given)
    n = domains * rails
    return (
        NodeGroup("gpu", 0, (domains, rails), "g"),
        NodeGroup("domain", n, (domains,), "d"),
        NodeGroup("rail", n + domains, (rails,), "r"),
    )


def join_rails(builder: FabricBuilder, given: Mapping[str, Value]) -> None:
    """Cable every GPU to its domain and its rail."""
    domains, rails = int(given["domains"]), int(given["rails"])
    gpu = np.arange(domains * rails)
    domain_switch, rail_switch = len(gpu) + gpu // rails, len(gpu) + domains + gpu % rails
    # Ports count in link order, so all d-interfaces (port 2) come before any r-interface (port 3).
    builder.cables(
        gpu, domain_switch, "d", float(given["domain_rate"]), float(given["domain_latency"]),
        element=domain_switch,
    )  # fmt: skip
    builder.cables(
        gpu, rail_switch, "r", float(given["rail_rate"]), float(given["rail_latency"]),
        element=rail_switch,
    )  # fmt: skip


def _check(kind: str, domains: int, rails: int, given: Mapping[str, Value]) -> None:
    for name, count in (("domains", domains), ("rails", rails)):
        if count < 1:
            raise FabricError(f"{kind} of {count} {name}: it needs 1 or more. Raise `--{name}`.")
    if domains * rails < 2:
        raise FabricError(f"{kind} of 1 GPU: a fabric needs 2 or more. Raise `--domains` or `--rails`.")
    for name in ("domain_rate", "rail_rate"):
        if not 0 < float(given[name]) < float("inf"):
            raise FabricError(
                f"{kind}: {name} {given[name]} bit/s is not a positive rate. Give one such as 400Gb/s; "
                "a dead interface is a fault, not a rate."
            )
    for name in ("domain_latency", "rail_latency"):
        if not 0 <= float(given[name]) < float("inf"):
            raise FabricError(
                f"{kind}: {name} {given[name]} s is not a latency. Give 0 or more, such as 1us."
            )
