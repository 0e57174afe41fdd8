"""Procedures of the BMWG drafts that can be run here, as a study: what each sets, and what it takes of a run.

Source: draft-calabria-bmwg-ai-fabric-training-bench-02 (June 2026), sections 7 to 12. It is an individual
draft and asks for test equipment, which nothing here is: figures are those of an emulation or a model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from railweave.framework.errors import InputError
from railweave.framework.experiment.modes import MODES
from railweave.framework.experiment.plan import Plan
from railweave.framework.judging.key_figures import p99
from railweave.framework.model import Fabric
from railweave.framework.model.capabilities import why_unserved
from railweave.framework.registry import Registers
from railweave.framework.results.result import RunResult
from railweave.framework.studies.shared_rails import SHARES, jobs_sharing
from railweave.framework.studies.sweep_file import Sweep
from railweave.framework.studies.sweeps import sweep_of_plan

DRAFT = "draft-calabria-bmwg-ai-fabric-training-bench-02"
Figures = dict[str, float | int | bool | None]
Reader = Callable[[RunResult], Figures]

NOT_EMULATED: Mapping[str, str] = {
    "5.1-5.2 throughput and latency of transports": "packets pass software switches, whose time for each is "
    "not that of a chip; the draft asks for timestamps within 100 ns",
    "5.3 back-to-back bursts": "queues here are as long as memory allows, not the buffers of a chip",
    "6 Ultra Ethernet transport": "the transport is RoCEv2",
    "7.1 accuracy of ECN marks": "marks are made by a ramp of our own, and senders do not slow down for them",
    "7.2 PFC under incast": "there is no PFC; the incast itself is run",
    "7.3 convergence of DCQCN": "senders have a window, and no DCQCN",
    "7.4 PFC storms and deadlock": "there is no PFC",
    "9.4 bus bandwidth of libraries": "collectives are railweave's own; no NCCL or RCCL runs",
    "10.2 MLPerf-aligned completion": "nothing is trained here",
    "11.1 limits of scale": "tables and control planes of switch chips are not modelled",
    "12.1-12.2 soak and leaks": "24 hours of an emulator say how stable the emulator is",
}
"""Procedures that are not run, and why."""
_COLLECTIVES = (
    ("9.1", "all-reduce", ("all-reduce", "multi-ring-all-reduce", "ring-all-reduce")),
    ("9.2", "all-to-all", ("all-to-all", "direct-all-to-all")),
    ("9.3", "all-gather", ("all-gather", "ring-all-gather")),
)
"""Sections, operations as nccl-tests call them, and which algorithm is taken: the first that serves."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Iterations of a steady run, and before and after a failure."""

    steady: int
    before: int
    after: int


WHOLE, QUICK = Counts(100, 100, 20), Counts(6, 4, 4)
"""The draft wants 100 iterations or more for percentiles; the quick ones show that all runs."""


@dataclass(frozen=True, slots=True)
class Procedure:
    """One point of the study: `section` of the draft; `keys` of the experiment; `read` takes its figures."""

    section: str
    name: str
    keys: Mapping[str, object]
    read: Reader

    @property
    def label(self) -> str:
        return f"{self.section} {self.name}"


@dataclass(frozen=True, slots=True)
class ProcedureResult:
    """What a procedure found; `error`: why it did not end, None if it did."""

    section: str
    name: str
    verdict: str | None
    figures: Figures
    error: str | None = None


def procedures(
    plan: Plan, routers: Sequence[str], counts: Counts, registers: Registers
) -> tuple[list[Procedure], dict[str, str]]:
    """Those that the plan's fabric allows, with each of `routers`; and the others with the reason."""
    serving = {
        kind: next((n for n in names if not why_unserved(registers["collective"][n], plan.fabric)), names[0])
        for _, kind, names in _COLLECTIVES
    }
    common = {"router": routers[0], "faults": "none", "feedback": True, "oracle": False}
    listed = [
        Procedure(
            section, f"{kind}, BusBW and JCT ratio (10.1)",
            {**common, "collective": serving[kind], "iterations": counts.steady}, steady,
        )
        for section, kind, _ in _COLLECTIVES
    ]  # fmt: skip
    listed += _failures(common, plan.fabric, routers, serving["all-reduce"], counts)
    senders = max(1, plan.fabric.n_gpus - 1)
    to_one = {"name": "kv", "requests": senders, "spread": 0.0, "prefill": 1 << 20}
    keys = {**common, "workload": to_one, "collective": None, "iterations": counts.before}
    listed.append(Procedure("7.2", f"incast of {senders} to 1, without PFC", keys, incast))
    few = {**common, "collective": serving["all-to-all"], "iterations": max(2, counts.before // 4)}
    try:
        for percent in SHARES:
            jobs = {**few, "jobs": jobs_sharing(plan.fabric, percent)}
            listed.append(Procedure("10.3", f"two jobs, {percent} % of rails shared", jobs, interference))
    except InputError as error:
        return listed, {"10.3 interference of jobs": str(error)}
    return listed, {}


def _failures(
    common: Mapping[str, object], fabric: Fabric, routers: Sequence[str], collective: str, counts: Counts
) -> list[Procedure]:
    """A link that fails, with every router, with and without feedback."""
    link = failing_link(fabric)
    keys = {
        **common, "collective": collective, "iterations": counts.before + counts.after,
        "faults": [f"at=iter:{counts.before} down link:{link}"],
    }  # fmt: skip
    variants = [(router, mode) for router in routers for mode in ("feedback", "no-feedback")]
    return [
        Procedure(
            "11.2", f"{link} fails (11.3), {router}, {mode}",
            {**keys, **MODES[mode], "router": router}, failure,
        )
        for router, mode in variants
    ]  # fmt: skip


def study_of(plan: Plan, chosen: Sequence[Procedure]) -> Sweep:
    """The study with a point for each procedure."""
    points = [{"label": procedure.label, **procedure.keys} for procedure in chosen]
    return sweep_of_plan("bmwg", plan, {"procedure": points}, {"question": f"Procedures of {DRAFT}"})


def failing_link(fabric: Fabric) -> str:
    """The cable that fails: the first between two switches, or where there is none the last of the first GPU
    (of a GPU that has a domain and a rail that to its rail)."""
    between = (fabric.link_src >= fabric.n_gpus) & (fabric.link_dst >= fabric.n_gpus)
    links = between.nonzero()[0] if between.any() else (fabric.link_src == 0).nonzero()[0][-1:]
    return fabric.link_name(int(links[0]))


# -- what a run says ---------------------------------------------------------------------------------------
def steady(result: RunResult) -> Figures:
    """BusBW in GB/s and JCT of a run without a fault; None where too few iterations are independent."""
    row, figures = result.summary, result.key_figures
    times, busbw = row.time_figures, row.busbw_figures
    return {
        "iterations": None if times is None else times.iterations,
        "independent": None if times is None else times.independent,
        "jct_us": row.declared_time_us,
        "jct_ratio": figures.jct_ratio,
        "busbw_p50_gbs": None if busbw is None else busbw.p50_gbs,
        "busbw_p95_gbs": None if busbw is None else busbw.p95_gbs,
        "busbw_p99_gbs": None if busbw is None else busbw.p99_gbs,
        "busbw_cv": None if busbw is None else busbw.cv,
        "mmr": max(figures.max_mean_ratio.values(), default=None),
        "jfi": min(figures.link_fairness.values(), default=None),
    }


def failure(result: RunResult) -> Figures:
    """The failure iteration against those before it, declared; `redistribution_s`: from the failure until
    routes that avoid it are in use; `retransmitted`: packets of that iteration that were sent again, which
    stands for the loss. Zero-impact: the failure iteration took no longer than P99 of 100 independent ones
    before, or where there are fewer than the longest of them, and `of_longest` says so."""
    rows = [row for row in result.rows if row.iteration is not None]
    failed_s = next((fault.t_s for fault in result.faults if fault.t_s is not None), None)
    before = [row.declared_time_us for row in rows if failed_s is not None and _end_s(row) <= failed_s]
    hit = [row for row in rows if failed_s is not None and _end_s(row) > failed_s][:1]
    later = [row.declared_time_us for row in rows if hit and row.t_s > hit[0].t_s]
    rare, convergence = p99(before) if before else None, result.key_figures.convergence
    most = rare if rare is not None else max(before, default=None)
    return {
        "steady_us": median(before) if before else None,
        "failure_iteration_us": hit[0].declared_time_us if hit else None,
        "later_us": median(later) if later else None,
        "retransmitted": hit[0].retransmitted if hit else None,
        "redistribution_s": None if convergence is None else convergence.median_s,
        "redistribution_declared_us": None if convergence is None else convergence.median_declared_us,
        "zero_impact": None if most is None or not hit else hit[0].declared_time_us <= most * (1 + 1e-9),
        "of_longest": rare is None,
    }


def _end_s(row: Any) -> float:
    """When an iteration ended, give or take the rounding of a model's clock."""
    return float(row.t_s + row.time_us * 1e-6 - 1e-9 * max(1.0, row.t_s))


def incast(result: RunResult) -> Figures:
    """When the messages to one GPU had landed, declared, and the fullest queue."""
    figures, messages = result.key_figures, result.summary.message_figures
    return {
        "messages": None if messages is None else messages.messages,
        "fct_p50_us": None if messages is None else messages.p50_us,
        "fct_p95_us": None if messages is None else messages.p95_us,
        "fct_max_us": None if messages is None else messages.max_us,
        "queue_p95_bytes": figures.queue_p95_bytes,
        "queue_max_bytes": figures.queue_max_bytes,
        "retransmission_rate": figures.retransmission_rate,
    }


def interference(result: RunResult) -> Figures:
    """Time in company over time alone, of the job that lost most, and Jain's index of both."""
    return {"interference": result.key_figures.interference, "fairness": result.fairness}
