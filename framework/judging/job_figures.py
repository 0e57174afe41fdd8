"""The figures of several jobs: each by itself, and what it lost by the company of the others."""

from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from railweave.framework.experiment.plan import Plan
from railweave.framework.judging.job_part import JobPart
from railweave.framework.judging.key_figures import jain
from railweave.framework.judging.link_figures import job_bytes
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Float
from railweave.framework.model.findings import Findings, IterationRecord
from railweave.framework.model.names import element_name
from railweave.framework.results.figures import JobFigures

COMPANY = 0.5
"""Share of an iteration's time, during which others must be under way for it to count as in company."""


def job_figures(plan: Plan, findings: Findings, parts: Sequence[JobPart]) -> tuple[JobFigures, ...]:
    """One for each named job of the plan."""
    first_fault_s = min((fault.t_s for fault in findings.faults), default=np.inf)
    figures = []
    for job, part in zip(plan.named_jobs, parts, strict=False):
        number = job.job.number
        others = [record for other in parts if other is not part for record in other.records]
        alone_s = median_s(part.alone)
        together_s = median_s(in_company(part.records, others, first_fault_s))
        figures.append(
            JobFigures(
                number,
                job.job.name,
                tuple(job.fabric.node_name(gpu) for gpu in job.ranks),
                part.iterations,
                part.fidelity,
                None if alone_s is None else alone_s * 1e6,
                None if together_s is None else together_s * 1e6,
                together_s / alone_s if alone_s and together_s else None,
                _element_bytes(job.fabric, findings, number),
                findings.failed.get(number),
            )
        )
    return tuple(figures)


def fairness(jobs: Sequence[JobFigures]) -> float | None:
    """Jain's index of the jobs' speeds together, each relative to its speed alone."""
    speeds = [1 / job.interference for job in jobs if job.interference]
    return jain(speeds) if speeds and len(speeds) == len(jobs) else None


def _element_bytes(fabric: Fabric, findings: Findings, job: int) -> Mapping[str, int] | None:
    link_bytes = job_bytes(findings, job)
    if link_bytes is None:
        return None
    element, n = fabric.link_element, fabric.n_nodes
    of_nodes = np.bincount(element[element >= 0], link_bytes[element >= 0], n)
    by_name = {element_name(fabric, node): int(of_nodes[node]) for node in np.flatnonzero(of_nodes).tolist()}
    alone = np.flatnonzero((element < 0) & (link_bytes > 0)).tolist()
    return by_name | {fabric.link_name(link): int(link_bytes[link]) for link in alone}


def median_s(records: Sequence[IterationRecord]) -> float | None:
    return median(record.result.seconds for record in records) if records else None


def in_company(
    records: Sequence[IterationRecord], others: Sequence[IterationRecord], first_fault_s: float
) -> list[IterationRecord]:
    """The iterations of a job that ran in the company of others, before the first fault if there are any."""
    begin, end = (np.array([getattr(record, name) for record in others]) for name in ("begin_s", "end_s"))
    chosen = [
        record
        for record in records
        if _shared_s(record, begin, end) >= COMPANY * (record.end_s - record.begin_s)
    ]
    return [record for record in chosen if record.end_s <= first_fault_s] or chosen


def _shared_s(record: IterationRecord, begin: Float, end: Float) -> float:
    """How long during an iteration any of these spans lasted."""
    shared, until = 0.0, record.begin_s
    for i in np.argsort(begin).tolist():
        low, high = max(until, float(begin[i])), min(record.end_s, float(end[i]))
        if high > low:
            shared, until = shared + high - low, high
    return shared
