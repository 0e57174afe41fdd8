"""One run of a plan on the model."""

import time
from collections.abc import Callable

import numpy as np

from railweave.framework.experiment.plan import Plan
from railweave.framework.model import RouteTable
from railweave.framework.model.events import Progress, RunEvent
from railweave.framework.model.findings import EngineFacts
from railweave.framework.model.traffic import RankOutcome
from railweave.framework.processes.memory import peak_bytes
from railweave.framework.routing.batches import answer
from railweave.framework.routing.route_control import RouteControl
from railweave.framework.runs.computed import ModelClock
from railweave.framework.runs.parts import EngineParts, RoutesInPlace
from railweave.framework.solver.prediction import iteration_seconds, least_seconds
from railweave.framework.solver.quotient import NetworkState
from railweave.framework.solver.simulation import FlowSimulation
from railweave.plugins.packet import layout
from railweave.plugins.packet.measurements import PacketSource
from railweave.plugins.packet.model import Model, pairs_of
from railweave.plugins.packet.parts import ModelTraffic

FIRST_S = 1.0
"""What the busiest link needs for the first iteration with `rate_scale: auto`: long enough for health to be
measured in it."""
MOST_S = 10.0
"""What the first iteration takes at most then, where latencies hold it up."""
SHOWN_AFTER_S, SHOWN_EVERY_S = 2.0, 0.25
"""How long an iteration is computed before its progress is shown, and how often then."""


class PacketRun:
    """Runs one plan on the model (runs/parts.py: RunEngine)."""

    ranks: tuple[RankOutcome, ...] = ()

    def __init__(self, plan: Plan, emit: Callable[[RunEvent], None]) -> None:
        self._plan, self._emit = plan, emit
        self.clock = ModelClock[Model](plan)
        self._traffic: tuple[ModelTraffic, ...] = ()
        self._began_s, self._cpu_before_s = time.monotonic(), time.process_time()
        self._shown_s, self._iteration = self._began_s + SHOWN_AFTER_S, -1

    def _show(self) -> None:
        """How far an iteration is that takes long to compute."""
        now_s, model = time.monotonic(), self.clock.model
        iteration = self._traffic[0].iteration if self._traffic else 0
        if iteration != self._iteration:
            self._iteration, self._shown_s = iteration, max(self._shown_s, now_s + SHOWN_AFTER_S)
        if now_s >= self._shown_s and model is not None:
            self._shown_s = now_s + SHOWN_EVERY_S
            left, total = int(model.sim.s.left[0]), len(model.messages(self._plan.jobs[0].schedule).of)
            self._emit(Progress(iteration, max(0, total - left), total))

    def bring_up(self, control: RouteControl) -> EngineParts:
        began, plan = time.monotonic(), self._plan
        FlowSimulation.watched_work = max(FlowSimulation.watched_work, 1)  # decisions may have machine code
        scale = self._rate_scale(control.table)
        model = self.clock.model = Model(plan, control.table, scale, self._show)
        traffic = self._traffic = tuple(ModelTraffic(job, model) for job in plan.jobs)
        rates = f"rate scale {scale:.3g}" if scale != 1 else "declared rates and times"
        text = f"{len(model.sim.s.pair)} pairs; {rates}; {model.described}"
        return EngineParts(
            plan.fabric.scaled(scale), scale, text, time.monotonic() - began, (), PacketSource(model),
            RoutesInPlace(model.follow), model, traffic, senders=model.senders,
        )  # fmt: skip

    def _rate_scale(self, table: RouteTable) -> float:
        """As the experiment gives it, or such that the first iteration takes about `FIRST_S`, or `MOST_S`."""
        plan = self._plan
        scale = plan.experiment.rate_scale
        if scale != "auto":
            return scale
        job = plan.jobs[0]
        state = NetworkState(answer(table, *pairs_of(job)), plan.fabric.capacity_bps)
        schedule = job.on_gpus(job.schedule_of(0))
        busy_s = float(least_seconds([schedule], plan.fabric, state, plan.packet)[0])
        if not 0 < busy_s < np.inf:
            return 1.0
        whole_s = busy_s
        if plan.fabric.latency_s.any():
            whole_s = float(iteration_seconds([schedule], plan.fabric, state, plan.packet)[0])
        return max(busy_s / FIRST_S, whole_s / MOST_S)

    def checkpoint(self) -> None:
        """Memory is read at the end: the system keeps its peak."""

    def facts(self) -> EngineFacts:
        model = self.clock.model
        assert model is not None
        g = model.sim.s.globals
        took_s = time.process_time() - self._cpu_before_s
        return EngineFacts(
            cpu_s={**self._plan.took_s, "rest": took_s},
            counts={
                "events": int(g[layout.DONE]),
                "packet_hops": int(g[layout.HOPS] + g[layout.OTHER_HOPS]),
            },
            packet_latency_s=float(str(self._plan.experiment.engine.options["packet_latency"])) or None,
            token_buckets=model.settings.credit is not None,
            memory_peak_bytes=peak_bytes(),
            computed_in_s=time.monotonic() - self._began_s,
        )

    def down(self) -> None:
        """Nothing is up."""
