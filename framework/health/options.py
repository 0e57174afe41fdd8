"""The numbers of the health loop, with their defaults and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from railweave.framework.errors import ExperimentError

Aggregate = Literal["mean", "min"]


@dataclass(frozen=True, slots=True)
class HealthOptions:
    """How measurements become published scores and how easily scores move routes.

    `step` scores are published in multiples of it, and only when they moved by one; `smoothing_s` time constant
    of queue and loss; `margin` how many times better another path must score; `dwell_s` how long a route stays
    at least; `aggregate` how links make the score of their rail or domain: `mean` by capacity, or `min`.
    """

    step: float = 0.05
    smoothing_s: float = 0.3
    margin: float = 1.25
    dwell_s: float = 2.0
    aggregate: Aggregate = "mean"

    def __post_init__(self) -> None:
        limits = (
            ("step", self.step, 0.001, 0.5),
            ("smoothing_s", self.smoothing_s, 0.0, 3600.0),
            ("margin", self.margin, 1.0, 1000.0),
            ("dwell_s", self.dwell_s, 0.0, 3600.0),
        )
        for name, value, low, high in limits:
            if not low <= value <= high:
                raise ExperimentError(f"health {name} {value}: it must lie in {low:g}..{high:g}.")
        if self.aggregate not in ("mean", "min"):
            raise ExperimentError(f"health aggregate {self.aggregate!r}: it is one of mean, min.")
