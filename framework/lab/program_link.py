"""Drives the ranks of a program for a run: one start, marks, output, and the end."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from railweave.framework.errors import ProgramError, RailweaveError
from railweave.framework.experiment.plan import Plan
from railweave.framework.experiment.rank_programs import environment
from railweave.framework.lab.programs.mpi import HOSTFILE, write_agent
from railweave.framework.lab.programs.rank_space import FOLDER, write_host_names
from railweave.framework.model import Endpoint, IterationResult, Schedule
from railweave.framework.model.events import (
    IterationMarked,
    Printed,
    ProcessDied,
    ProcessReady,
    ProgramEnded,
    RunEvent,
)
from railweave.framework.model.traffic import RankOutcome
from railweave.framework.processes.child import ChildProcess
from railweave.framework.processes.event_loop import Watch
from railweave.framework.routing.route_control import Reroute
from railweave.framework.runs.parts import TrafficEnded

LOG = "/run/railweave/launcher.log"
STOP_S = 4.0
"""Seconds for the launcher to end its programs, twice their GRACE_S."""
FIRST_PORT = 29500
"""MASTER_PORT of the first job, as torchrun has it; the next has the next."""


class ProgramLink:
    """Traffic of one program (runs/parts.py). `directory`: where the ranks' output goes, None: nowhere.
    `outcomes`: how ranks ended, in that order."""

    def __init__(
        self, plan: Plan, watch: Watch, emit: Callable[[RunEvent], None], directory: str | None
    ) -> None:
        self._plan, self._watch, self._emit, self._directory = plan, watch, emit, directory
        self._launcher: ChildProcess | None = None
        self._endpoints: list[Endpoint] = []
        self._ends_s: list[float] = []  # the start, and the end of every iteration so far
        self._ended_s: float | None = None
        self._iteration = self._turn = 0
        self._ready, self.cpu_s = False, 0.0
        self._error: RailweaveError | None = None
        self.outcomes: tuple[RankOutcome, ...] = ()

    def start(self, endpoints: list[Endpoint]) -> None:
        """Start the launcher of the program, for one run of it."""
        self._endpoints, self._turn = endpoints, self._turn + 1
        self._ready, self._ended_s, self._ends_s = False, None, []
        self._launcher = ChildProcess(
            "the launcher of the program", "railweave.framework.lab.programs.launcher", log_path=LOG
        )
        self._watch.readable(self._launcher.channel, self._hear)

    def stop(self) -> None:
        if self._launcher is not None:
            self._launcher.stop(STOP_S)

    def give_up(self) -> None:
        """Ask the launcher to end every rank."""
        if self._launcher is not None:
            self._watch.forget(self._launcher.channel)
            self._launcher.channel.close()

    @property
    def up(self) -> bool:
        """Whether the program can begin. Raises ProgramError where the launcher has ended."""
        if self._error is not None:
            raise self._error
        return self._ready

    @property
    def pid(self) -> int | None:
        return None if self._launcher is None else self._launcher.pid

    def use_routes(self, reroute: Reroute) -> None:
        """A program knows no paths."""

    def retry(self) -> None:
        """Its kernel's transport decides."""

    def begin(self, iteration: int, schedule: Schedule) -> None:
        """Start the program before its first iteration; a later one began where the one before ended."""
        self._iteration = iteration
        if iteration > 0:
            return
        if self._ends_s:  # it has run alone
            self.give_up()
            self.stop()
            self.start(self._endpoints)
        fabric, experiment, hosts = self._plan.fabric, self._plan.experiment, self._endpoints
        job = self._plan.job
        names = write_host_names(fabric, hosts)
        folder = FOLDER / f"{job.number}.{self._turn}"
        folder.mkdir(mode=0o755)
        ranks = [(hosts[gpu].namespace, names[gpu], hosts[gpu].ip) for gpu in self._plan.ranks]
        (folder / HOSTFILE).write_text("".join(f"{name} slots=1\n" for _, name, _ in ranks))
        write_agent(folder)
        assert self._launcher is not None
        self._ends_s = [time.monotonic()]
        self._launcher.send(
            {
                "hosts": ranks,
                "launcher": experiment.launcher,
                "command": list(experiment.program),
                "directory": str(Path(experiment.directory).absolute()),
                "environment": environment(experiment),
                "output": self._directory and f"{self._directory}/{job.name + '-' if job.several else ''}",
                "folder": str(folder),
                "port": FIRST_PORT + job.number,
            }
        )

    def finished(self) -> IterationResult | None:
        if self._error is not None:
            raise self._error
        ends, number = self._ends_s, self._iteration
        if len(ends) > number + 1:
            return self._result(ends[number + 1] - ends[number])
        if self._ended_s is None:
            return None
        if number > 0:
            raise TrafficEnded
        self._ends_s.append(self._ended_s)  # nothing was marked by all
        return self._result(self._ended_s - ends[0])

    def _result(self, seconds: float) -> IterationResult:
        """Of the iteration that has ended; little but its time is known."""
        return IterationResult(
            self._iteration, seconds, wrong=None, packets_sent=0, retransmitted=0, duplicates=0, bytes_sent=0,
            phase_seconds=(), cpu_s=0.0, send_lag_s=0.0,
        )  # fmt: skip

    def _hear(self) -> None:
        assert self._launcher is not None
        for event in self._launcher.events():
            match event:
                case ProcessReady():
                    self._ready = True
                    if self._ends_s:  # begun before the launcher was there
                        self._ends_s[0] = time.monotonic()
                case Printed():
                    self._emit(replace(event, job=self._plan.job.number))
                case IterationMarked():
                    self._ends_s.append(event.at_s)
                case ProgramEnded():
                    number = self._plan.job.number
                    self.outcomes = tuple(replace(outcome, job=number) for outcome in event.outcomes)
                    self.cpu_s += event.cpu_s
                    self._ended_s = event.at_s
                    if event.failed:
                        self._error = ProgramError(event.failed)
                case ProcessDied():
                    self._error = ProgramError(event.why)
