"""The result of a run, from its plan and what its engine found."""

import platform
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from railweave.framework.errors import RunFailedError
from railweave.framework.experiment.plan import Plan
from railweave.framework.judging.fault_figures import fault_figures
from railweave.framework.judging.fidelity import together
from railweave.framework.judging.job_figures import fairness, job_figures
from railweave.framework.judging.job_part import job_part
from railweave.framework.judging.key_figures import (
    jct_ratio,
    link_fairness,
    max_mean_ratio,
    queue_figures,
    queues_by_kind,
    response_figures,
    share_of_packets,
)
from railweave.framework.judging.link_figures import element_figures, is_large, link_figures
from railweave.framework.model import Fabric
from railweave.framework.model.findings import Findings
from railweave.framework.results.figures import (
    ControllerFigures,
    FabricFigures,
    FaultFigures,
    JobFigures,
    KeyFigures,
    RerouteFigures,
    Row,
    WallTimes,
)
from railweave.framework.results.result import RunResult

VERSIONED = ("railweave", "mininet", "ryu", "os-ken", "scapy", "pluggy", "numpy", "click")
"""Distributions whose versions a result states, where they are installed."""


def run_result(plan: Plan, findings: Findings, tear_down_s: float, note: Callable[[str], None]) -> RunResult:
    """The documented result of an engine's findings. Pure but for the versions of what is installed.

    `note` receives, as text, what the collective's plugin failed with; the figures that depend on it are
    None.
    """
    scaled, facts = plan.fabric.scaled(findings.rate_scale), findings.facts
    faults, score_accuracy = fault_figures(plan, findings)
    reroutes = tuple(
        RerouteFigures(r.t_s, r.version, r.pairs_changed, r.why, r.job) for r in findings.reroutes
    )
    parts = [job_part(job, findings, scaled, faults, reroutes, note) for job in plan.jobs]
    if not any(part.rows for part in parts):
        raise RunFailedError("no iteration ended, so there is no result. See the lab's log.")
    of_jobs = job_figures(plan, findings, parts)
    rows = tuple(row for part in parts for row in part.rows)
    return RunResult(
        experiment=plan.document(),
        seed=plan.experiment.seed,
        versions={**versions(), **facts.versions},
        fabric=FabricFigures(
            scaled.kind,
            scaled.n_gpus,
            scaled.n_nodes - scaled.n_gpus,
            scaled.n_links,
            findings.rate_scale,
            len({gpu for job in plan.jobs for gpu in job.ranks}),
            None if facts.packet_latency_s is None else facts.packet_latency_s * 1e6,
        ),
        controller=ControllerFigures(plan.experiment.controller.name, facts.rules, facts.install_s),
        rows=rows,
        iterations=parts[0].iterations,
        links=link_figures(scaled, findings, len(plan.named_jobs)),
        elements=element_figures(scaled, findings),
        health=findings.health,
        faults=faults,
        reroutes=reroutes,
        fidelity=together(
            [(f"job {job.job.name}", part.fidelity) for job, part in zip(plan.jobs, parts, strict=True)]
        ),
        timing=WallTimes(findings.bring_up_s, _wall_s(findings), tear_down_s),
        accuracy=score_accuracy,
        memory_peak_mb=None if facts.memory_peak_bytes is None else facts.memory_peak_bytes / 1e6,
        cpu_s=facts.cpu_s,
        counts=facts.counts,
        ranks=findings.ranks,
        bottlenecks=tuple(bottleneck for part in parts for bottleneck in part.bottlenecks),
        jobs=of_jobs,
        fairness=fairness(of_jobs),
        key_figures=_key_figures(plan, scaled, findings, faults, rows, of_jobs),
    )


def _key_figures(
    plan: Plan,
    scaled: Fabric,
    findings: Findings,
    faults: Sequence[FaultFigures],
    rows: Sequence[Row],
    jobs: Sequence[JobFigures],
) -> KeyFigures:
    """`rows` of all jobs, the summaries of each behind its iterations."""
    results = [record.result for record in findings.iterations]
    packets = sum(result.packets_sent for result in results)
    seen = [fault.detected_s for fault in faults if fault.detected_s is not None]
    answered = [fault.recovered_s for fault in faults if fault.recovered_s is not None]
    sampled_s, whole = plan.experiment.health.interval_s, not is_large(scaled)
    p95, most = queue_figures(findings.samples, sampled_s, whole=whole)
    convergence = response_figures(answered, findings.rate_scale)
    return KeyFigures(
        retransmission_rate=share_of_packets([result.retransmitted for result in results], packets),
        queue_p95_bytes=p95,
        queue_max_bytes=most,
        failover_p99_s=None if convergence is None else convergence.p99_s,
        link_fairness=link_fairness(scaled, findings.links.sent_bytes),
        jct_ratio=None if jobs else jct_ratio(rows[-1].time_us, rows[-1].bound_us),
        max_mean_ratio=max_mean_ratio(scaled, findings.links.sent_bytes),
        out_of_order_rate=share_of_packets([result.out_of_order for result in results], packets),
        marked_rate=share_of_packets([result.marked for result in results], packets),
        detection=response_figures(seen, findings.rate_scale),
        convergence=convergence,
        interference=max((x for job in jobs if (x := job.interference) is not None), default=None),
        queues=queues_by_kind(scaled, findings.samples, sampled_s, whole=whole),
    )


def _wall_s(findings: Findings) -> float:
    """Seconds that the iterations took on the wall clock, which is not that of an engine that computes."""
    took_s = findings.facts.computed_in_s
    return findings.run_s if took_s is None else max(0.0, took_s - findings.bring_up_s)


def versions() -> dict[str, str]:
    """What the run was made with."""
    installed = ((name, _installed(name)) for name in VERSIONED)
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        **{name: number for name, number in installed if number is not None},
    }


@cache
def _installed(name: str) -> str | None:
    """What this process found first: a study asks for every point."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
