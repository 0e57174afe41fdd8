"""The result of a run, as plain data: the documented JSON result (docs/results.md).

Times that end in `_us` or `_s` are emulated unless their name says declared; GB/s are declared, 1e9 bytes
each. `job`: which job of the experiment a figure belongs to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from railweave.framework.errors import InputError, RunFailedError
from railweave.framework.model.findings import HealthPoint
from railweave.framework.model.traffic import RankOutcome
from railweave.framework.results.detection import Accuracy
from railweave.framework.results.fidelity import Fidelity
from railweave.framework.results.key_figures import BusbwFigures, KeyFigures
from railweave.framework.results.notebook import result_html

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA = {"name": "railweave.run", "version": 2}
READABLE = (1, 2)
"""Versions of the schema that `from_document` reads."""


@dataclass(frozen=True, slots=True)
class FabricFigures:
    """`switches`: domains, rails, spines; `links`: directed; `rate_scale`: emulated rate over declared rate;
    `ranks`: how many of the GPUs take part, None: all; `packet_latency_us`: what the emulator adds to a
    packet from a GPU to the next, emulated, None where nothing was measured."""

    kind: str
    gpus: int
    switches: int
    links: int
    rate_scale: float
    ranks: int | None = None
    packet_latency_us: float | None = None


@dataclass(frozen=True, slots=True)
class ControllerFigures:
    """`rules`: how many the first intent holds; `install_s`: until the last switch confirmed it."""

    name: str
    rules: int
    install_s: float


@dataclass(frozen=True, slots=True)
class Row:
    """One iteration, or the summary of those of one size (`iteration` None): an nccl-tests row and what it is
    judged by.

    `t_s` its start on the run's clock. `redop` is none where nothing is reduced, `root` -1 where there is
    none. `netbw_gbs`: what all links of the fabric carried, headers counted, over the declared time.
    `bound_us`: the physical limit of the fabric as it was; `model_us`: the algorithm's closed form on the
    healthy fabric; None where there is none. Ratios are limit over measured. `wrong` of `compared` elements;
    None for a program, of which nothing is compared, and where no data was carried; then `retransmitted` and
    `duplicates` are None, too. `compute_us`: for how long of `time_us` what it consists of was computations;
    None where the schedule has none. `predicted_us`: what a model says of `time_us`, if it was asked.
    `rank_fairness`: Jain's index of the ranks' throughput; `busbw_figures`: of a summary.
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
    busbw_gbs: float | None
    netbw_gbs: float
    wrong: int | None
    bound_us: float | None
    ratio_to_bound: float | None
    model_us: float | None
    ratio_to_model: float | None
    packets: int
    retransmitted: int | None
    duplicates: int | None
    phase_us: tuple[float, ...]
    root: int = -1
    job: int = 0
    compared: int | None = None
    wrong_icrc: int = 0
    compute_us: float | None = None
    predicted_us: float | None = None
    rank_fairness: float | None = None
    busbw_figures: BusbwFigures | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Iterations of one part of the run; figures are None when there is none, or when their sizes differ.

    `declared_us`: the median at declared rates; `busbw_gbs`: the median of their busbw; `ratio`: the median
    time over that of the iterations before the first fault, None of these themselves.
    """

    iterations: tuple[int, ...]
    median_us: float | None
    min_us: float | None
    max_us: float | None
    declared_us: float | None = None
    busbw_gbs: float | None = None
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Groups:
    """Iterations before the first fault, during it, and after the answer to it (a reroute or a repair).

    `speedup`: median during over median after; None when either is empty.
    """

    before: Group
    during: Group
    after: Group
    speedup: float | None
    job: int = 0


@dataclass(frozen=True, slots=True)
class LinkFigures:
    """One directed link over the whole run. `utilisation`: bytes sent over what its healthy rate allows.
    `age_s`: how long before the end its rate was last measured; None: never, and its score says nothing.
    `loss`: the share of the packets sent that did not reach its far end. `job_bytes`: of several jobs, the
    data of each by its routes; None of a program."""

    name: str
    kind: str
    bytes: int
    drops: int
    utilisation: float
    h_score: float
    age_s: float | None = None
    loss: float = 0.0
    job_bytes: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class ElementFigures:
    """One switch over the whole run. `links`: how many make up its score; `bytes` they sent together;
    `utilisation`: of the busiest of them; `h_score` at the end."""

    name: str
    links: int
    bytes: int
    utilisation: float
    h_score: float


@dataclass(frozen=True, slots=True)
class FaultFigures:
    """A fault as written, and when it fired (None: never); `links`: how many it touched.

    Seconds after it, None where that did not come: `detected_s`, until the published scores showed it (for a
    killed process: until its end was seen); `recovered_s`, until routes that answer it were in use (all rules
    in place); `published_s`, until the score of what it hit was published below the level that the truth asks
    (detection.py, `asked_below`); `allowance_s`, until it has to be, of a `degrade` after which enough
    packets waited. `visible`: whether the ground truth of any judged score changed by more than the margin;
    None where that is not known. `link_scores`: of the links it touched, as last published before the next
    fault of links.
    """

    text: str
    verb: str
    target: str
    t_s: float | None
    links: int
    detected_s: float | None = None
    recovered_s: float | None = None
    visible: bool | None = None
    job: int = 0
    published_s: float | None = None
    link_scores: Mapping[str, float] = field(default_factory=dict)
    allowance_s: float | None = None


@dataclass(frozen=True, slots=True)
class RerouteFigures:
    """Changed routes; `t_s` is when the last switch had confirmed them."""

    t_s: float
    version: int
    pairs_changed: int
    why: str
    job: int = 0


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """What held an iteration, or all together (`iteration` None): the `share` of the time for which `element`
    did, on the chain of transfers that the time consists of.

    `element` None where the link belongs to no switch, or is slow and the other links of its switch are not;
    `link`: the one of its links that held most, and the `nic` whose cable that is, if it is one; `rank`:
    whose link that is, or who sent most over it where it joins two switches. `balanced`: no element was
    slower or busier than its like by 10 % or more, and this is only the one that the chain passed most.
    `spared`: how many equal ways carried nothing: elements that join the same nodes, or parallel cables.
    """

    iteration: int | None
    element: str | None
    link: str
    rank: int
    share: float
    balanced: bool
    job: int = 0
    nic: str | None = None
    spared: int = 0

    @property
    def name(self) -> str:
        """What users call it: `rail:1`, or `g2.1->r1 (nic:2.1)`."""
        return self.element or (f"{self.link} ({self.nic})" if self.nic else self.link)


@dataclass(frozen=True, slots=True)
class JobFigures:
    """One of several jobs. `ranks`: the GPU of each of its ranks. `error`: why it failed, None if it did not.

    `alone_us` and `together_us`: medians of the iterations that it ran by itself, and of those for at least
    half of whose time an iteration of another job was under way, before the first fault if there are any;
    `interference`: together over alone. None where there is nothing to take it from. `element_bytes`: what
    its data put on the links of each switch over the whole run (on links of none, by their names), None of a
    program.
    """

    job: int
    name: str
    ranks: tuple[str, ...]
    iterations: Groups
    fidelity: Fidelity
    alone_us: float | None
    together_us: float | None
    interference: float | None
    element_bytes: Mapping[str, int] | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall-clock seconds; `tear_down_s` None while the lab still stands."""

    bring_up_s: float
    run_s: float
    tear_down_s: float | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run. `experiment` is `plan.document()`; `versions` program -> version.

    `links`: all, or of more than 4,096 GPUs the busiest 1,000; `elements`: the switches that have a score.
    `accuracy`: how well the scores matched the ground truth of the faults. `bottlenecks`: one for each timed
    iteration and, last, one for all together.
    `memory_peak_mb`: highest sum of the whole process tree's PSS; `cpu_s`: processor seconds by process, or
    by stage where a model computed the run, of which `counts` counts the events.
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
    timing: Timing
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
        found = [job for job in self.jobs if which in (job.job, job.name)]
        if not found:
            there = ", ".join(job.name for job in self.jobs) or "none: the experiment has one job alone"
            raise InputError(f"there is no job {which!r}; there are {there}.")
        job = found[0]
        documents = self.experiment["jobs"]
        assert isinstance(documents, Sequence)
        rest = {key: value for key, value in self.experiment.items() if key not in ("jobs", "alone")}
        return replace(
            self,
            experiment={**rest, **documents[job.job]},
            fabric=replace(self.fabric, ranks=len(job.ranks)),
            rows=tuple(row for row in self.rows if row.job == job.job),
            iterations=job.iterations,
            bottlenecks=tuple(one for one in self.bottlenecks if one.job == job.job),
            ranks=tuple(one for one in self.ranks if one.job == job.job),
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
        return result_html(self)

    def document(self) -> dict[str, object]:
        """The JSON result; schema name and version first."""
        values = _adapter().dump_python(self, mode="json", fallback=np.generic.item, warnings=False)
        return {"schema": dict(SCHEMA), **values}


@cache
def _adapter() -> "TypeAdapter[RunResult]":
    from pydantic import TypeAdapter  # only documents need it

    return TypeAdapter(RunResult)


def from_document(document: Mapping[str, Any]) -> RunResult:
    """The result that `document()` gave, now or at an earlier version of the schema.

    Raises RunFailedError for another schema, a version that is not known, and a document with holes.
    """
    from pydantic import ValidationError

    schema = document.get("schema") if isinstance(document, Mapping) else None
    if not isinstance(schema, Mapping) or schema not in [{**SCHEMA, "version": v} for v in READABLE]:
        raise RunFailedError(
            f"this is not a {SCHEMA['name']} result of version {' or '.join(map(str, READABLE))} "
            f"but {schema!r}. "
            "Use the railweave that wrote it."
        )
    fields = {key: value for key, value in document.items() if key != "schema"}
    if schema["version"] == 1 and isinstance(fields.get("experiment"), Mapping):
        fields["experiment"] = {key: value for key, value in fields["experiment"].items() if key != "name"}
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
    jobs = {one.job for one in result.jobs} or {result.iterations.job}
    last = {row.job: row for row in result.rows}
    if unknown := sorted(last.keys() - jobs):
        return f"rows are of job {unknown[0]}, which it does not list"
    if without := [job for job, row in last.items() if row.iteration is not None]:
        return f"rows have no summary of job {without[0]}"
    failed = bool(result.jobs) and all(one.error is not None for one in result.jobs)
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
