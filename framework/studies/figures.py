"""What a study keeps of the run of a point: one flat row of figures, the same of every engine."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from railweave.framework.results.figures import Row
from railweave.framework.results.result import RunResult

MEANINGS: Mapping[str, str] = {
    "iteration_us": "mean iteration, declared",
    "before_us": "median iteration before the first fault, declared",
    "during_us": "median iteration from the first fault to its answer, declared",
    "after_us": "median iteration after the answer, or where none came, from the fault on, declared",
    "settled_us": "median of the later half of the iterations since the first fault, or of all, declared",
    "slowdown": "after_us over before_us",
    "busbw_gbs": "mean bus bandwidth, declared GB/s",
    "ratio_to_bound": "physical limit over measured time, 0..1",
    "detected_s": "seconds from the first fault until the scores showed it",
    "answered_s": "seconds from the first fault until routes that answer it were in use",
    "reroutes": "times that routes changed",
    "precision": "share of what was reported degraded that was",
    "recall": "share of what was degraded that was reported",
    "interference": "largest of all jobs: time in company over time alone",
    "fairness": "Jain's index of the jobs' speeds",
    "wrong": "elements that came out wrong",
    "seconds": "wall-clock seconds of the point",
}
"""The figures of a row that tables and judges may name, and what each means; times in microseconds."""


MOST_ITERATIONS, MOST_JOBS = 100, 16
"""Iterations whose times, and jobs whose interference, a row keeps: it is to stay below 2 kB."""


def figures_of(result: RunResult) -> dict[str, Any]:
    """Of a result. None where it has nothing to take a figure from: no fault, no answer, several sizes."""
    summary, groups = result.summary if result.rows else None, result.iterations
    before_us, during_us = groups.before.declared_us, groups.during.declared_us
    after_us = groups.after.declared_us if groups.after.iterations else during_us
    first = next((fault for fault in result.faults if fault.t_s is not None), None)
    bottleneck = result.bottlenecks[-1] if result.bottlenecks else None
    timed = [row for row in result.rows if row.iteration is not None and row.job == 0]
    fired = sorted(fault.t_s for fault in result.faults if fault.t_s is not None)
    since = [row.declared_time_us for row in timed if not fired or row.t_s >= fired[0]]
    slowed = [job.interference for job in result.jobs]
    return {
        "engine": _name(result, "engine"),
        "router": _name(result, "router"),
        "gpus": result.fabric.gpus,
        "rate_scale": result.fabric.rate_scale,
        "verdict": result.fidelity.verdict,
        "wrong": result.wrong,
        "iteration_us": None if summary is None else summary.declared_time_us,
        "before_us": before_us,
        "during_us": during_us,
        "after_us": after_us,
        "settled_us": median(since[len(since) // 2 :]) if since else None,
        "slowdown": after_us / before_us if after_us and before_us else None,
        "busbw_gbs": None if summary is None else summary.busbw_gbs,
        "ratio_to_bound": None if summary is None else summary.ratio_to_bound,
        "detected_s": None if first is None else first.detected_s,
        "answered_s": None if first is None else first.recovered_s,
        "reroutes": len(result.reroutes),
        "precision": result.accuracy.precision,
        "recall": result.accuracy.recall,
        "bottleneck": None if bottleneck is None or bottleneck.balanced else bottleneck.name,
        "interference": max((x for x in slowed if x is not None), default=None),
        "interferences": slowed[:MOST_JOBS],
        "fairness": result.fairness,
        "iterations_us": [float(f"{row.declared_time_us:.6g}") for row in timed[:MOST_ITERATIONS]],
        "faults_at": sorted({_iteration_of(timed, t_s) for t_s in fired}),
    }


def _iteration_of(rows: Sequence[Row], t_s: float) -> float:
    """The iteration that was under way then; between two iterations the number between theirs."""
    for number, row in enumerate(rows):
        if t_s <= row.t_s:
            return number - 0.5
        if t_s < row.t_s + row.time_us * 1e-6:
            return float(number)
    return len(rows) - 0.5


def _name(result: RunResult, kind: str) -> str:
    chosen = result.experiment.get(kind)
    return str(chosen["name"] if isinstance(chosen, Mapping) else chosen)
