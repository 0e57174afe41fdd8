"""One run of a plan on the model."""

import time
from collections.abc import Callable

from railweave.framework.experiment.plan import Plan
from railweave.framework.model.events import Progress, RunEvent
from railweave.framework.model.findings import EngineFacts
from railweave.framework.model.traffic import RankOutcome
from railweave.framework.processes.memory import peak_bytes
from railweave.framework.routing.route_control import RouteControl
from railweave.framework.runs.computed import ModelClock, switches_crossed
from railweave.framework.runs.parts import EngineParts, RoutesInPlace
from railweave.plugins.fluid.measurements import ModelSource
from railweave.plugins.fluid.model import FlowModel
from railweave.plugins.fluid.parts import FlowTraffic
from railweave.plugins.fluid.work import Work

FIRST_S = 1.0
"""What the first iteration takes with `rate_scale: auto`: long enough for health to be measured in it."""


class FluidRun:
    """Runs one plan on the model (runs/parts.py: RunEngine)."""

    ranks: tuple[RankOutcome, ...] = ()

    def __init__(self, plan: Plan, emit: Callable[[RunEvent], None]) -> None:
        self._plan, self._emit = plan, emit
        self.clock = ModelClock[FlowModel](plan)
        self._work = Work(str(plan.experiment.engine.options["numba"]), self._show)
        self._traffic: tuple[FlowTraffic, ...] = ()
        self._latency_s = float(str(plan.experiment.engine.options["packet_latency"]))
        self._began_s, self._cpu_before_s = time.monotonic(), time.process_time()

    def _show(self, done: int, total: int) -> None:
        iteration = self._traffic[0].iteration if self._traffic else 0
        self._emit(Progress(iteration, done, total))

    def bring_up(self, control: RouteControl) -> EngineParts:
        began, plan = time.monotonic(), self._plan
        src, dst = plan.pairs or (None, None)
        assert src is not None and dst is not None
        model = self.clock.model = FlowModel(plan, control.table.paths(src, dst), self._work)
        model.rate_scale = scale = self._rate_scale(model)
        if self._latency_s:
            model.like_a_lab(self._latency_s / switches_crossed(plan))
        traffic = self._traffic = tuple(FlowTraffic(job, model) for job in plan.jobs)
        rates = f"rate scale {scale:.3g}" if scale != 1 else "declared rates and times"
        source = ModelSource(model)
        return EngineParts(
            plan.fabric.scaled(scale), scale, f"{len(src)} pairs; {rates}", time.monotonic() - began, (),
            source, RoutesInPlace(model.follow), model, traffic, lambda: model.watched, source.repeated,
        )  # fmt: skip

    def _rate_scale(self, model: FlowModel) -> float:
        """As the experiment gives it, or such that the first iteration takes `FIRST_S`."""
        scale = self._plan.experiment.rate_scale
        if scale != "auto":
            return scale
        job = self._plan.jobs[0]
        seconds = model.trial_s(job, job.schedule_of(0))
        return seconds / FIRST_S if seconds > 0 else 1.0

    def checkpoint(self) -> None:
        """Memory is read at the end: the system keeps its peak."""

    def facts(self) -> EngineFacts:
        took_s, solve_s = time.process_time() - self._cpu_before_s, self._work.solve_s
        return EngineFacts(
            cpu_s={**self._plan.took_s, "solve": solve_s, "rest": took_s - solve_s},
            counts=self._work.counts,
            packet_latency_s=self._latency_s or None,
            flows=not self._latency_s,  # a lab's token buckets store nothing
            memory_peak_bytes=peak_bytes(),
            computed_in_s=time.monotonic() - self._began_s,
        )

    def down(self) -> None:
        """Nothing is up."""
