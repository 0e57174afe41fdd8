"""One run from bring-up to tear-down, on any engine: iterations, faults and the health loop."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Generic, Self, TypeVar

from railweave.framework.errors import LabError, PluginError, ProgramError, RailweaveError, TransportError
from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.experiment.plan import Plan
from railweave.framework.health.monitor import HealthMonitor
from railweave.framework.health.options import LEAST_STEP
from railweave.framework.model import PathBatch, Schedule
from railweave.framework.model.findings import Findings, IterationRecord, LinkTotals
from railweave.framework.model.senders import Senders
from railweave.framework.routing.demand import JobDemand
from railweave.framework.routing.route_control import RouteControl
from railweave.framework.runs.fault_timetable import FaultTimetable, GroundTruth
from railweave.framework.runs.health_loop import HealthLoop
from railweave.framework.runs.job_run import JobRun, Surroundings
from railweave.framework.runs.parts import RunEngine, TrafficEnded
from railweave.framework.runs.recorder import ROUTED_GPUS, Recorder
from railweave.framework.runs.schedules import SchedulesByHealth

EngineT = TypeVar("EngineT", bound=RunEngine)


class Session(Generic[EngineT]):
    """A fabric that is up for one run. Use as a context manager: entering brings it up, leaving takes it
    down.

    `faults`: in place of the plan's. `probing`: whether the health loop may send measuring traffic.
    """

    def __init__(
        self,
        plan: Plan,
        engine: EngineT,
        recorder: Recorder,
        *,
        faults: Sequence[ResolvedFault] | None = None,
        probing: bool = True,
    ) -> None:
        self.plan, self.engine, self.recorder = plan, engine, recorder
        self._options, self._probing = plan.experiment.health, probing
        self._faults = plan.faults if faults is None else faults
        self._clock, self._run_s = engine.clock, 0.0
        self.failed: dict[int, str] = {}
        self.together_s = 0.0
        oracle = plan.experiment.oracle
        # who knows the truth has no reason to wait, nor to take a small loss for noise
        damping = replace(self._options, dwell_s=0.0, step=LEAST_STEP) if oracle else self._options
        self.control = RouteControl(
            plan.fabric, plan.router, damping, plan.experiment.router.name, plan.pairs,
            self._demand(plan), by_rules=plan.engine.packets, first=plan.first_paths,
        )  # fmt: skip
        self._totals_before: LinkTotals | None = None

    def __enter__(self) -> Self:
        plan, experiment = self.plan, self.plan.experiment
        self.recorder.phase("bring-up", f"{plan.fabric.n_gpus} GPUs, {plan.fabric.n_links} links")
        try:
            parts = self.parts = self.engine.bring_up(self.control)
            truth = GroundTruth(plan.fabric, self._options)
            monitor = self.monitor = HealthMonitor(
                parts.fabric,
                plan.estimator,
                plan.packet,
                self._options,
                name=plan.experiment.estimator.name,
            )
            scores = truth if experiment.oracle else monitor if experiment.feedback else None
            self.health = HealthLoop(
                self._clock, parts, monitor, self.control, self.recorder,
                interval_s=experiment.health.interval_s, scores=scores, probing=self._probing,
                delay_s=experiment.health.control_delay_s / parts.rate_scale,
            )  # fmt: skip
            self._schedules = SchedulesByHealth(self.health, self.recorder.note)
            self.faults = FaultTimetable(
                self._faults, self._clock, parts.faults, truth, self.recorder, rate_scale=parts.rate_scale
            )
            self.recorder.observers.fire("on_fabric_up", fabric=parts.fabric, endpoints=parts.endpoints)
            self.recorder.first_paths(self.control.installed.batch)
            self.recorder.phase("up", parts.summary, parts.bring_up_s, parts.rate_scale)
        except BaseException:
            self.engine.down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.engine.down()

    def _demand(self, plan: Plan) -> JobDemand | None:
        """What pairs will send, if that is known."""
        if any(job.experiment.program for job in plan.jobs):
            return None
        return JobDemand([job.on_gpus(job.compact[-1]) for job in plan.jobs], plan.packet, self._senders)

    def _senders(self, paths: PathBatch) -> Senders | None:
        """How senders wait on some paths, in declared seconds, where they do as the transport states it."""
        parts = self.parts
        return None if parts.senders is None else parts.senders(paths).scaled(parts.rate_scale)

    @contextmanager
    def carrying(self, plan: Plan) -> Iterator[None]:
        """During the block, iterations are those of another plan for the same fabric; what was recorded
        before is forgotten, and faults in force count as injected when it begins."""
        before, self.plan = self.plan, plan
        self._totals_before = self.parts.source.totals()
        self.health.settle()
        self.recorder.forget()
        self.faults.recall()
        self.faults.add(plan.faults)
        self.control.carry(self._demand(plan))
        try:
            yield
        finally:
            self.plan = before
            self.health.settle()
            self.faults.drop(plan.faults)
            self.control.carry(None)

    # -- iterations ------------------------------------------------------------------------------------
    def start(self) -> None:
        """Let the run's clock begin."""
        self.engine.checkpoint()
        self._clock.start()

    def iterate(self) -> None:
        """Carry out all iterations of the plan, or of a program as many as there are; of several jobs first
        some of each alone, then all together."""
        many, ranks, jobs = self.plan.iterations, len(self.plan.ranks), self.plan.jobs
        alone = self.plan.experiment.alone if len(jobs) > 1 else 0
        text = f"a program on {ranks} ranks" if many is None else f"{many} iterations"
        if self.plan.named_jobs:
            text = f"{len(jobs)} jobs" + (f", each {alone} iterations alone first" if alone else "")
        self.recorder.circuits_set()
        self.recorder.phase("run", text)
        self.start()
        self.failed, began_s = {}, self._clock.now_s()
        if alone:
            with self.faults.held():
                for job in jobs:
                    iterations = None if job.iterations is None else alone
                    self._carry_out([self._job_run(job, iterations, self._clock.now_s(), alone=True)])
            self.recorder.phase("together")
        now = self.together_s = self._clock.now_s()
        left = [job for job in jobs if job.job.number not in self.failed]
        self._carry_out([self._job_run(job, job.iterations, now + job.job.start) for job in left])
        self._run_s = self._clock.now_s() - began_s

    def iterate_once(self, iteration: int, schedule: Schedule | None = None) -> IterationRecord:
        """Carry out one iteration, after the faults that are due before it; `schedule`: in place of the
        plan's."""
        job = self._job_run(self.plan.jobs[0], None)
        job.begin(iteration, schedule)
        while not job.under_way:  # it waits for circuits
            self.step(job.due_s)
            job.begin(iteration, schedule)
        while (record := job.ended()) is None:
            self.step(job.due_s)
        self._keep(record)
        return record

    def _job_run(
        self, plan: Plan, iterations: int | None, start_s: float = 0.0, *, alone: bool = False
    ) -> JobRun:
        by_job = bool(self.plan.named_jobs)
        shared = Surroundings(self._clock, self.parts, self.health, self.faults, self._schedules, by_job)
        return JobRun(plan, shared, iterations=iterations, start_s=start_s, alone=alone)

    def _carry_out(self, jobs: Sequence[JobRun]) -> None:
        """Let jobs run until all are over. At one instant iterations end and begin first, then faults happen,
        then a sample is taken."""
        while left := [job for job in jobs if not job.over]:
            for job in left:
                try:
                    self._advance(job)
                except TrafficEnded:
                    job.over = True
                except (TransportError, ProgramError, PluginError) as error:
                    job.over = True
                    self._failed(job, error)
            self._do_what_is_due()
            if due := [job.due_s for job in jobs if not job.over]:
                self._wait(min(due))

    def _advance(self, job: JobRun) -> None:
        """End what has ended of a job, and begin what is due."""
        while not job.over:
            if job.under_way:
                if (record := job.ended()) is None:
                    return
                self._keep(record)
            elif self._clock.now_s() < job.due_s:
                return
            else:
                job.begin()

    def _keep(self, record: IterationRecord) -> None:
        if record.job == 0:  # reading the memory of all processes holds up the other jobs
            self.engine.checkpoint()
        self.recorder.iteration(record)

    def _failed(self, job: JobRun, error: RailweaveError) -> None:
        """Go on without a job that has failed, where that stops no other."""
        plan = job.plan
        if not self.plan.named_jobs:
            raise error
        self.failed[plan.job.number] = str(error)
        if plan.job.on_failure == "stop" or len(self.failed) == len(self.plan.jobs):
            raise type(error)(f"job {plan.job.name}: {error}") from error
        job.traffic.give_up()
        self.recorder.note(f"job {plan.job.name} failed: {error}")

    def step(self, until_s: float = float("inf")) -> None:
        """Wait for what comes first (an event, the next sample or fault, `until_s`), then do what is due."""
        self._wait(until_s)
        self._do_what_is_due()

    def _wait(self, until_s: float) -> None:
        self._clock.wait(min(until_s, self.health.next_s, self.faults.next_s))

    def _do_what_is_due(self) -> None:
        self.faults.advance()
        self.health.advance()

    def settle_after(self, fault: ResolvedFault, *, quiet_s: float, within_s: float) -> None:
        """Inject a fault without traffic and go on until routes have been still for `quiet_s` and old rules
        are gone.

        LabError when they have not come to rest within `within_s`.
        """
        self._clock.start()
        self.faults.inject(fault)
        began = self._clock.now_s()
        while not (self.health.at_rest and self._clock.now_s() > max(began, self.health.moved_s) + quiet_s):
            if self._clock.now_s() - began > within_s:
                raise LabError(f"the routes were still moving {within_s:.0f} s after {fault.text!r}.")
            self.step()

    # -- findings --------------------------------------------------------------------------------------
    def findings(self) -> Findings:
        """Everything that the run found so far."""
        self.health.settle()
        recorder, links = self.recorder, self.parts.source.totals()
        return Findings(
            rate_scale=self.parts.rate_scale,
            bring_up_s=self.parts.bring_up_s,
            run_s=self._run_s,
            iterations=tuple(recorder.iterations),
            health=tuple(recorder.health),
            reroutes=tuple(recorder.reroutes),
            faults=tuple(recorder.faults),
            circuits=tuple(recorder.circuits),
            notes=tuple(recorder.notes),
            truth=tuple(recorder.truth),
            agreements=tuple(recorder.agreements),
            samples=recorder.samples(),
            paths=recorder.paths(),
            rules=self.control.rules if self.plan.fabric.n_gpus <= ROUTED_GPUS else (),
            links=links if self._totals_before is None else links.since(self._totals_before),
            link_score=self.monitor.snapshot.link_score,
            blind_s=recorder.blind_s,
            ranks=self.engine.ranks,
            measured_s=self.monitor.measured_s,
            facts=self.engine.facts(),
            failed=self.failed,
        )
