"""How many packets a queue marks by its length."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.parameters import Parameter
from railweave.framework.parameters.units import size

LEVELS = 8
"""Shares that a queue can mark: of this many packets."""
MARK_PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "marks",
        "auto",
        "text",
        "switches mark packets that enter a long queue (ECN); auto: if chooser or control goes by marks",
        choices=("auto", "on", "off"),
    ),
    Parameter("kmin", 20 << 10, "bytes", "queue from which a link marks some", minimum=0),
    Parameter("kmax", 80 << 10, "bytes", "queue from which a link marks all", minimum=0),
    Parameter("pmax", 1.0, "ratio", "share that it marks just below kmax", minimum=0, maximum=1),
)
"""What an engine with queues declares of its marks."""


@dataclass(frozen=True, slots=True)
class Ramp:
    """The share of packets that a queue marks: 0 up to `kmin_bytes`, then in proportion, `pmax` just below
    `kmax_bytes`, and all from there on (Zhu and others, DCQCN, SIGCOMM 2015, figure 5).

    Raises ExperimentError where the thresholds contradict each other.
    """

    kmin_bytes: float
    kmax_bytes: float
    pmax: float

    def __post_init__(self) -> None:
        if self.kmin_bytes > self.kmax_bytes:
            raise ExperimentError(
                f"kmin {size(int(self.kmin_bytes))} lies above kmax {size(int(self.kmax_bytes))}; "
                "switches mark more as queues grow from kmin to kmax."
            )

    def levels(self, queue_bytes: Float) -> Int64:
        """(n,): in how many of LEVELS packets each queue of (n,) bytes marks, rounded up."""
        above = (queue_bytes - self.kmin_bytes) / max(self.kmax_bytes - self.kmin_bytes, 1.0)
        share = np.where(queue_bytes >= self.kmax_bytes, 1.0, self.pmax * np.clip(above, 0.0, 1.0))
        levels: Int64 = np.ceil(share * LEVELS).astype(np.int64)
        return levels

    def __str__(self) -> str:
        return f"marks at enqueue from {size(int(self.kmin_bytes))} to {size(int(self.kmax_bytes))}"


def ramp_of(options: Mapping[str, object]) -> Ramp:
    """What the options of an engine with `MARK_PARAMETERS` say."""
    return Ramp(*(float(str(options[name])) for name in ("kmin", "kmax", "pmax")))
