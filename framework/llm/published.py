"""The training runs of the paper's table 4, measured elsewhere, and the calibration that gives its computed times.

Measured: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from railweave.framework.llm.clusters import GPUS, Cluster
from railweave.framework.llm.iteration import Calibration, IterationTime, iteration_time
from railweave.framework.llm.models import MODELS
from railweave.framework.llm.strategies import Strategy

CALIBRATED = Calibration(gemm_factor=1.5, attention=16.0)
"""With BOTH_DIRECTIONS, and found by fitting: reproduces all computed times of table 4 within 0.012 s."""
BOTH_DIRECTIONS = 600e9
"""NVLink of an A100 as vendors quote it, bytes per second of both directions together."""


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

    def time(self, calibration: Calibration, domain_bytes_per_s: float | None = None) -> IterationTime:
        """The iteration by equations 2 to 7 and 10."""
        gpu = GPUS["a100"]
        if domain_bytes_per_s is not None:
            gpu = replace(gpu, domain_bytes_per_s=domain_bytes_per_s)
        cluster = Cluster(self.gpus, 8, gpu)
        return iteration_time(MODELS[self.model], cluster, self.batch, self.strategy, calibration)


TABLE_4 = (
    Case("gpt-22b", 8, 1, 8, 4, 4, 1, 1.10, 0.78),
    Case("gpt-175b", 8, 8, 64, 64, 1, 3, 13.75, 11.89),
    Case("gpt-530b", 8, 35, 280, 280, 1, 3, 37.83, 35.29),
    Case("gpt-530b", 8, 35, 2240, 2240, 1, 3, 39.15, 35.56),
    Case("gpt-1t", 8, 64, 512, 512, 1, 1, 71.49, 70.69),
)
