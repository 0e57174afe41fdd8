"""The traffic of all jobs in a lab: a transport or a launcher for each."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from railweave.framework.experiment.plan import Plan
from railweave.framework.experiment.plugin_calls import configured
from railweave.framework.lab.program_link import ProgramLink
from railweave.framework.lab.switching.borrowed_sockets import closing_together
from railweave.framework.lab.switching.emulation import cpu_seconds
from railweave.framework.lab.transport_link import LOG, TransportLink
from railweave.framework.model import Endpoint, EntropyTable, PathCounts, RouteTable
from railweave.framework.model.events import RunEvent
from railweave.framework.model.traffic import RankOutcome
from railweave.framework.processes.event_loop import Watch
from railweave.framework.registry import Registers
from railweave.framework.routing.batches import join


class JobTraffic:
    """`links`: the traffic of each job. `trial`: what carries trials before links are shaped, between all
    GPUs: the transport of the only job where that has them all, else one for trials alone; None where
    only programs run, whose traffic is not known before."""

    def __init__(
        self,
        plan: Plan,
        registers: Registers,
        watch: Watch,
        emit: Callable[[RunEvent], None],
        directory: str | None,
    ) -> None:
        self._plan = plan
        self.links: tuple[TransportLink | ProgramLink, ...] = tuple(
            ProgramLink(job, watch, emit, directory)
            if job.experiment.program
            else TransportLink(job, job.transport, watch, emit, job.job.number, len(plan.jobs))
            for job in plan.jobs
        )
        self.trial = next(iter(self._transports), None)
        if self.trial and (len(plan.jobs) > 1 or plan.ranks != tuple(range(plan.fabric.n_gpus))):
            choice, kind = plan.experiment.transport, "transport"
            options: Any = choice.options  # those of a plan are parsed
            transport = configured(kind, choice.name, registers[kind][choice.name], options)
            self.trial = TransportLink(plan, transport, watch, lambda event: None)

    @property
    def _transports(self) -> list[TransportLink]:
        return [link for link in self.links if isinstance(link, TransportLink)]

    @property
    def _programs(self) -> list[ProgramLink]:
        return [link for link in self.links if isinstance(link, ProgramLink)]

    @property
    def _all(self) -> Sequence[TransportLink | ProgramLink]:
        own_trial = self.trial is not None and self.trial not in self.links
        return [*self.links, self.trial] if own_trial and self.trial else self.links

    @property
    def _pids(self) -> list[int]:
        """Of the transports that live."""
        return [link.pid for link in self._all if isinstance(link, TransportLink) and link.pid is not None]

    def count_paths(self, table: RouteTable) -> None:
        """Have the senders of all jobs count by path; before `start`."""
        for link in self._transports:
            link.count_paths(table)

    def path_counts(self) -> PathCounts | None:
        """What they have counted since the last call; None for nothing."""
        tallies = [link.tally for link in self._transports if link.tally is not None]
        if not any(tally.fresh for tally in tallies):
            return None
        counts = [tally.take() for tally in tallies]
        return PathCounts(
            join(*(part.paths for part in counts)), np.hstack([part.packets for part in counts])
        )

    def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Start all processes; `endpoints`: of every GPU."""
        for job, link in zip(self._plan.jobs, self.links, strict=True):
            if isinstance(link, TransportLink):
                link.start([endpoints[gpu] for gpu in job.ranks], f"{LOG}.{job.job.number}")
            else:
                link.start(list(endpoints))
        if self.trial is not None and self.trial not in self.links:
            self.trial.start(endpoints, f"{LOG}.trial")

    @property
    def up(self) -> bool:
        """Whether all take iterations."""
        return all(link.up for link in self._all)

    def use_entropies(self, entropies: EntropyTable, rate_scale: float) -> None:
        for link in self._transports:
            link.use_entropies(entropies, rate_scale)

    @property
    def told_apart(self) -> dict[int, Sequence[int]]:
        """By number, the GPUs of those of the named jobs that are programs and have no pair of GPUs in common
        with another program."""
        programs = [job for job in self._plan.named_jobs if job.experiment.program]
        return {
            job.job.number: job.ranks
            for job in programs
            if all(other is job or len({*job.ranks} & {*other.ranks}) < 2 for other in programs)
        }

    def take(self, plan: Plan) -> None:
        """Iterations are those of another plan for the same fabric from now on, with all GPUs as ranks."""
        (link,) = self._transports
        link.take(plan)

    def restart(self, endpoints: Sequence[Endpoint], entropies: EntropyTable) -> None:
        """End what all transports are doing; they take iterations when this returns."""
        with closing_together(self._pids):
            for link in self._transports:
                link.restart(endpoints, entropies)

    def end_trial(self) -> None:
        """No trial follows."""
        trial = self.trial
        if trial is not None and trial not in self.links:
            with closing_together([trial.pid] if trial.pid else []):
                trial.stop()

    def cpu_s(self) -> dict[str, float]:
        """Processor seconds so far by kind of process."""
        used: dict[str, float] = {}
        for link in self.links:
            name = "transport" if isinstance(link, TransportLink) else "launcher"
            used[name] = used.get(name, 0.0) + (cpu_seconds(link.pid) if link.pid else 0.0)
        if self._programs:
            used["program"] = sum(link.cpu_s for link in self._programs)
        return used

    @property
    def outcomes(self) -> tuple[RankOutcome, ...]:
        """How the ranks of programs ended."""
        return tuple(outcome for link in self._programs for outcome in link.outcomes)

    def stop(self) -> None:
        with closing_together(self._pids):
            for link in self._all:
                link.stop()
