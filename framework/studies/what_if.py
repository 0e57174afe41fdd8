"""The experiment of a finished run on larger fabrics, computed by the model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Self

from railweave.framework.errors import InputError
from railweave.framework.experiment.engines import DEFAULT, predicting
from railweave.framework.experiment.plan import Plan, plan_from_keys
from railweave.framework.judging.agreement import parts_of
from railweave.framework.registry import Registers
from railweave.framework.results.directory import RunDirectory
from railweave.framework.results.result import RunResult
from railweave.framework.runs import runner
from railweave.framework.studies.carrying_out import carry_out
from railweave.framework.studies.computing import Row
from railweave.framework.studies.points import Point
from railweave.framework.studies.sweeps import as_written, sweep_of_plan

FACTORS = (1, 10, 100, 1000)
"""Multiples of the run's GPUs that are computed."""
ALONE = "no-feedback"
"""The mode of a run that is compared with the one at its size."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The experiment on `gpus` GPUs of `engine`. Declared medians: `healthy_us` before the first fault,
    `faulted_us` of the iterations that began after the last reroute, `alone_us` the same without feedback;
    `gain`: `alone_us` over `faulted_us`. None where there are no such iterations.

    `bottleneck`: what held most of all iterations, "" where nothing stands out, and for which `share` of the
    time. `took_s`: wall-clock seconds of the computation. `refused`: why there is no figure; `alone_failed`:
    why there is none without feedback, as where a link stays down.
    """

    engine: str
    gpus: int | None = None
    healthy_us: float | None = None
    faulted_us: float | None = None
    alone_us: float | None = None
    gain: float | None = None
    bottleneck: str = ""
    share: float | None = None
    took_s: float | None = None
    refused: str = ""
    alone_failed: str = ""

    @classmethod
    def of(cls, engine: str, result: RunResult, took_s: float | None = None) -> Self:
        bottleneck = result.bottlenecks[-1] if result.bottlenecks else None
        stands_out = bottleneck is not None and not bottleneck.balanced
        return cls(
            engine,
            result.fabric.gpus,
            _median(result, "before"),
            _median(result, "after"),
            bottleneck=bottleneck.name if bottleneck and stands_out else "",
            share=bottleneck.share if bottleneck and stands_out else None,
            took_s=took_s,
        )

    def compared(self, alone: RunResult | None, row: Row) -> Self:
        """With the run without feedback, None if that failed, and its row."""
        if self.refused or alone is None:
            return replace(self, alone_failed="" if self.refused else row["error"])
        alone_us = _median(alone, "after")
        gain = alone_us / self.faulted_us if alone_us and self.faulted_us else None
        return replace(self, alone_us=alone_us, gain=gain, took_s=(self.took_s or 0.0) + row["seconds"])


def what_if(
    run: RunResult,
    registers: Registers,
    factors: Sequence[int] = FACTORS,
    on_row: Callable[[WhatIf], None] = lambda row: None,
    /,
    **changed: object,
) -> list[WhatIf]:
    """What the run measured, then what the model makes of its experiment at each factor times the GPUs, with
    and without feedback; `on_row` gets each as it is computed. `changed`: keys that win over the
    experiment's.

    The rate scale is chosen anew at each size, so that an iteration takes as long on the run's clock, by
    which health is measured. Raises InputError for an experiment that has one size, ExperimentError for one
    that the model cannot carry out.
    """
    plan = _planned(run, registers, factors, changed)
    axes: dict[str, list[dict[str, object]]] = {"topology": [_larger(plan, factor) for factor in factors]}
    told, model = plan.experiment.feedback, plan.experiment.engine.name
    if compared := bool(plan.faults) and told:
        modes = ("feedback", told, plan.experiment.oracle), (ALONE, False, False)
        axes["mode"] = [{"label": label, "feedback": f, "oracle": o} for label, f, o in modes]
    rows, results = [WhatIf.of(_name(run), run)], list[RunResult]()
    on_row(rows[0])

    def compute(plan: Plan, _: RunDirectory) -> RunResult:
        results.append(runner.run(plan, registers))
        return results[-1]

    def add(point: Point, row: Row) -> Row:
        result = None if "cause" in row else results[-1]
        second = compared and point.settings["mode"] == ALONE
        if second:
            rows[-1] = rows[-1].compared(result, row)
        elif result is None:  # too large for this machine, or for the collective
            rows.append(WhatIf(model, refused=row["error"]))
        else:
            rows.append(WhatIf.of(model, result, row["seconds"]))
            if plan.faults and not told:
                rows[-1] = rows[-1].compared(result, {"seconds": 0.0})
        if second or not compared:
            on_row(rows[-1])
        return row

    with TemporaryDirectory(prefix="railweave-") as folder:
        study = sweep_of_plan("what-if", plan, axes, {}).study
        carry_out(study, Path(folder), registers, None, compute, on_row=add)
    return rows


def _planned(
    run: RunResult, registers: Registers, factors: Sequence[int], changed: Mapping[str, object]
) -> Plan:
    """The plan of the run's experiment by the model, at its own size."""
    if not factors or min(factors) < 1:
        raise InputError(f"factors: expects whole numbers of 1 or more (got {', '.join(map(str, factors))}).")
    left_out = ("engine", "pcap", "trace", "reports")
    base = {key: value for key, value in run.experiment.items() if key not in left_out}
    base = {**base, "engine": predicting(registers), "rate_scale": "auto"}
    plan = plan_from_keys(changed, registers, base=base)
    if len(plan.jobs) > 1:
        raise InputError(
            f"jobs: the run has {len(plan.jobs)}, and fabrics are compared by one. Take a run of one job."
        )
    if len(plan.schedules) > 1 or len({row.size_bytes for row in run.summaries}) > 1:
        raise InputError("size: fabrics are compared at one size. Take a run of one, such as --size 1M.")
    words = [word for job in plan.jobs for word in job.experiment.ranks.split()]
    if fixed := [word for word in words if word.partition("/")[0] != "all"]:
        raise InputError(
            f"ranks: {fixed[0]} selects the same GPUs on a fabric of any size. Take a run on all of them, or "
            "give --ranks all."
        )
    return plan


def _name(run: RunResult) -> str:
    engine = run.experiment.get("engine")
    return str(engine["name"]) if isinstance(engine, Mapping) else DEFAULT


def _larger(plan: Plan, factor: int) -> dict[str, object]:
    """The fabric with `factor` times the GPUs, as a value of an axis."""
    options: dict[str, Any] = dict(plan.experiment.topology.options)
    larger = options if factor == 1 else plan.topology.larger(options, factor)
    if larger is None:
        raise InputError(
            f"topology {plan.experiment.topology.name}: it has one size. Take a run on a fabric that can "
            "grow, such as rail-only."
        )
    changed = {name: value for name, value in larger.items() if value != options[name]}
    return {"label": factor, **as_written(plan)["topology"], **changed}


def _median(result: RunResult, part: str) -> float | None:
    times = [row.declared_time_us for row in parts_of(result)[part]]
    return median(times) if times else None
