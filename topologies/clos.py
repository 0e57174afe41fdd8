"""Clos networks as AI clusters build them: tiers T0 to T2, planes, dual ToR, rails, oversubscription."""

from collections.abc import Mapping

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.hookspecs import Topology
from railweave.framework.model import Fabric, FabricBuilder, NodeGroup
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Parameter, Value, resolve
from railweave.topologies.rail_only import RAIL_RATE_BPS


class Clos(Topology):
    """`pods` of `servers` with `gpus` each; in every plane and pod `t0` switches below GPUs and `t1` above
    them, and with three tiers `t2` above all pods. Each GPU has a port in every plane; planes share nothing.

    Servers are dealt out to the T0 switches of a pod in order; if `rail_optimised`, GPU i of all servers of
    a segment is below switch i of that segment. With `dual_tor`, T0 switches form pairs and each port is two,
    one to either. Every T0 reaches all T1 of its pod and plane; T1 switch j of every pod reaches T2 switches
    j t2/t1 to (j + 1) t2/t1 - 1 of its plane. A GPU's ports carry `gpu_rate` together; a switch's links up
    carry what its links down do, divided by the oversubscription. A cable's health counts for its upper
    switch. Words: OpenAI et al., "MRC", arXiv 2605.04333; NVIDIA Spectrum-X multiplane, arXiv 2605.21187.
    """

    kind = "clos"
    summary = "T0, T1, T2 switches in planes, with dual ToR or rails"
    parameters: tuple[Parameter, ...] = (
        Parameter("tiers", 2, "count", "2: T0 and T1; 3: T2 above several pods, too", minimum=2, maximum=3),
        Parameter("pods", 1, "count", "groups of servers with their own T0 and T1", minimum=1, maximum=256),
        Parameter("servers", 4, "count", "servers of a pod", minimum=1, maximum=256),
        Parameter("gpus", 4, "count", "GPUs of a server", minimum=1, maximum=256),
        Parameter("planes", 1, "count", "disjoint networks, with a port of every GPU", minimum=1, maximum=8),
        Parameter("t0", 4, "count", "T0 switches of a pod and plane", minimum=1, maximum=4096),
        Parameter("t1", 4, "count", "T1 switches of a pod and plane", minimum=1, maximum=4096),
        Parameter("t2", 4, "count", "with three tiers, T2 switches of a plane", minimum=1, maximum=4096),
        Parameter("dual_tor", False, "bool", "every port is two, to a pair of T0 switches"),
        Parameter("rail_optimised", False, "bool", "a T0 switch for each GPU of a server"),
        Parameter("oversubscription", 1.0, "factor", "rate of a switch's links down over those up", 1e-3),
        Parameter("gpu_rate", RAIL_RATE_BPS, "rate", "of all ports of a GPU, per direction", 1),
        Parameter("link_latency", 0.0, "time", "latency of a link", minimum=0),
    )
    examples: tuple[Mapping[str, object], ...] = (
        {"servers": 2, "gpus": 2, "t0": 2, "t1": 2, "planes": 2},
        {"servers": 4, "gpus": 2, "t0": 4, "t1": 2, "dual_tor": True},
        {"servers": 4, "gpus": 2, "t0": 2, "t1": 2, "rail_optimised": True, "oversubscription": 2},
        {"tiers": 3, "pods": 2, "servers": 2, "gpus": 2, "t0": 2, "t1": 2, "t2": 4},
        {"tiers": 3, "pods": 8, "servers": 16, "gpus": 8, "t0": 16, "t1": 8, "t2": 8},
    )
    axis_names = ("pod", "server", "gpu")
    router = "spray"  # over all planes and spines

    def larger(self, params: Mapping[str, Value], factor: int) -> Mapping[str, object]:
        """More pods of three tiers, or more servers below as many more T0 switches."""
        names = ("pods",) if int(params["tiers"]) == 3 else ("servers", "t0")
        return {**params, **{name: int(params[name]) * factor for name in names}}

    def build(self, params: Mapping[str, Value]) -> Fabric:
        """Raises FabricError for numbers that do not divide, ExperimentError for a value beyond limits."""
        options = resolve(f"topology {self.kind}", self.parameters, params)
        pods, servers, gpus, planes, t0, t1, t2 = (
            int(options[name]) for name in ("pods", "servers", "gpus", "planes", "t0", "t1", "t2")
        )
        three, dual, rails = (
            int(options["tiers"]) == 3,
            bool(options["dual_tor"]),
            bool(options["rail_optimised"]),
        )
        _check(pods, servers, gpus, t0, t1, t2, three=three, dual=dual, rails=rails)
        n = pods * servers * gpus
        first_t0, first_t1 = n, n + planes * pods * t0
        first_t2 = first_t1 + planes * pods * t1
        groups = [
            NodeGroup("gpu", 0, (pods, servers, gpus), "g"),
            NodeGroup("t0", first_t0, (planes, pods, t0), "a"),
            NodeGroup("t1", first_t1, (planes, pods, t1), "b"),
            *([NodeGroup("t2", first_t2, (planes, t2), "c")] if three else []),
        ]
        builder, latency_s = (
            FabricBuilder(self.kind, tuple(groups), dict(options)),
            float(options["link_latency"]),
        )
        over, legs = float(options["oversubscription"]), 2 if dual else 1
        port_bps = float(options["gpu_rate"]) / (planes * legs)
        pod, server, gpu = np.unravel_index(np.arange(n), (pods, servers, gpus))
        below = _below(server, gpu, servers, gpus, t0 // legs, rails=rails)
        for plane in range(planes):
            for leg in range(legs):
                upper = first_t0 + (plane * pods + pod) * t0 + below * legs + leg
                builder.cables(np.arange(n), upper, "host", port_bps, latency_s, element=upper)
        up_bps = port_bps * (servers * gpus * legs // t0) / (over * t1)
        lower, j = np.divmod(np.arange(planes * pods * t0 * t1), t1)
        upper = first_t1 + lower // t0 * t1 + j
        builder.cables(first_t0 + lower, upper, "t0", up_bps, latency_s, element=upper)
        if three:
            uplinks = t2 // t1
            lower, m = np.divmod(np.arange(planes * pods * t1 * uplinks), uplinks)
            upper = first_t2 + lower // (pods * t1) * t2 + lower % t1 * uplinks + m
            builder.cables(
                first_t1 + lower, upper, "t1", up_bps * t0 / (over * uplinks), latency_s, element=upper
            )
        return builder.build()


def _below(server: Int64, gpu: Int64, servers: int, gpus: int, switches: int, *, rails: bool) -> Int64:
    """Of every GPU, which switch of its pod it is below, or which pair."""
    below_one = servers * gpus // switches
    return np.asarray(server // below_one * gpus + gpu if rails else (server * gpus + gpu) // below_one)


def _check(
    pods: int, servers: int, gpus: int, t0: int, t1: int, t2: int, *, three: bool, dual: bool, rails: bool
) -> None:
    """Raises FabricError for what cannot be wired evenly."""
    groups, pairs = t0 // 2 if dual else t0, " or pairs" * dual
    reasons = {
        f"t0 = {t0} with dual_tor: T0 switches form pairs. Take an even number.": dual and t0 % 2,
        f"t0 = {t0}, rail-optimised: {gpus} GPUs of a server need {gpus} switches{pairs}. Take a multiple of "
        f"{gpus * (1 + dual)}.": rails and groups % gpus,
        f"t0 = {t0}: {servers * gpus} GPUs of a pod cannot be dealt out evenly. Take a number of T0 switches "
        "that divides them.": servers * gpus % max(groups, 1),
        f"pods = {pods} with two tiers: nothing joins them. Take tiers = 3.": not three and pods > 1,
        f"t2 = {t2}: every T1 switch of {t1} has as many. Take a multiple of {t1}.": three and t2 % t1,
    }
    for text, wrong in reasons.items():
        if wrong:
            raise FabricError(f"clos: {text}")
