"""What all formats take of a run: finished, failed or killed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railweave.framework.analysis.limits import COLLECTIVES
from railweave.framework.experiment.plan import Plan, load_plan
from railweave.framework.model import Fabric
from railweave.framework.page.data.directories import read_events, read_known
from railweave.framework.page.data.items import Arrays
from railweave.framework.page.data.run_page import Known
from railweave.framework.page.data.samples import read_rank_times
from railweave.framework.registry import Registers
from railweave.framework.results.result import RunResult


@dataclass(frozen=True, slots=True)
class ExportedJob:
    """What a job sends. `kind`: of the operation, in nccl-tests' words; `algorithm`: its plugin. `domains`:
    how many HB domains its ranks lie on, where the fabric has such, else how many ranks there are."""

    number: int
    name: str
    kind: str
    algorithm: str
    ranks: int
    domains: int

    @property
    def is_collective(self) -> bool:
        """Whether NCCL has such an operation."""
        return self.kind in COLLECTIVES


@dataclass(frozen=True, slots=True)
class ExportedIteration:
    """`begin_s`, `seconds` on the run's clock; `declared_us`, GB/s (1e9 bytes) at declared rates. `figures`:
    the other columns of its row in the result; empty where the run left none."""

    job: int
    number: int
    begin_s: float
    seconds: float
    declared_us: float | None
    size_bytes: int | None
    algbw_gbs: float | None
    busbw_gbs: float | None
    wrong: int | None
    figures: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """`fabric` has declared rates; `rate_scale` None where the run did not come so far. `events`: the lines
    of events.jsonl; `samples`: health.npz; `rank_times`: ranks.npz."""

    title: str
    fabric: Fabric
    rate_scale: float | None
    jobs: tuple[ExportedJob, ...]
    iterations: tuple[ExportedIteration, ...]
    events: Sequence[Mapping[str, Any]]
    samples: Arrays | None
    result: RunResult | None
    rank_times: Arrays | None = None

    @property
    def reroutes(self) -> int:
        return sum(event["kind"] == "reroute" for event in self.events)

    @property
    def faults(self) -> int:
        return sum(event["kind"] == "fault" for event in self.events)

    @property
    def verdict(self) -> str:
        return "none" if self.result is None else self.result.fidelity.verdict


def read_run(path: Path, registers: Registers) -> ExportedRun:
    """What a run directory holds, whole or not.

    Raises InputError for what is no run directory, ExperimentError where its experiment can no longer be
    planned, as without a plugin that it took.
    """
    known = read_known(path, registers)
    kept = path / "fabric.yaml"  # that of a file as it was then
    plan = load_plan(
        path / "experiment.yaml", {"topology.file": str(kept)} if kept.exists() else {}, registers
    )
    events = read_events(path / "events.jsonl")[0]
    return ExportedRun(
        title=known.title,
        fabric=known.fabric,
        rate_scale=known.course.rate_scale if known.result is None else known.result.fabric.rate_scale,
        jobs=jobs_of(plan),
        iterations=_measured(known.result) if known.result is not None else _reported(known, plan),
        events=events,
        samples=known.samples,
        result=known.result,
        rank_times=read_rank_times(path / "ranks.npz", known.fabric)[0],
    )


def jobs_of(plan: Plan) -> tuple[ExportedJob, ...]:
    """One for each job of a plan."""
    return tuple(
        ExportedJob(
            job.job.number,
            job.job.name,
            job.collective.kind,
            job.experiment.traffic.name,
            len(job.ranks),
            _domains(job),
        )
        for job in plan.jobs
    )


def _domains(plan: Plan) -> int:
    axes = plan.fabric.axis_names
    if "domain" not in axes:
        return len(plan.ranks)
    return len({plan.fabric.coordinates(gpu)[axes.index("domain")] for gpu in plan.ranks})


def _measured(result: RunResult) -> tuple[ExportedIteration, ...]:
    kept = ("ratio_to_bound", "packets", "retransmitted", "out_of_order", "marked", "rank_fairness")
    return tuple(
        ExportedIteration(
            row.job, row.iteration, row.t_s, row.time_us * 1e-6, row.declared_time_us, row.size_bytes,
            row.algbw_gbs, row.busbw_gbs, row.wrong, {name: getattr(row, name) for name in kept},
        )
        for row in result.rows
        if row.iteration is not None
    )  # fmt: skip


def _reported(known: Known, plan: Plan) -> tuple[ExportedIteration, ...]:
    """Of a run without a result, by its events and its plan."""
    return tuple(iteration_of(plan, row, known.course.rate_scale) for row in known.course.iterations)


def iteration_of(plan: Plan, row: Mapping[str, Any], rate_scale: float | None) -> ExportedIteration:
    """An iteration as its events reduce to it (`Course.iterations`), with the figures that its plan gives:
    algbw = S / t and busbw = algbw x factor (nccl-tests, doc/PERFORMANCE.md)."""
    job, number, seconds = row["job"], row["number"], row["seconds"]
    plan_of_job = plan.jobs[min(job, len(plan.jobs) - 1)]
    size = None if plan_of_job.experiment.program else plan_of_job.schedule_of(number).size_bytes
    declared_us = algbw = busbw = None
    if rate_scale and size is not None and seconds > 0:
        declared_us = seconds * rate_scale * 1e6
        algbw = size / declared_us / 1e3
        busbw = algbw * plan_of_job.collective.busbw_factor(len(plan_of_job.ranks))
    return ExportedIteration(
        job, number, row["begin_s"], seconds, declared_us, size, algbw, busbw, row["wrong"], {}
    )
