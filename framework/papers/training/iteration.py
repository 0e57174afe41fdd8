"""The time of one training iteration, by its terms, and the training runs of the paper's table 4.

Measured by Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models". The paper's
own computed times come out within 0.012 s with a GEMM factor of 1.5, 16 operations of attention, and NVLink
as vendors quote it, both directions together (600 GB/s): values found by fitting.
"""

from dataclasses import dataclass, fields
from typing import Generic, TypeVar

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model.arrays import Float
from railweave.framework.papers.training.all_gather import gather_s
from railweave.framework.papers.training.clusters import GPUS, Cluster, GpuKind
from railweave.framework.papers.training.models import MODELS, LanguageModel
from railweave.framework.papers.training.strategies import Strategy, StrategyTable

ATTENTION_SLOWDOWN = 1 / 0.4
"""gamma of equation 10: the attention core reaches 40 % of what matrix products reach."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the paper leaves open. `gemm_factor`: time of the layers' matrix products over their time at peak;
    1.5 reproduces table 4, but the paper does not explain it. `attention`: operations of the attention core
    over B l s^2 h; 24 by the formula that the paper cites, 16 by its derivation. `gamma`: see
    ATTENTION_SLOWDOWN."""

    gemm_factor: float = 1.0
    attention: float = 24.0
    gamma: float = ATTENTION_SLOWDOWN

    def __post_init__(self) -> None:
        if not (0 < self.gemm_factor < np.inf and 0 <= self.attention < np.inf and 0 <= self.gamma < np.inf):
            raise ExperimentError("calibration: the GEMM factor must be positive, the others 0 or more.")


N = TypeVar("N", float, Float)


@dataclass(frozen=True)
class Terms(Generic[N]):
    """The terms of an iteration's time, in seconds. Equations 2 to 7."""

    bubble_compute_s: N
    bubble_network_s: N
    steady_compute_s: N
    steady_network_s: N
    sync_s: N

    @property
    def total_s(self) -> N:
        """T_iter = T_bubble + T_LS + T_sync (equation 2)."""
        bubble_s = self.bubble_compute_s + self.bubble_network_s
        return bubble_s + self.steady_compute_s + self.steady_network_s + self.sync_s


IterationTime = Terms[float]


def compute_s(model: LanguageModel, gpu: GpuKind, calibration: Calibration) -> float:
    """What one GPU would compute for a sample, forward and backward. Equation 10, for B = b = p = t = 1."""
    work = (
        calibration.gemm_factor * model.gemm_flops(1)
        + model.logit_flops(1)
        + calibration.gamma * model.attention_flops(1, calibration.attention)
    )
    return work / gpu.flops_per_s


def times(
    model: LanguageModel, cluster: Cluster, batch: int, chosen: StrategyTable, calibration: Calibration
) -> Terms[Float]:
    """Equations 3 to 7 and 10 for every candidate: terms of shape (n,)."""
    gpu = cluster.gpu
    fast, slow = gpu.domain_bytes_per_s, gpu.rail_bytes_per_s
    t, p, d, b, v = chosen.t, chosen.p, chosen.d, chosen.b, chosen.v
    pl = p // chosen.ph
    microbatches = batch // (d * b)
    microbatch_s = compute_s(model, gpu, calibration) * b / (p * t)
    tensor = 2.0 * b * model.hidden * model.sequence
    edge = tensor / t
    gradients = 2.0 * model.layers * model.layer_parameters / (p * t)
    gathers = 8 * model.layers * microbatches / p
    between = np.where(p > 1, 2 * microbatches * v * edge / np.where(pl > 1, slow, fast), 0.0)
    return Terms(
        bubble_compute_s=(p - 1) * microbatch_s / v,
        bubble_network_s=2 * (pl - 1) * edge / slow + 2 * pl * (chosen.ph - 1) * edge / fast,
        steady_compute_s=np.asarray(microbatches * microbatch_s, float),
        steady_network_s=gathers * gather_s(tensor, chosen.th, t // chosen.th, fast, slow) + between,
        sync_s=2 * gather_s(gradients, chosen.dh, d // chosen.dh, fast, slow),
    )


def iteration_time(
    model: LanguageModel, cluster: Cluster, batch: int, strategy: Strategy, calibration: Calibration
) -> IterationTime:
    """The terms of one strategy, which must divide the job (constraints 11 to 18 are not checked here)."""
    return at(times(model, cluster, batch, StrategyTable.of(strategy), calibration), 0)


def at(candidate_times: Terms[Float], i: int) -> IterationTime:
    """The terms of candidate i."""
    return IterationTime(*(float(getattr(candidate_times, f.name)[i]) for f in fields(Terms)))


@dataclass(frozen=True, slots=True)
class Case:
    """One row of table 4, on A100s in domains of 8 (DGX), with t = 8 inside the domain."""

    model: str
    t: int
    p: int
    gpus: int
    batch: int
    b: int
    v: int
    measured_s: float
    computed_s: float

    @property
    def strategy(self) -> Strategy:
        return Strategy(self.t, self.p, self.gpus // (self.t * self.p), self.b, self.v, self.t, 1, 1)

    def time(self, calibration: Calibration, gpu: GpuKind = GPUS["a100"]) -> IterationTime:
        """The iteration by equations 2 to 7 and 10."""
        cluster = Cluster(self.gpus, 8, gpu)
        return iteration_time(MODELS[self.model], cluster, self.batch, self.strategy, calibration)


TABLE_4 = (
    Case("gpt-22b", 8, 1, 8, 4, 4, 1, 1.10, 0.78),
    Case("gpt-175b", 8, 8, 64, 64, 1, 3, 13.75, 11.89),
    Case("gpt-530b", 8, 35, 280, 280, 1, 3, 37.83, 35.29),
    Case("gpt-530b", 8, 35, 2240, 2240, 1, 3, 39.15, 35.56),
    Case("gpt-1t", 8, 64, 512, 512, 1, 1, 71.49, 70.69),
)
