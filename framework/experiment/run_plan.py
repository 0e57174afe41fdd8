"""The plan of a run: everything that is decided before it starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from railweave.framework.errors import ExperimentError, blaming
from railweave.framework.experiment import yaml_reader
from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.experiment.jobs import OWN, Job
from railweave.framework.experiment.plugin_calls import wants_health
from railweave.framework.experiment.ranks import between_gpus
from railweave.framework.experiment.schema import KINDS, PARAMETERS, Choice, Experiment, spoken
from railweave.framework.health.options import PARAMETERS as HEALTH_PARAMETERS
from railweave.framework.hookspecs import (
    Collective,
    CongestionControl,
    Controller,
    Engine,
    Estimate,
    Estimator,
    PathChooser,
    Report,
    Router,
    Topology,
    Transport,
)
from railweave.framework.model import (
    Demand,
    Fabric,
    HealthSnapshot,
    PacketFormat,
    PathBatch,
    RouteTable,
    Schedule,
)
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.model.senders import Senders
from railweave.framework.parameters import Parameter
from railweave.framework.routing.batches import distinct
from railweave.framework.routing.router_calls import unguarded, wants_demand


@dataclass(frozen=True)
class Plan:
    """Everything decided before a run starts. `fabric` has declared rates; plugins carry their options.

    `collective`: what the GPUs do, also when it is a workload; for a program one that schedules nothing.
    `ranks`: the GPU of each of its ranks. `schedules`: one for each size, ascending; `compact`: the same as
    the collective made them, where an engine with packets has them listed.

    `named_jobs`: of an experiment that lists jobs, a plan of each by itself, which `job` describes; all share
    the fabric, and what concerns one of them is asked of its own plan.

    `first_paths`: the first routes of the pairs in use, in blocks, where the engine needs no others.
    `took_s`: processor seconds of the stages of the plan itself. `chosen`: the kinds of plugins of which the
    user named none.
    """

    experiment: Experiment
    topology: Topology
    fabric: Fabric
    router: Router
    collective: Collective
    estimator: Estimator
    controller: Controller
    transport: Transport
    chooser: PathChooser
    control: CongestionControl
    engine: Engine
    ranks: tuple[int, ...]
    schedules: tuple[Schedule, ...]
    compact: tuple[Schedule, ...]
    packet: PacketFormat
    faults: tuple[ResolvedFault, ...]
    pcap_links: tuple[int, ...]
    notes: tuple[str, ...] = ()
    reports: Mapping[str, Report] = field(default_factory=dict)
    job: Job = field(default_factory=Job)
    named_jobs: tuple[Self, ...] = ()
    first_paths: tuple[PathBatch, ...] = field(default=(), compare=False, repr=False)
    took_s: Mapping[str, float] = field(default_factory=dict, compare=False)
    chosen: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def estimate(self) -> Estimate:
        """What the run will take of this machine."""
        return self.engine.estimate(self)

    @property
    def jobs(self) -> tuple[Self, ...]:
        """The plan of each job, at least one: an experiment that lists none has this one job."""
        return self.named_jobs or (self,)

    def check_lab(self) -> None:
        """Raises ExperimentError where the engine brings up no lab."""
        if why := self.engine.lacks.get("lab"):
            name = self.experiment.engine.name
            raise ExperimentError(
                f"engine {name}: there is no lab with it, because {why}. Leave `engine` out here, or use it "
                "with `railweave run`."
            )

    def on_gpus(self, schedule: Schedule) -> Schedule:
        """A schedule between this plan's ranks, with GPUs in their place."""
        return between_gpus(schedule, self.ranks, self.fabric.n_gpus)

    @property
    def demand(self) -> Demand | None:
        """What an iteration sends, of the largest size; None where a program decides."""
        if any(job.experiment.program for job in self.jobs):
            return None
        return Demand.of((job.on_gpus(job.compact[-1]) for job in self.jobs), self.fabric.n_gpus)

    @property
    def keeps_shares(self) -> bool:
        """Whether paths get their shares of the packets, and pairs send what links allow; a stranger's
        plugins need not say."""
        kept = getattr(self.chooser, "keeps_shares", False)
        return kept and getattr(self.control, "follows_links", False)

    @property
    def healthy_table(self) -> RouteTable:
        """The router's table before anything was measured, whatever it raises."""
        demand = self.demand if wants_demand(self.router) else None
        return unguarded(self.router, self.fabric, HealthSnapshot.healthy(self.fabric), demand)

    @property
    def pairs(self) -> tuple[Int64, Int64] | None:
        """(src, dst) of the pairs of GPUs that are to be routed, (P,) each: those that a job uses; None, for
        all, where the engine has packets, which any pair may send."""
        if self.engine.packets:
            return None
        numbers = [np.empty(0, np.int64), *(job.used_pairs for job in self.jobs)]
        src, dst = np.divmod(distinct(np.concatenate(numbers)), self.fabric.n_gpus)
        return src, dst

    @property
    def used_pairs(self) -> Int64:
        """The pairs of GPUs that this job uses, as src * n_gpus + dst: those of its schedules, and any two of
        its ranks where schedules follow health."""
        gpus, n = np.asarray(self.ranks, np.int64), self.fabric.n_gpus
        if wants_health(self.collective):
            every: Int64 = (gpus[:, None] * n + gpus)[~np.eye(len(gpus), dtype=bool)]
            return every
        sent = (schedule.pairs() for schedule in self.schedules)
        return np.concatenate([np.empty(0, np.int64), *(gpus[src] * n + gpus[dst] for src, dst, _ in sent)])

    @property
    def schedule(self) -> Schedule:
        """That of the largest size."""
        return self.schedules[-1]

    @property
    def iterations(self) -> int | None:
        """Of all sizes together; None where a program has as many as it marks."""
        return None if self.experiment.program else self.experiment.iterations * len(self.schedules)

    def compact_of(self, schedule: Schedule) -> Schedule:
        """One of `schedules` as the collective made it."""
        return next(
            compact
            for listed, compact in zip(self.schedules, self.compact, strict=True)
            if listed is schedule
        )

    def schedule_of(self, iteration: int) -> Schedule:
        """The schedule that an iteration, counted from 0, carries out: one size after the other. A job alone
        may have more iterations than in company."""
        if self.experiment.program or len(self.schedules) == 1:
            return self.schedule
        return self.schedules[iteration // self.experiment.iterations]

    def senders(self, rate_scale: float, paths: PathBatch, window_bits: Float | None = None) -> Senders:
        """How the senders of the pairs of `paths` behave, by the clock of a run at this scale; `window_bits`
        as in hookspecs.Transport. Raises PluginError where the transport fails."""
        fabric = self.fabric.scaled(rate_scale)
        with blaming(f"transport {self.experiment.transport.name}: senders()"):
            stated: Senders = self.transport.senders(fabric, paths, self.packet, window_bits)
        return stated

    def document(self) -> dict[str, object]:
        """The resolved experiment as plain data in base units; `from_document` makes this plan of it."""
        return self.experiment.document()

    def yaml(self) -> str:
        """The resolved experiment as a file a person reads, and `railweave run` runs again."""
        document: dict[str, Any] = self.document()
        for kind in document.keys() & KINDS.keys():
            plugin = self.collective if kind == "workload" else getattr(self, kind)
            document[kind] = _readable(document[kind], plugin.parameters)
        document["health"] = _readable(document["health"], HEALTH_PARAMETERS)
        for part in (document, *document.get("jobs", ())):
            part |= {p.name: p.written(part[p.name]) for p in _WITH_UNITS if p.name in part}
            if "size" in part:
                part["size"] = spoken(part["size"])
        return yaml_reader.written(document)

    def at_scale(self, rate_scale: float, packet_latency_s: float | None = None) -> Self:
        """The same plan with the rate scale that another run chose, so that times can be compared; and, if
        its engine has that option, with the latency of packets that was measured there."""
        changed: dict[str, object] = {"rate_scale": rate_scale}
        engine, option = self.experiment.engine, "packet_latency"
        if packet_latency_s is not None and option in engine.options:
            changed["engine"] = Choice(name=engine.name, options={**engine.options, option: packet_latency_s})
        return replace(self, experiment=self.experiment.model_copy(update=changed))


_WITH_UNITS = [parameter for parameter in (*PARAMETERS.values(), *OWN) if parameter.unit != "bytes"]


def _readable(section: dict[str, Any], parameters: tuple[Parameter, ...]) -> dict[str, object]:
    return section | {p.name: p.written(section[p.name]) for p in parameters if p.name in section}
