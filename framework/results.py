"""What a run found, as plain data: the documented JSON result (docs/results.md).

Times that end in `_us` or `_s` are emulated unless their name says declared; GB/s are declared, 1e9 bytes each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from railweave.framework.accuracy import Accuracy
from railweave.framework.errors import RunFailedError
from railweave.framework.model import Fabric

SCHEMA = {"name": "railweave.run", "version": 1}
VERDICTS = ("pass", "degraded", "invalid")


@dataclass(frozen=True, slots=True)
class FabricFigures:
    """`switches`: domains, rails, spines; `links`: directed; `rate_scale`: emulated rate over declared rate."""

    kind: str
    gpus: int
    switches: int
    links: int
    rate_scale: float

    @classmethod
    def of(cls, fabric: Fabric, rate_scale: float) -> FabricFigures:
        return cls(fabric.kind, fabric.n_gpus, fabric.n_nodes - fabric.n_gpus, fabric.n_links, rate_scale)


@dataclass(frozen=True, slots=True)
class ControllerFigures:
    """`rules`: how many the first intent holds; `install_s`: until the last switch confirmed it."""

    name: str
    rules: int
    install_s: float


@dataclass(frozen=True, slots=True)
class Row:
    """One iteration, or the summary of those of one size (`iteration` None): an nccl-tests row and what it is judged by.

    `t_s` its start on the run's clock. `netbw_gbs`: what all links of the fabric carried, headers counted, over the
    declared time. `bound_us`: the physical limit of the fabric as it was; `model_us`: the
    algorithm's closed form on the healthy fabric; None where there is none. Ratios are limit over measured.
    """

    iteration: int | None
    t_s: float
    size_bytes: int
    count: int
    type: str
    redop: str
    time_us: float
    declared_time_us: float
    algbw_gbs: float
    busbw_gbs: float
    netbw_gbs: float
    wrong: int
    bound_us: float | None
    ratio_to_bound: float | None
    model_us: float | None
    ratio_to_model: float | None
    packets: int
    retransmitted: int
    duplicates: int
    phase_us: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Iterations of one part of the run; times are None when there is none, or when their sizes differ."""

    iterations: tuple[int, ...]
    median_us: float | None
    min_us: float | None
    max_us: float | None


@dataclass(frozen=True, slots=True)
class Groups:
    """Iterations before the first fault, during it, and after the answer to it (a reroute or a repair).

    `speedup`: median during over median after; None when either is empty.
    """

    before: Group
    during: Group
    after: Group
    speedup: float | None


@dataclass(frozen=True, slots=True)
class LinkFigures:
    """One directed link over the whole run. `utilisation`: bytes sent over what its healthy rate allows."""

    name: str
    kind: str
    bytes: int
    drops: int
    utilisation: float
    h_score: float


@dataclass(frozen=True, slots=True)
class HealthPoint:
    """Scores as published at `t_s`: every rail and domain by name, and the links whose score changed."""

    t_s: float
    version: int
    elements: Mapping[str, float]
    links: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class FaultFigures:
    """A fault as written, and when it fired (None: never); `links`: how many it touched.

    Seconds after it, None where that did not come: `detected_s`, until the published scores said what it did (for a
    killed process: until its end was seen); `recovered_s`, until changed routes were in use (all rules in place).
    """

    text: str
    verb: str
    target: str
    t_s: float | None
    links: int
    detected_s: float | None = None
    recovered_s: float | None = None


@dataclass(frozen=True, slots=True)
class RerouteFigures:
    """Changed routes; `t_s` is when the last switch had confirmed them."""

    t_s: float
    version: int
    pairs_changed: int
    why: str


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Whether the emulation may be believed: pass, degraded or invalid, with reasons."""

    verdict: str
    reasons: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise RunFailedError(f"fidelity verdict {self.verdict!r}: it is one of {', '.join(VERDICTS)}.")


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall-clock seconds; `tear_down_s` None while the lab still stands."""

    bring_up_s: float
    run_s: float
    tear_down_s: float | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """Everything a run found. `experiment` is `plan.document()`; `versions` program -> version.

    `accuracy`: how well the scores told what the faults had done. `in_place`: whether the collective wrote over its input (nccl-tests' two groups of columns).
    `memory_peak_mb`: highest sum of the whole process tree's PSS; `cpu_s`: processor seconds by process.
    """

    experiment: Mapping[str, object]
    seed: int
    versions: Mapping[str, str]
    fabric: FabricFigures
    controller: ControllerFigures
    rows: tuple[Row, ...]
    iterations: Groups
    links: tuple[LinkFigures, ...]
    health: tuple[HealthPoint, ...]
    faults: tuple[FaultFigures, ...]
    reroutes: tuple[RerouteFigures, ...]
    fidelity: Fidelity
    timing: Timing
    accuracy: Accuracy = field(default_factory=lambda: Accuracy(None, None))
    in_place: bool = True
    memory_peak_mb: float | None = None
    cpu_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def summaries(self) -> tuple[Row, ...]:
        """One for each size, ascending."""
        return tuple(row for row in self.rows if row.iteration is None)

    @property
    def summary(self) -> Row:
        """That of the largest size."""
        return self.rows[-1]

    @property
    def wrong(self) -> int:
        """Elements that came out wrong, over all sizes."""
        return sum(row.wrong for row in self.summaries)

    def document(self) -> dict[str, object]:
        """The JSON result; schema name and version first."""
        return {"schema": dict(SCHEMA), **_plain(asdict(self))}


def from_document(document: Mapping[str, Any]) -> RunResult:
    """The result that `document()` gave. Raises RunFailedError for another schema or version."""
    schema = document.get("schema")
    if schema != SCHEMA:
        raise RunFailedError(
            f"this is not a {SCHEMA['name']} result of version {SCHEMA['version']} but {schema!r}. "
            "Use the railweave that wrote it."
        )
    try:
        return RunResult(
            experiment=document["experiment"],
            seed=document["seed"],
            versions=document["versions"],
            fabric=FabricFigures(**document["fabric"]),
            controller=ControllerFigures(**document["controller"]),
            rows=tuple(Row(**{**r, "phase_us": tuple(r["phase_us"])}) for r in document["rows"]),
            iterations=_groups_from(document["iterations"]),
            links=tuple(LinkFigures(**x) for x in document["links"]),
            health=tuple(HealthPoint(**x) for x in document["health"]),
            faults=tuple(FaultFigures(**x) for x in document["faults"]),
            reroutes=tuple(RerouteFigures(**x) for x in document["reroutes"]),
            fidelity=Fidelity(document["fidelity"]["verdict"], tuple(document["fidelity"]["reasons"])),
            timing=Timing(**document["timing"]),
            accuracy=Accuracy(**document["accuracy"]),
            in_place=document["in_place"],
            memory_peak_mb=document["memory_peak_mb"],
            cpu_s=document["cpu_s"],
        )
    except (KeyError, TypeError) as error:
        raise RunFailedError(f"the result is not whole: {error}. Run the experiment again.") from error


def _groups_from(document: Mapping[str, Any]) -> Groups:
    parts = {
        name: Group(**{**document[name], "iterations": tuple(document[name]["iterations"])})
        for name in ("before", "during", "after")
    }
    return Groups(**parts, speedup=document["speedup"])


def _plain(value: Any) -> Any:
    """Lists for tuples and Python's numbers for numpy's, so that JSON and msgpack give the same back."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value
