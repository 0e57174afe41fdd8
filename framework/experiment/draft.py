"""An experiment checked whole: every problem is collected, and a plan comes of it only when there is none."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from railweave.framework.errors import ExperimentError, FaultError, RailweaveError
from railweave.framework.experiment.circuit_board import CircuitBoard
from railweave.framework.experiment.contradictions import contradictions
from railweave.framework.experiment.control_calls import check_control
from railweave.framework.experiment.defaults import choice_of, chooser_for
from railweave.framework.experiment.engines import instead
from railweave.framework.experiment.fault_targets import find_link
from railweave.framework.experiment.faults import ResolvedFault, parse, resolve, steps
from railweave.framework.experiment.plan_notes import notes_of_traffic
from railweave.framework.experiment.plugin_calls import (
    a_slow_rank,
    check_chooser,
    check_collective,
    configured,
    fabric_of,
    needs_of,
    notes_of,
    schedule_by_health,
    schedule_of,
    wants_health,
)
from railweave.framework.experiment.rank_programs import NoCollective
from railweave.framework.experiment.ranks import gpus_of
from railweave.framework.experiment.reading import experiment, options_of
from railweave.framework.experiment.route_memory import why_too_large
from railweave.framework.experiment.run_plan import Plan
from railweave.framework.experiment.schema import KINDS, Choice
from railweave.framework.experiment.settings import Key, LayeredSettings
from railweave.framework.experiment.several_jobs import plan_of_jobs
from railweave.framework.experiment.wants import chooses, controls, refusals, unusable
from railweave.framework.health.monitor import scores_of
from railweave.framework.health.smoothing import LinkTracker
from railweave.framework.hookspecs import (
    Collective,
    Engine,
    Estimator,
    Report,
    Router,
)
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.model.capabilities import why_unserved
from railweave.framework.parameters import Value
from railweave.framework.processes.memory import refused_beyond_memory
from railweave.framework.registry import Registers
from railweave.framework.routing.idle import idle_kinds
from railweave.framework.routing.reroute import first_routes
from railweave.framework.routing.router_calls import wants_demand

NEVER = sys.maxsize
"""Iterations of a program: as many as it marks."""

_T = TypeVar("_T")


class Draft:
    """An experiment while it is checked: everything wrong is reported in `settings`. `parent`: the experiment
    of several jobs that this is one of, whose fabric it takes."""

    def __init__(
        self, settings: LayeredSettings, registers: Registers, parent: "Draft | None" = None
    ) -> None:
        self.settings, self.registers, self._parent = settings, registers, parent
        self._built: tuple[Any, Fabric | None] | None = None
        self._unreadable = {p.key[0] for p in settings.problems if p.key}
        self._request, self._broken = experiment(settings)
        self._choices: dict[str, Choice] = {}
        self._idle: tuple[str, ...] = ()
        self._took_s: dict[str, float] = {} if parent is None else parent._took_s

    def routed_plan(self) -> Plan:
        """The plan, once its router has given first routes that hold."""
        plan = self.plan()
        request, fabric, packet = plan.experiment, plan.fabric, plan.packet
        sent = plan.demand if wants_demand(plan.router) else None
        routes_of = (fabric, plan.router, request.router.name, request.health, plan.pairs, sent)
        with self._stage("routes"):
            first = self._guarded(self._name_key("router"), first_routes, *routes_of)
        if first and fabric.kind not in self.registers["topology"]:
            how = ": `--router spray` spreads packets over them" if request.router.name == "shortest" else ""
            plan = replace(plan, notes=(*plan.notes, *(f"{idle}{how}" for idle in idle_kinds(fabric, first))))
        if first and (plan.engine.packets or chooses(request)):
            counts = np.unique(np.concatenate([np.diff(paths.pair_start) for paths in first]))
            tried_on = counts[counts > 0].tolist()
            self._guarded(("chooser",), check_chooser, request.chooser.name, plan.chooser, tried_on)
        if controls(request):
            self._guarded(("control",), check_control, request.control.name, plan.control)
        for job_plan in plan.jobs:
            chosen = job_plan.experiment
            if not chosen.program:
                kind = "workload" if chosen.workload else "collective"
                traffic: Key = ("jobs", job_plan.job.number, kind) if request.jobs else (kind,)
                seed = request.seed if plan.engine.packets else None
                tried = (
                    chosen.traffic.name,
                    job_plan.collective,
                    fabric,
                    job_plan.schedules[0],
                    packet,
                    seed,
                )
                self._guarded(traffic, check_collective, *tried)
                self._try_by_health(traffic, job_plan)
        links = LinkTracker.start(fabric).links
        self._guarded(
            ("estimator",), scores_of, plan.estimator, fabric, links, packet, request.estimator.name
        )
        self.settings.check()
        return plan if plan.engine.packets else replace(plan, first_paths=tuple(first or ()))

    def plan(self) -> Plan:
        """The plan. Raises ExperimentError that lists everything wrong."""
        if self._request.jobs:
            return plan_of_jobs(self, self._request)
        request, settings = self._request, self.settings
        traffic, other = ("workload", "collective") if request.workload else ("collective", "workload")
        unused = ("collective", "workload") if request.program else (other,)
        for key, message in contradictions(request, settings.value, self._broken):
            settings.report(key, message)
        topology, fabric = self.topology()
        gpus = self._gpus(fabric)
        engine = self.engine(fabric)
        plugins = {kind: self.plugin(kind, fabric) for kind in KINDS if kind not in ("topology", *unused)}
        self._suit_chooser(plugins, fabric)
        request = self._request
        iterations = NEVER if request.program else request.iterations * len(request.sizes)
        faults = self.faults(fabric, iterations, engine)
        pcap, reports = self.captured(fabric), self.reports()
        if engine is not None:
            self.check_engine(engine, faults, plugins["estimator"])
            for kind, why in unusable(self._request, engine, plugins):
                settings.report((kind,), why)
            if fabric is not None and engine.packets and (why := why_too_large(fabric)):
                settings.report(("topology",), why)
        settings.check()
        if fabric is None or gpus is None:
            raise ExperimentError("there is no fabric.")  # the settings of the whole say why
        ranks = range(fabric.n_gpus) if gpus == tuple(range(fabric.n_gpus)) else gpus
        collective: Collective = NoCollective() if request.program else plugins[traffic]
        compact = self._schedules(traffic, collective, fabric, ranks)
        listed = not request.program and engine is not None and engine.packets
        schedules = self._listed(traffic, compact) if listed else compact
        return Plan(
            experiment=request.model_copy(update={**self._choices, "faults": tuple(f.text for f in faults)}),
            topology=topology,
            fabric=fabric,
            collective=collective,
            **{kind: plugins[kind] for kind in KINDS if kind not in ("topology", "collective", "workload")},
            ranks=gpus,
            schedules=tuple(schedules),
            compact=tuple(compact),
            packet=PacketFormat(request.path_mtu),
            faults=faults,
            pcap_links=pcap,
            reports=reports,
            notes=tuple(settings.notes),
            took_s=self._took_s,
            chosen=tuple(kind for kind in ("router", traffic) if kind not in settings.value),
        )

    def _suit_chooser(self, plugins: dict[str, Any], fabric: Fabric | None) -> None:
        """Take the chooser that the router's paths are made for, where none is named."""
        if name := chooser_for(self.settings.value, plugins["router"]):
            self._request = self._request.model_copy(update={"chooser": Choice(name=name)})
            plugins["chooser"] = self.plugin("chooser", fabric)

    def _gpus(self, fabric: Fabric | None) -> tuple[int, ...] | None:
        """The GPUs that take part, in the order of ranks."""
        if fabric is None or "ranks" in self._broken:
            return None
        return self._guarded(("ranks",), gpus_of, fabric, self._request.ranks)

    def _schedules(
        self, traffic: str, collective: Collective, fabric: Fabric, ranks: Sequence[int]
    ) -> list[Schedule]:
        """The schedule of every size, compact. Raises ExperimentError where the collective refuses one."""
        request, settings = self._request, self.settings
        kind = request.dtype, request.redop
        if request.program:
            return [collective.schedule(fabric, ranks, 0, *kind)]
        name = self.chosen(traffic)
        with self._stage("schedule"):
            planned = [
                self._guarded((traffic,), schedule_of, name, collective, fabric, ranks, size, *kind)
                for size in request.sizes
            ]
        settings.check()
        schedules = [schedule for schedule in planned if schedule is not None]
        settings.notes += self._guarded((traffic,), notes_of, name, collective, fabric, ranks) or ()
        settings.notes += notes_of_traffic(fabric, schedules)
        return schedules

    def _try_by_health(self, traffic: Key, plan: Plan) -> None:
        """Ask a collective that wants health with a slow rank, so that its mistakes show before the run."""
        if wants_health(plan.collective):
            name, usual, health = plan.experiment.traffic.name, plan.compact[0], a_slow_rank(plan.fabric, 0)
            arguments = name, plan.collective, plan.fabric, plan.ranks, usual, health
            self._guarded(traffic, schedule_by_health, *arguments)

    def _listed(self, traffic: str, schedules: Sequence[Schedule]) -> list[Schedule]:
        """The schedules as an engine with packets takes them. Reports computations, and what is too long."""
        if any(schedule.seconds.any() for schedule in schedules):
            self.settings.report(
                (traffic,),
                f"{self.chosen(traffic)} computes, and engine {self.chosen('engine')} only sends. Leave the "
                f"computations out{instead(self.registers)}.",
            )
        listed = [self._guarded((traffic,), schedule.expand) for schedule in schedules]
        self.settings.check()
        return [schedule for schedule in listed if schedule is not None]

    def engine(self, fabric: Fabric | None) -> Engine | None:
        """The chosen engine. To be asked for before the controller, which some do not need."""
        engine: Engine | None = self.plugin("engine", fabric)
        self._idle = ("controller",) if engine is not None and not engine.packets else ()
        return engine

    def check_engine(
        self, engine: Engine, faults: Sequence[ResolvedFault], estimator: Estimator | None = None
    ) -> None:
        """Report what the engine lacks of what the experiment wants, evidence for the estimator included."""
        needs: tuple[str, ...] = ()
        if estimator is not None:
            needs = self._guarded(("estimator",), needs_of, self.chosen("estimator"), estimator) or ()
        for key, message in refusals(self._request, engine, self.registers["engine"], faults, needs):
            self.settings.report(key, message)

    def topology(self) -> tuple[Any, Fabric | None]:
        """The topology plugin and the fabric it builds."""
        if self._parent is not None:
            self._choices["topology"] = self._parent._choices.get("topology", self._request.topology)
            return self._parent.topology()
        if self._built is None:
            self._built = self._build()
        return self._built

    def _build(self) -> tuple[Any, Fabric | None]:
        topology = self.plugin("topology", None)
        if topology is None or "topology" in self._unreadable:
            return topology, None
        choice = self._choices["topology"]
        with self._stage("fabric"):
            fabric = self._guarded(("topology",), fabric_of, choice.name, topology, choice.options)
        self.settings.notes += topology.notes
        return topology, fabric

    def plugin(self, kind: str, fabric: Fabric | None) -> Any:
        """The chosen plugin with its options; a router or collective must serve the fabric."""
        if kind in self._broken:
            return None
        choice = choice_of(self._request, self.settings.value, self.registers, kind, fabric)
        plugin, options = self._configured(
            kind, choice.name, choice.options, key=(kind,), name_key=self._name_key(kind)
        )
        if plugin is not None:
            self._choices[kind] = Choice(name=choice.name, options=options)
            if fabric is not None and kind in ("router", "collective", "workload"):
                self.must_serve(kind, choice.name, plugin, fabric)
        return plugin

    def _configured(
        self, kind: str, name: str, options: Mapping[str, object], *, key: Key, name_key: Key
    ) -> tuple[Any, Mapping[str, Value]]:
        """A plugin, and its complete options; (None, {}) where something is wrong and reported."""
        registered = self._guarded(name_key, self.registers[kind].__getitem__, name)
        if registered is None:
            return None, {}
        elsewhere = partial(self._engines_with, kind)
        owner = f"{kind} {name}"
        values = options_of(self.settings, key, owner, options, registered.parameters, elsewhere)
        if values is None:
            return None, {}
        if kind in self._idle:  # its options are checked, and what it needs may be missing
            return registered, values
        return self._guarded(key, configured, kind, name, registered, values), values

    def _engines_with(self, kind: str, option: str) -> str:
        """` Engines that have it: packet.` of an option that the chosen engine does not have; else ""."""
        engines = self.registers["engine"].items() if kind == "engine" else ()
        able = [name for name, engine in engines if option in {p.name for p in engine.parameters}]
        return f" Engines that have it: {', '.join(able)}." if able else ""

    def chosen(self, kind: str) -> str:
        """The name of the plugin that `plugin` gave."""
        return self._choices[kind].name if kind in self._choices else ""

    def must_serve(self, kind: str, name: str, plugin: Router | Collective, fabric: Fabric) -> None:
        """Report a router or collective that does not serve the fabric, with those that do."""
        if why := why_unserved(plugin, fabric):
            others = [n for n, p in self.registers[kind].items() if not why_unserved(p, fabric)]
            self.settings.report(
                self._name_key(kind),
                f"{kind} {name} does not serve this {fabric.kind}: {why}. "
                f"For {fabric.kind} there is: {', '.join(others) or 'none'}.",
            )

    def faults(
        self, fabric: Fabric | None, iterations: int, engine: Engine | None = None
    ) -> tuple[ResolvedFault, ...]:
        """The faults of a run of `iterations`; without the default one where it does not fit."""
        if fabric is None or "faults" in self._broken:
            return ()
        request, notes = self._request, self.settings.notes
        named = "faults" in self.settings.value
        if len(request.sizes) > 1 and not named:
            notes.append("no fault in this run: it sweeps over sizes; give one with --fault if you want it")
            return ()
        if request.jobs and not named:
            notes.append("no fault in this run: it has several jobs; give one with --fault if you want it")
            return ()
        resolved: list[ResolvedFault] = []
        board = None if fabric.circuits is None else CircuitBoard(fabric)
        for i, text in enumerate(request.faults):
            try:
                fault = parse(text)
                if (fault.at_iteration or 0) >= iterations and "iterations" not in self._broken:
                    raise FaultError(
                        f"{text!r}: iteration {fault.at_iteration} never comes; there are {iterations}, "
                        f"0 to {iterations - 1}. Raise iterations or let it fire earlier."
                    )
                # a stored experiment holds the steps of a fault next to it
                resolved += [
                    resolve(step, fabric, processes=engine is None or engine.packets, board=board)
                    for step in steps(fault)
                    if step is fault or step.text not in request.faults
                ]
            except RailweaveError as error:
                if named:
                    self.settings.report(("faults", i), str(error))
                else:
                    notes.append(f"no fault in this run; the default does not fit it: {error}")
        return tuple(resolved)

    def captured(self, fabric: Fabric | None) -> tuple[int, ...]:
        """The links whose packets are captured."""
        names = () if fabric is None or "pcap" in self._broken else self._request.pcap
        links = [self._guarded(("pcap", i), find_link, fabric, name) for i, name in enumerate(names)]
        return tuple(link for link in links if link is not None)

    def reports(self) -> dict[str, Report]:
        """Every registered report, with its options."""
        made, chosen = dict[str, Report](), self._request.reports
        for name in dict.fromkeys((*self.registers["report"], *chosen)):
            key: Key = ("reports", name)
            report, _ = self._configured("report", name, chosen.get(name, {}), key=key, name_key=key)
            if report is not None:
                made[name] = report
        return made

    @contextmanager
    def _stage(self, stage: str) -> Iterator[None]:
        """The block is this stage of planning; it is timed, and refused more memory than is free."""
        began_s = time.process_time()
        with refused_beyond_memory():
            yield
        self._took_s[stage] = self._took_s.get(stage, 0.0) + time.process_time() - began_s

    def _guarded(self, key: Key, make: Callable[..., _T], *arguments: Any) -> _T | None:
        """What `make` gives, or None with its refusal reported."""
        try:
            return make(*arguments)
        except RailweaveError as error:
            self.settings.report(key, str(error), error)
        return None

    def _name_key(self, kind: str) -> Key:
        return (kind, "name") if self.settings.is_set(kind, "name") else (kind,)
