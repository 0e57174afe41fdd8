"""The result of a run, as plain data: the documented JSON result (docs/results.md).

Times that end in `_us` or `_s` are emulated unless their name says declared; GB/s are declared, 1e9 bytes
each. `job`: which job of the experiment a figure belongs to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from railweave.framework.errors import InputError, RunFailedError
from railweave.framework.model.findings import HealthPoint
from railweave.framework.model.traffic import RankOutcome
from railweave.framework.results.figures import (
    Accuracy,
    Bottleneck,
    ControllerFigures,
    ElementFigures,
    FabricFigures,
    FaultFigures,
    Fidelity,
    Groups,
    JobFigures,
    KeyFigures,
    LinkFigures,
    RerouteFigures,
    Row,
    WallTimes,
)
from railweave.framework.results.notebook import result_html

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA = {"name": "railweave.run", "version": 2}


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run. `experiment` is `plan.document()`; `versions` program -> version.

    `links`: all, or of more than 4,096 GPUs the busiest 1,000; `elements`: the switches that have a score.
    `accuracy`: how well the scores matched the ground truth of the faults. `bottlenecks`: one for each timed
    iteration and, last, one for all together.
    `memory_peak_mb`: highest sum of the whole process tree's PSS; `cpu_s`: processor seconds by process, or
    by stage where a model computed the run; `counts` counts its events.
    `ranks`: how those of a program ended, in that order.
    `jobs`: of an experiment with several, each; rows, bottlenecks and ranks have the number of theirs.
    `fairness`: Jain's index of the jobs' speeds, each relative to its own alone; None without that.
    `notes`: what a user should read, in the order it happened, plugins that failed after the run included.
    `key_figures`: of the run with all its jobs.
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
    timing: WallTimes
    accuracy: Accuracy = field(default_factory=lambda: Accuracy(None, None))
    memory_peak_mb: float | None = None
    cpu_s: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    bottlenecks: tuple[Bottleneck, ...] = ()
    ranks: tuple[RankOutcome, ...] = ()
    jobs: tuple[JobFigures, ...] = ()
    fairness: float | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    elements: tuple[ElementFigures, ...] = ()
    key_figures: KeyFigures = field(default_factory=KeyFigures)

    def of_job(self, which: int | str) -> "RunResult":
        """The result as it is of one job, by number or name, as if the experiment had this one alone.

        Raises InputError for a job that there is not.
        """
        matches = [job for job in self.jobs if which in (job.job, job.name)]
        if not matches:
            names = ", ".join(job.name for job in self.jobs) or "none: the experiment has one job alone"
            raise InputError(f"there is no job {which!r}; there are {names}.")
        job = matches[0]
        documents = self.experiment["jobs"]
        assert isinstance(documents, Sequence)
        rest = {key: value for key, value in self.experiment.items() if key not in ("jobs", "alone")}
        return replace(
            self,
            experiment={**rest, **documents[job.job]},
            fabric=replace(self.fabric, ranks=len(job.ranks)),
            rows=tuple(row for row in self.rows if row.job == job.job),
            iterations=job.iterations,
            bottlenecks=tuple(bottleneck for bottleneck in self.bottlenecks if bottleneck.job == job.job),
            ranks=tuple(rank for rank in self.ranks if rank.job == job.job),
            fidelity=job.fidelity,
            jobs=(),
            fairness=None,
        )

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
        return sum(row.wrong or 0 for row in self.summaries)

    @property
    def compared(self) -> int:
        """Elements that were compared with plain arithmetic, over all sizes."""
        return sum(row.compared or 0 for row in self.summaries)

    def __repr__(self) -> str:
        fabric, busbw = self.fabric, self.summary.busbw_gbs if self.rows else None
        figure = "" if busbw is None else f", busbw {busbw:.4g} GB/s"
        return f"<RunResult {self.fidelity.verdict}: {fabric.gpus} GPUs, {fabric.kind}{figure}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        if self.jobs:
            fragments = ((job, self.of_job(job.job)._repr_html_()) for job in self.jobs)
            return "".join(f"<h4>job {escape(job.name)}</h4>{fragment}" for job, fragment in fragments)
        return result_html(self.fabric, self.fidelity, self.rows, self.faults, len(self.reroutes))

    def document(self) -> dict[str, object]:
        """The JSON result; schema name and version first."""
        values = _adapter().dump_python(self, mode="json", fallback=np.generic.item, warnings=False)
        return {"schema": dict(SCHEMA), **values}


@cache
def _adapter() -> "TypeAdapter[RunResult]":
    from pydantic import TypeAdapter  # only documents need it

    return TypeAdapter(RunResult)


def from_document(document: Mapping[str, Any]) -> RunResult:
    """The result that `document()` gave.

    Raises RunFailedError for another schema or version, and a document with holes.
    """
    from pydantic import ValidationError

    schema = document.get("schema") if isinstance(document, Mapping) else None
    if schema != SCHEMA:
        raise RunFailedError(
            f"this is not a {SCHEMA['name']} result of version {SCHEMA['version']} but {schema!r}. "
            "Use the railweave that wrote it."
        )
    fields = {key: value for key, value in document.items() if key != "schema"}
    try:
        result = _adapter().validate_python(fields)
        wrong = _missing(result)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
    if wrong:
        raise RunFailedError(f"the result is not whole: {wrong}. Run the experiment again.")
    return result


def _missing(result: RunResult) -> str:
    """What of the rows has no job or no summary, "" if nothing; none at all are right if all jobs failed."""
    jobs = {job.job for job in result.jobs} or {result.iterations.job}
    last = {row.job: row for row in result.rows}
    if unknown := sorted(last.keys() - jobs):
        return f"rows are of job {unknown[0]}, which it does not list"
    if without := [job for job, row in last.items() if row.iteration is not None]:
        return f"rows have no summary of job {without[0]}"
    failed = bool(result.jobs) and all(job.error is not None for job in result.jobs)
    return "" if last or failed else "there are no rows"


def json_schema() -> dict[str, object]:
    """JSON schema (draft 2020-12) of results as they are written."""
    schema = _adapter().json_schema(mode="serialization")
    properties = {"schema": {"const": SCHEMA}, **schema["properties"]}
    return {
        **schema,
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "railweave result",
        "properties": properties,
        "required": list(properties),
    }
