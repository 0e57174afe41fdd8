"""The experiment of a finished run on larger fabrics, computed by the model."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from railweave.framework.errors import InputError, RailweaveError, RunFailedError
from railweave.framework.experiment.engines import DEFAULT, predicting
from railweave.framework.experiment.plan import Plan, plan_from_keys
from railweave.framework.judging.agreement import parts_of
from railweave.framework.registry import Registers
from railweave.framework.results.result import RunResult
from railweave.framework.runs import runner

FACTORS = (1, 10, 100, 1000)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The experiment on `gpus` GPUs of `engine`. Declared medians: `healthy_us` before the first fault,
    `faulted_us` of the iterations that began after the last reroute, `alone_us` the same without feedback;
    `gain`: the latter over `faulted_us`. None where there are no such iterations.

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


def what_if(
    run: RunResult, registers: Registers, factors: Sequence[int] = FACTORS, /, **changed: object
) -> Iterator[WhatIf]:
    """What the run measured, then what the model makes of its experiment at each factor times the GPUs, with
    and without feedback, as each is computed. `changed`: keys that win over the experiment's.

    The rate scale is chosen anew at each size, so that an iteration takes as long on the run's clock, by
    which health is measured. Raises InputError for an experiment that has one size, ExperimentError for one
    that the model cannot carry out.
    """
    if not factors or min(factors) < 1:
        raise InputError(f"factors: expects whole numbers of 1 or more (got {', '.join(map(str, factors))}).")
    model, left_out = predicting(registers), ("engine", "pcap", "trace", "reports")
    base = {key: value for key, value in run.experiment.items() if key not in left_out}
    base = {**base, "engine": model, "rate_scale": "auto"}
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
    larger = [_larger(plan, factor) for factor in factors]
    yield _figures(_name(run), run, None, None)
    for options in larger:
        keys = {**changed, "topology": {"name": plan.experiment.topology.name, **options}}
        try:
            yield _computed(plan_from_keys(keys, registers, base=base), keys, base, registers)
        except RailweaveError as error:  # too large for this machine, or for the collective
            yield WhatIf(model, refused=str(error))


def _name(run: RunResult) -> str:
    engine = run.experiment.get("engine")
    return str(engine["name"]) if isinstance(engine, Mapping) else DEFAULT


def _larger(plan: Plan, factor: int) -> Mapping[str, Any]:
    options: dict[str, Any] = dict(plan.experiment.topology.options)
    larger = options if factor == 1 else plan.topology.larger(options, factor)
    if larger is None:
        raise InputError(
            f"topology {plan.experiment.topology.name}: it has one size. Take a run on a fabric that can "
            "grow, such as rail-only."
        )
    return larger


def _computed(
    plan: Plan, keys: Mapping[str, object], base: Mapping[str, object], registers: Registers
) -> WhatIf:
    began = time.monotonic()
    result, alone, why = runner.run(plan, registers), None, ""
    if plan.faults:
        without = plan_from_keys({**keys, "feedback": False, "oracle": False}, registers, base=base)
        try:
            alone = runner.run(without.at_scale(result.fabric.rate_scale), registers)
        except RunFailedError as error:
            why = str(error)
    return replace(
        _figures(plan.experiment.engine.name, result, alone, time.monotonic() - began), alone_failed=why
    )


def _figures(engine: str, result: RunResult, alone: RunResult | None, took_s: float | None) -> WhatIf:
    faulted, without = (None if source is None else _median(source, "after") for source in (result, alone))
    bottleneck = result.bottlenecks[-1] if result.bottlenecks else None
    stands_out = bottleneck is not None and not bottleneck.balanced
    return WhatIf(
        engine,
        result.fabric.gpus,
        _median(result, "before"),
        faulted,
        without,
        without / faulted if without and faulted else None,
        bottleneck.name if bottleneck and stands_out else "",
        bottleneck.share if bottleneck and stands_out else None,
        took_s,
    )


def _median(result: RunResult, part: str) -> float | None:
    times = [row.declared_time_us for row in parts_of(result)[part]]
    return median(times) if times else None
