"""The training runs of the paper's table 4.

Measured by Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models". The paper's
own computed times come out within 0.012 s with a GEMM factor of 1.5, 16 operations of attention, and NVLink
as vendors quote it, both directions together (600 GB/s): values found by fitting.
"""

from dataclasses import dataclass

from railweave.framework.training.clusters import GPUS, Cluster, Gpu
from railweave.framework.training.iteration import Calibration, IterationTime, iteration_time
from railweave.framework.training.models import MODELS
from railweave.framework.training.strategies import Strategy


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

    def time(self, calibration: Calibration, gpu: Gpu = GPUS["a100"]) -> IterationTime:
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
