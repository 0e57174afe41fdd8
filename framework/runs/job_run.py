"""One job while it runs: which iteration it is at, and when something of it is due."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from railweave.framework.analysis.job_loads import job_loads
from railweave.framework.errors import ProgramError, TransportError
from railweave.framework.experiment.plan import Plan
from railweave.framework.judging.critical_path import critical_path, link_times
from railweave.framework.judging.key_figures import landed_s, last_landed_s, rank_fairness
from railweave.framework.model import IterationResult, RouteTable, Schedule
from railweave.framework.model.arrays import Float
from railweave.framework.model.findings import CriticalPath, IterationRecord
from railweave.framework.runs.fault_timetable import FaultTimetable
from railweave.framework.runs.health_loop import HealthLoop
from railweave.framework.runs.parts import Clock, EngineParts, Traffic
from railweave.framework.runs.schedules import SchedulesByHealth


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all jobs of a run have in common. `schedules`: what an iteration of each carries out; `by_job`:
    whether the bytes on links are recorded by job."""

    clock: Clock
    parts: EngineParts
    health: HealthLoop
    faults: FaultTimetable
    schedules: SchedulesByHealth
    by_job: bool


TIMED_RANKS = 1024
"""Ranks of a job at most, whose times are kept for each iteration."""


class JobRun:
    """The iterations of one job, one after the other; `iterations`: how many, None: as many as its traffic
    has. `alone`: no other job runs meanwhile.

    `due_s`: when the next iteration begins, or when the one under way must have ended; `over`: whether there
    is no other. Times are those of the run's clock.
    """

    def __init__(
        self,
        plan: Plan,
        shared: Surroundings,
        *,
        iterations: int | None,
        start_s: float = 0.0,
        alone: bool = False,
    ) -> None:
        self.plan, self._shared, self._alone = plan, shared, alone
        self.traffic: Traffic = shared.parts.traffic[plan.job.number]
        self._iterations, self._iteration = iterations, 0
        self.due_s, self.over, self.under_way = start_s, iterations == 0, False
        self._began_s, self._start_s = 0.0, start_s
        self._sent: Float | None = None
        self._ended: tuple[IterationResult, RouteTable] | None = None
        self._critical: CriticalPath | None = None
        self._fairness: float | None = None
        self._landed_s: Float = np.empty(0)
        self._last_s: Float = np.empty(0)

    def begin(self, iteration: int | None = None, schedule: Schedule | None = None) -> None:
        """Begin the next iteration, or another one of the job; `schedule`: in place of the plan's. While
        circuits of its GPUs pass no light it does not begin, and is due once they do."""
        shared, experiment = self._shared, self.plan.experiment
        if iteration is not None:
            self._iteration = iteration
        shared.faults.begin_iteration(self._iteration, self.plan.job.number)
        if (dark_until_s := shared.faults.dark_until_s(self.plan.ranks)) > shared.clock.now_s():
            self.due_s = dark_until_s
            return
        self._schedule = schedule or shared.schedules.of(self.plan, self._iteration)
        self._began_s = shared.clock.now_s()
        self._sent = shared.parts.source.totals().sent_bytes
        self.traffic.begin(self._iteration, self._schedule)
        since_s = self._start_s if experiment.program else self._began_s
        self.due_s = inf if experiment.timeout == "auto" else since_s + experiment.timeout
        self.under_way = True

    def ended(self) -> IterationRecord | None:
        """The record of the iteration under way, once it has ended.

        Raises TrafficEnded where none follows, TransportError, ProgramError or PluginError where it fails.
        """
        result, now = self.traffic.finished(), self._shared.clock.now_s()
        if result is None:
            self._check_time(now)
            return None
        record = self._record(result, now)
        self.under_way, self._iteration = False, self._iteration + 1
        self.over = self._iteration == self._iterations
        self.due_s = now + self.plan.job.pause
        return record

    def _record(self, result: IterationResult, now: float) -> IterationRecord:
        shared, plan, began = self._shared, self.plan, self._began_s
        assert self._sent is not None
        carried = shared.parts.source.totals().sent_bytes - self._sent
        tables = [(since_s - began, table) for since_s, table in shared.health.tables_since(began)]
        schedule = plan.on_gpus(self._schedule)
        if plan.experiment.program:
            self._critical = link_times(tables[-1][1], carried)
        elif len(tables) > 1 or not self._as_before(result, tables[0][1]):
            self._critical = critical_path(schedule, result.end_s, tables, carried)
            self._last_s = last_landed_s(self._schedule, result.end_s)
            self._fairness = rank_fairness(self._schedule, self._last_s)
            self._landed_s = landed_s(self._schedule, result.end_s)
        self._ended = (result, tables[-1][1])
        return IterationRecord(
            result,
            began,
            now,
            shared.faults.best_rates_bps[plan.job.number],
            float(carried.sum()),
            plan.job.number,
            self._critical,
            self._own_bytes(schedule, result, tables),
            self._alone,
            self._fairness,
            self._landed_s,
            self._last_s if len(self._last_s) <= TIMED_RANKS else np.empty(0),
        )

    def _own_bytes(
        self, schedule: Schedule, result: IterationResult, tables: Sequence[tuple[float, RouteTable]]
    ) -> Float:
        """As in IterationRecord."""
        plan = self.plan
        if not self._shared.by_job or plan.experiment.program:
            return np.empty(0)
        return job_loads(plan.fabric, schedule, plan.packet, result.end_s, tables)

    def _as_before(self, result: IterationResult, table: RouteTable) -> bool:
        """Whether an iteration is the one before, which an engine need not carry out again: it then has the
        same array."""
        before, routes = self._ended or (None, None)
        return before is not None and result.end_s is before.end_s and table is routes

    def _check_time(self, now: float) -> None:
        timeout = self.plan.experiment.timeout
        if now >= self.due_s and self.plan.experiment.program:
            raise ProgramError(f"the program took longer than the timeout, {timeout:g} s.")
        if now >= self.due_s:
            raise TransportError(f"iteration {self._iteration} took longer than the timeout, {timeout:g} s.")
