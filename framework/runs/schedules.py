"""What an iteration carries out, where the collective may know the health of links."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from railweave.framework.experiment.plan import Plan
from railweave.framework.experiment.plugin_calls import schedule_by_health, wants_health
from railweave.framework.model import HealthSnapshot, RouteTable, Schedule
from railweave.framework.model.arrays import distinct
from railweave.framework.routing.decision import TIME_MARGIN
from railweave.framework.routing.demand import JobDemand
from railweave.framework.routing.forecast import Forecast
from railweave.framework.runs.health_loop import HealthLoop

RISE = 1.1
"""How many times its last score a link must have for another try: a step of what has been seen, not noise."""


@dataclass(slots=True)
class _HealthAnswer:
    """What a collective planned for one of its usual schedules by `health`, compact and as it is sent; and
    which of the two is `chosen` on routes `table`."""

    health: HealthSnapshot
    compact: Schedule
    sent: Schedule
    table: RouteTable | None = None
    chosen: Schedule | None = None


class SchedulesByHealth:
    """The schedules of the iterations of a run. A collective that wants health is asked again when scores
    have changed, and what it plans is taken where, at these scores and on the routes in use, it is predicted
    to end sooner by the margin by which routes change, too. `note` receives what a user should know.

    What spares a link does not show how fast it is again, only that it is faster: after a rise one iteration
    is as on healthy links, and loads it.
    """

    def __init__(self, health: HealthLoop, note: Callable[[str], None]) -> None:
        self._health, self._note = health, note
        self._answers: dict[int, _HealthAnswer] = {}
        """By the identity of the usual schedule, which its plan keeps."""

    def of(self, plan: Plan, iteration: int) -> Schedule:
        """That of an iteration which begins now. Raises PluginError where the collective fails."""
        usual, health = plan.schedule_of(iteration), self._health.followed
        if health is None or health.version == 0 or not wants_health(plan.collective):
            return usual
        answer, table = self._answers.get(id(usual)), self._health.table
        before = usual if answer is None or answer.chosen is None else answer.chosen
        if answer is None or answer.health is not health:
            better = answer is not None and (health.link_score > RISE * answer.health.link_score).any()
            name = plan.experiment.traffic.name
            compact = schedule_by_health(name, plan.collective, plan.fabric, plan.ranks, usual, health)
            sent = compact.expand() if plan.engine.packets else compact
            answer = self._answers[id(usual)] = _HealthAnswer(health, compact, sent)
            if better and before is not usual:
                self._note(f"iteration {iteration}: {name} as on healthy links, as scores have risen")
                return usual
        if answer.table is not table or answer.chosen is None:
            answer.table = table
            gain = self._gain(plan, plan.compact_of(usual), answer)
            answer.chosen = answer.sent if gain > TIME_MARGIN else usual
            if (answer.chosen is usual) != (before is usual):
                self._tell(plan, iteration, gain if before is usual else None)
        return answer.chosen

    def _tell(self, plan: Plan, iteration: int, gain: float | None) -> None:
        how = "as on healthy links again"
        if gain is not None:
            how = f"by health, predicted to end {gain:.2f} times sooner" if np.isfinite(gain) else "by health"
        self._note(f"iteration {iteration} on: {plan.experiment.traffic.name} {how}")

    def _gain(self, plan: Plan, usual: Schedule, answer: _HealthAnswer) -> float:
        """How many times sooner an iteration ends with the answer than with the `usual` schedule."""
        if answer.compact == usual:
            return 1.0
        placed = [plan.on_gpus(schedule) for schedule in (usual, answer.compact)]
        demands = [JobDemand([schedule], plan.packet) for schedule in placed]
        n, prospects = plan.fabric.n_gpus, ((1.0, answer.health),)
        pairs = distinct(np.concatenate([demand.pairs(n) for demand in demands]))
        assert answer.table is not None
        paths = [answer.table.paths(*np.divmod(pairs, n))]
        usual_s, planned_s = (
            float(Forecast(plan.fabric, demand, paths).seconds(paths, prospects)[0]) for demand in demands
        )
        return usual_s / planned_s if np.isfinite(planned_s) and planned_s > 0 else 1.0
