"""The numbers of the health loop: each declared once, with its unit, default and limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self

from railweave.framework.parameters import Parameter, Value

Aggregate = Literal["mean", "min"]
LEAST_STEP = 0.001
"""Least step in which scores are published."""


def _number(parameter: Parameter) -> Any:
    return field(default=parameter.default, metadata={"parameter": parameter})


@dataclass(frozen=True, slots=True)
class HealthOptions:
    """How measurements become published scores, and how easily scores move routes. Times are emulated
    seconds, but for `control_delay_s`, which is declared. The experiment checks their limits.
    """

    step: float = _number(
        Parameter(
            "step",
            0.05,
            "ratio",
            "scores are published in steps of this, below 0.8 of a fifth of it",
            minimum=LEAST_STEP,
            maximum=0.5,
        )
    )
    smoothing_s: float = _number(
        Parameter("smoothing", 0.3, "time", "time constant of the queue", minimum=0, maximum=3600)
    )
    margin: float = _number(
        Parameter(
            "margin", 1.25, "factor", "how many times better another path must score", minimum=1, maximum=1000
        )
    )
    dwell_s: float = _number(
        Parameter("dwell", 2.0, "time", "a pair keeps its route at least this long", minimum=0, maximum=3600)
    )
    interval_s: float = _number(
        Parameter(
            "interval", 0.025, "time", "time between two samples of every link", minimum=0.001, maximum=60
        )
    )
    aggregate: Literal["mean", "min"] = _number(
        Parameter(
            "aggregate",
            "mean",
            "text",
            "how links make the score of their rail or domain: mean (by capacity) or min",
            choices=("mean", "min"),
        )
    )

    damping: Literal["demand", "score"] = _number(
        Parameter(
            "damping",
            "demand",
            "text",
            "what may move routes: a better score if the demand then ends sooner, or a better score alone",
            choices=("demand", "score"),
        )
    )

    control_delay_s: float = _number(
        Parameter(
            "control_delay",
            0.0,
            "time",
            "declared time from the decision to change routes until their rules are in use",
            minimum=0,
            maximum=3600,
        )
    )

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> Self:
        """Of parsed values by their names in the experiment file; the others keep their defaults."""
        names = {parameter.name: f.name for parameter, f in zip(PARAMETERS, fields(cls), strict=True)}
        chosen: dict[str, Any] = {names[name]: value for name, value in values.items()}
        return cls(**chosen)

    def document(self) -> dict[str, Value]:
        """The values by their names in the experiment file."""
        return {p.name: getattr(self, f.name) for p, f in zip(PARAMETERS, fields(self), strict=True)}


PARAMETERS: tuple[Parameter, ...] = tuple(f.metadata["parameter"] for f in fields(HealthOptions))
