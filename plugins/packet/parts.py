"""What the model gives to a run (runs/parts.py): the traffic."""

import numpy as np

from railweave.framework.experiment.plan import Plan
from railweave.framework.model import IterationResult, Schedule
from railweave.framework.model.traffic import PausedLinks
from railweave.framework.routing.route_control import Reroute
from railweave.framework.runs.computed import phase_seconds
from railweave.plugins.packet.layout import PICOSECONDS
from railweave.plugins.packet.model import Model
from railweave.plugins.packet.pause_counts import PauseCounts


class ModelTraffic:
    """The iterations of one job. `iteration`: the one that was begun last."""

    def __init__(self, plan: Plan, model: Model) -> None:
        self._plan, self._model, self._number = plan, model, plan.job.number
        self.iteration, self._began = 0, 0
        self._schedule: Schedule | None = None
        self._paused = PauseCounts.of(model.sim.s)

    def begin(self, iteration: int, schedule: Schedule) -> None:
        self.iteration, self._schedule = iteration, schedule
        self._began = self._model.sim.now
        self._paused = PauseCounts.of(self._model.sim.s)
        self._model.sim.begin(self._number, self._model.messages(schedule))

    def finished(self) -> IterationResult | None:
        model = self._model
        if (failure := model.failure(self._number)) is not None:
            raise failure
        if self._schedule is None or not model.sim.over(self._number):
            return None
        return self._result(self._schedule)

    def _result(self, schedule: Schedule) -> IterationResult:
        model, seconds_per = self._model, 1 / (PICOSECONDS * self._model.rate_scale)
        messages, pair = model.messages(schedule), model.sim.of_job(self._number)
        ends = (model.sim.entries(self._number, len(messages.of))["end"] - self._began) * seconds_per
        end_s = np.zeros(schedule.n_entries)
        np.maximum.at(end_s, messages.of, ends)
        return IterationResult(
            iteration=self.iteration,
            seconds=float(end_s.max(initial=0.0)),
            wrong=None,
            packets_sent=int(pair["packets"].sum()),
            retransmitted=int(pair["again"].sum()),
            duplicates=int(pair["twice"].sum()),
            bytes_sent=int(pair["bytes"].sum()),
            phase_seconds=phase_seconds(schedule, end_s),
            cpu_s=0.0,
            send_lag_s=0.0,
            wrong_icrc=int(pair["bad_icrc"].sum()),
            marked=int(pair["marked"].sum()),
            cnps=int(pair["notified"].sum()),
            end_s=end_s,
            out_of_order=int(pair["behind"].sum()),
            trimmed=int(pair["trimmed"].sum()) if model.settings.trimming else None,
            reorder_depth=int(pair["depth"].max(initial=0)),
            messages=model.message_times(self._number, schedule),
            paused=self._pauses(),
        )

    def _pauses(self) -> PausedLinks | None:
        before, now = self._paused, PauseCounts.of(self._model.sim.s)
        return None if before is None or now is None else now.since(before, self._model.rate_scale)

    def give_up(self) -> None:
        self._model.drop(self._number)

    def use_routes(self, reroute: Reroute) -> None:
        """They go by the routes that are in use."""

    def retry(self) -> None:
        self._model.sim.retry(self._number)
