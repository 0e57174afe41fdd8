"""The time of one training iteration, by its terms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.llm.all_gather import gather_s
from railweave.framework.llm.clusters import Cluster
from railweave.framework.llm.models import LanguageModel
from railweave.framework.llm.strategies import Candidates, Strategy
from railweave.framework.model.arrays import Float

ATTENTION_SLOWDOWN = 1 / 0.4
"""gamma of equation 10: the attention core reaches 40 % of what matrix products reach."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the paper leaves open. `gemm_factor`: how much longer the layers' matrix products take than at peak;
    1.5 reproduces table 4 but is explained nowhere. `attention`: operations of the attention core over B l s^2 h;
    24 by the formula that the paper cites, 16 by its derivation. `gamma`: see ATTENTION_SLOWDOWN."""

    gemm_factor: float = 1.0
    attention: float = 24.0
    gamma: float = ATTENTION_SLOWDOWN

    def __post_init__(self) -> None:
        if not (0 < self.gemm_factor < np.inf and 0 <= self.attention < np.inf and 0 <= self.gamma < np.inf):
            raise ExperimentError("calibration: the GEMM factor must be positive, the others 0 or more.")


@dataclass(frozen=True)
class Times:
    """Seconds of each term, (n,) each. Equations 2 to 7."""

    bubble_compute: Float
    bubble_network: Float
    steady_compute: Float
    steady_network: Float
    sync: Float

    @property
    def total(self) -> Float:
        """T_iter = T_bubble + T_LS + T_sync (equation 2)."""
        return (
            self.bubble_compute + self.bubble_network + self.steady_compute + self.steady_network + self.sync
        )


@dataclass(frozen=True, slots=True)
class IterationTime:
    """The terms of one strategy, in seconds."""

    bubble_compute_s: float
    bubble_network_s: float
    steady_compute_s: float
    steady_network_s: float
    sync_s: float

    @property
    def total_s(self) -> float:
        return (
            self.bubble_compute_s
            + self.bubble_network_s
            + self.steady_compute_s
            + self.steady_network_s
            + self.sync_s
        )


def times(
    model: LanguageModel, cluster: Cluster, batch: int, chosen: Candidates, calibration: Calibration
) -> Times:
    """Equations 3 to 7 and 10 for every candidate."""
    gpu = cluster.gpu
    fast, slow = gpu.domain_bytes_per_s, gpu.rail_bytes_per_s
    t, p, d, b, v = chosen.t, chosen.p, chosen.d, chosen.b, chosen.v
    pl = p // chosen.ph
    microbatches = batch // (d * b)
    work = (
        calibration.gemm_factor * model.gemm_flops(batch)
        + model.logit_flops(batch)
        + calibration.gamma * model.attention_flops(batch, calibration.attention)
    )
    microbatch_s = work * b / (gpu.flops_per_s * batch * p * t)  # equation 10
    tensor = 2.0 * b * model.hidden * model.sequence
    edge = tensor / t
    gradients = 2.0 * model.layers * model.layer_parameters / (p * t)
    gathers = 8 * model.layers * microbatches / p
    between = np.where(p > 1, 2 * microbatches * v * edge / np.where(pl > 1, slow, fast), 0.0)
    return Times(
        bubble_compute=(p - 1) * microbatch_s / v,
        bubble_network=2 * (pl - 1) * edge / slow + 2 * pl * (chosen.ph - 1) * edge / fast,
        steady_compute=np.asarray(microbatches * microbatch_s, float),
        steady_network=gathers * gather_s(tensor, chosen.th, t // chosen.th, fast, slow) + between,
        sync=2 * gather_s(gradients, chosen.dh, d // chosen.dh, fast, slow),
    )


def iteration_time(
    model: LanguageModel, cluster: Cluster, batch: int, strategy: Strategy, calibration: Calibration
) -> IterationTime:
    """The terms of one strategy, which must divide the job (constraints 11 to 18 are not checked here)."""
    found = times(model, cluster, batch, Candidates.of(strategy), calibration)
    return at(found, 0)


def at(found: Times, i: int) -> IterationTime:
    """The terms of candidate i."""
    return IterationTime(
        float(found.bubble_compute[i]),
        float(found.bubble_network[i]),
        float(found.steady_compute[i]),
        float(found.steady_network[i]),
        float(found.sync[i]),
    )
