"""The time of one training iteration, by its terms."""

from dataclasses import dataclass, fields
from typing import Generic, TypeVar

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model.arrays import Float
from railweave.framework.training.all_gather import gather_s
from railweave.framework.training.clusters import Cluster
from railweave.framework.training.models import LanguageModel
from railweave.framework.training.strategies import Candidates, Strategy

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


def times(
    model: LanguageModel, cluster: Cluster, batch: int, chosen: Candidates, calibration: Calibration
) -> Terms[Float]:
    """Equations 3 to 7 and 10 for every candidate: terms of shape (n,)."""
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
    return at(times(model, cluster, batch, Candidates.of(strategy), calibration), 0)


def at(candidate_times: Terms[Float], i: int) -> IterationTime:
    """The terms of candidate i."""
    return IterationTime(*(float(getattr(candidate_times, f.name)[i]) for f in fields(Terms)))
