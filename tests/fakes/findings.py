"""Findings of runs that never were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from railweave.framework.judging.rows import TimedIteration
from railweave.framework.model import Fabric, IterationResult, Schedule
from railweave.framework.model.findings import (
    Findings,
    HealthSamples,
    IterationRecord,
    LinkTotals,
)


def iteration(
    fabric: Fabric, number: int, begin_s: float, seconds: float = 1.0, **changed: Any
) -> IterationRecord:
    """An iteration that began at `begin_s`, with all links at their full rates."""
    result = IterationResult(number, seconds, 0, 1000, 2, 1, 1 << 22, (seconds,), 0.1, 0.0)
    values = {"best_rates_bps": fabric.capacity_bps, "link_bytes": 3e6, **changed}
    return IterationRecord(result, begin_s, begin_s + seconds, **values)


def timed(
    result: IterationResult,
    schedule: Schedule,
    begin_s: float,
    bound_s: float | None,
    model_s: float | None,
    link_bytes: float,
) -> TimedIteration:
    """An iteration of a fabric without links."""
    record = IterationRecord(result, begin_s, begin_s + result.seconds, np.zeros(0), link_bytes)
    return TimedIteration(record, schedule, bound_s, model_s)


def findings(fabric: Fabric, iterations: Sequence[IterationRecord] = (), **changed: Any) -> Findings:
    """A healthy run of these iterations, sampled once: nothing was dropped, no score changed."""
    links, nodes = np.zeros(fabric.n_links), np.ones((1, fabric.n_nodes), np.float32)
    ones = np.ones((1, fabric.n_links), np.float32)
    values: dict[str, Any] = {
        "rate_scale": 1.0, "bring_up_s": 0.5, "run_s": max([0.1, *(i.end_s for i in iterations)]),
        "iterations": tuple(iterations), "health": (), "reroutes": (), "faults": (), "notes": (), "truth": (),
        "agreements": (), "samples": HealthSamples(np.zeros(1), *[0 * ones] * 2, np.nan * ones, ones, nodes),
        "links": LinkTotals(links, links, links, links), "link_score": links + 1,
        "measured_s": links - np.inf,
    }  # fmt: skip
    return Findings(**{**values, **changed})
