"""What the model gives to a run (runs/parts.py): the traffic."""

from dataclasses import replace

from railweave.framework.experiment.plan import Plan
from railweave.framework.model import IterationResult, Schedule
from railweave.framework.routing.route_control import Reroute
from railweave.framework.runs.computed import phase_seconds
from railweave.plugins.fluid.flows import IterationOutcome
from railweave.plugins.fluid.model import FlowModel

MOST_KEPT = 32
"""Different iterations of a job that are kept."""


class FlowTraffic:
    """The iterations of one job. `iteration`: the one that was begun last. One that was not computed anew has
    the very arrays of the one before."""

    def __init__(self, plan: Plan, model: FlowModel) -> None:
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
        return IterationResult(
            iteration=-1,
            seconds=outcome.seconds / scale,
            wrong=None,
            packets_sent=round(schedule.in_all(packet.packets_of)[sent].sum()),
            retransmitted=None,
            duplicates=None,
            bytes_sent=round(schedule.in_all(packet.wire_bytes_of)[sent].sum()),
            phase_seconds=phase_seconds(schedule, end_s),
            cpu_s=0.0,
            send_lag_s=0.0,
            end_s=end_s,
        )

    def give_up(self) -> None:
        self._model.flows.drop(self._number)

    def use_routes(self, reroute: Reroute) -> None:
        """They go by the routes that are in use."""

    def retry(self) -> None:
        self._model.retry()
