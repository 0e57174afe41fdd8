"""What the model gives to a run (runs/parts.py): the clock and the traffic."""

from dataclasses import replace

import numpy as np

from railweave.framework.experiment.plan import Plan
from railweave.framework.model import IterationResult, Schedule
from railweave.framework.routing.route_control import Reroute
from railweave.framework.runs.load_trace import TraceRecorder
from railweave.plugins.fluid.flows import IterationOutcome
from railweave.plugins.fluid.model import Model

MOST_KEPT = 32
"""Different iterations of a job that are kept."""


class ModelClock:
    """The run's clock; it moves as far as it is waited for, and shows a `trace` what links have sent."""

    def __init__(self, trace: TraceRecorder | None) -> None:
        self.model: Model | None = None
        self._trace = trace

    def start(self) -> None:
        """It stands anyway until somebody waits."""

    def now_s(self) -> float:
        return 0.0 if self.model is None else self.model.now_s

    def wait(self, until_s: float) -> None:
        model, trace = self.model, self._trace
        assert model is not None
        model.advance(until_s if trace is None else min(until_s, trace.next_s))
        if trace is not None and model.now_s >= trace.next_s:
            trace.add(model.counted().data_bytes())


class ModelTraffic:
    """The iterations of one job. `iteration`: the one that was begun last. One that was not computed anew has
    the very arrays of the one before."""

    def __init__(self, plan: Plan, model: Model) -> None:
        self._plan, self._model, self._number = plan, model, plan.job.number
        self.iteration = 0
        self._schedule: Schedule | None = None
        self._results: dict[int, tuple[IterationOutcome, IterationResult]] = {}

    def begin(self, iteration: int, schedule: Schedule) -> None:
        if self._schedule is not None and schedule is not self._schedule:
            self._model.other_schedule()
        self.iteration, self._schedule = iteration, schedule
        self._model.flows.begin(self._number, self._model.placed(self._plan, schedule))

    def finished(self) -> IterationResult | None:
        model = self._model
        if len(stuck := model.given_up(self._plan)):
            raise model.failure(stuck)
        outcome = model.flows.outcome(self._number)
        if outcome is None:
            return None
        if self._number == 0:
            model.iteration_ended()
        cached = self._results.get(id(outcome))
        if cached is None:
            assert self._schedule is not None
            if len(self._results) == MOST_KEPT:
                self._results.clear()
            cached = self._results[id(outcome)] = outcome, self._result(self._schedule, outcome)
        return replace(cached[1], iteration=self.iteration)

    def _result(self, schedule: Schedule, outcome: IterationOutcome) -> IterationResult:
        packet, scale = self._plan.packet, self._model.rate_scale
        sent = schedule.is_transfer
        end_s = outcome.end_s / scale
        ends = np.zeros(len(schedule.phase_names))
        named = (schedule.phase >= 0) & (schedule.phase < len(ends))
        np.maximum.at(ends, schedule.phase[named], end_s[named])
        phases = np.diff(np.maximum.accumulate(np.append(0.0, ends)))
        return IterationResult(
            iteration=-1,
            seconds=outcome.seconds / scale,
            wrong=None,
            packets_sent=round(schedule.in_all(packet.packets_of)[sent].sum()),
            retransmitted=None,
            duplicates=None,
            bytes_sent=round(schedule.in_all(packet.wire_bytes_of)[sent].sum()),
            phase_seconds=tuple(phases.tolist()),
            cpu_s=0.0,
            send_lag_s=0.0,
            end_s=end_s,
        )

    def give_up(self) -> None:
        self._model.flows.drop(self._number)

    def use_routes(self, reroute: Reroute) -> None:
        """They go by the routes that are in use."""
