"""The experiment, checked whole before anything starts, and the plan of a run that comes of it.

`load` reads file and options, `Plan` is the result: the fabric built, plugins configured, faults found in the
fabric. `plan.document()` travels as plain data; `from_document` makes the same plan of it in another process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from railweave.framework.control import first_routes
from railweave.framework.errors import FaultError, PluginError, RailweaveError
from railweave.framework.experiment_model import (
    KINDS,
    PARAMETERS,
    Choice,
    Experiment,
    experiment,
    from_mapping,
    options_of,
    settings,
)
from railweave.framework.fault_objects import find_link
from railweave.framework.faults import ResolvedFault, parse, resolve, steps
from railweave.framework.hookspecs import (
    Collective,
    Controller,
    Engine,
    Estimator,
    Router,
    Topology,
    Transport,
)
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.parameters import Value
from railweave.framework.problems import Settings
from railweave.framework.quantities import exact
from railweave.framework.registry import Registers
from railweave.framework.sizes import spoken


@dataclass(frozen=True)
class Plan:
    """Everything decided before a run starts. `fabric` has declared rates; plugins carry their options.

    `collective`: what the GPUs do, also when it is a workload. `schedules`: one for each size, ascending.
    """

    experiment: Experiment
    topology: Topology
    topology_params: Mapping[str, Value]
    fabric: Fabric
    router: Router
    collective: Collective
    estimator: Estimator
    controller: Controller
    transport: Transport
    engine: Engine
    schedules: tuple[Schedule, ...]
    packet: PacketFormat
    faults: tuple[ResolvedFault, ...]
    pcap_links: tuple[int, ...]
    notes: tuple[str, ...] = ()

    @property
    def schedule(self) -> Schedule:
        """That of the largest size."""
        return self.schedules[-1]

    @property
    def iterations(self) -> int:
        """Of all sizes together."""
        return self.experiment.iterations * len(self.schedules)

    def schedule_of(self, iteration: int) -> Schedule:
        """The schedule that iteration 0..iterations-1 carries out: one size after the other."""
        return self.schedules[iteration // self.experiment.iterations]

    def document(self) -> dict[str, object]:
        """The resolved experiment as plain data in base units; `from_document` makes this plan of it."""
        return self.experiment.document()

    def yaml(self) -> str:
        """The resolved experiment as a file a person reads, and `railweave run` runs again."""
        document = self.document()
        for kind in (kind for kind in KINDS if kind in document):
            plugin = self.collective if kind == "workload" else getattr(self, kind)
            units = {p.name: p for p in getattr(plugin, "parameters", ())}
            section = document[kind]
            assert isinstance(section, dict)
            document[kind] = {k: exact(units[k], v) if k in units else v for k, v in section.items()}
        health = document["health"]
        assert isinstance(health, dict)
        document["health"] = {k: exact(PARAMETERS[f"health.{k}"], v) for k, v in health.items()}
        document["size"] = spoken(self.experiment.size)
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def load(
    path: Path | None,
    overrides: Mapping[str, object] | None,
    registers: Registers,
    labels: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of an experiment file with options laid over it; no file means all defaults.

    `overrides`: dotted keys such as "size", "router", "topology.rails", "health.step". `labels`: what the user
    called them, for messages (`--rails`). The first routes are asked for and checked: a router that fails is told
    of before anything starts. Raises ExperimentError that lists everything wrong at once.
    """
    found = settings(path, overrides, labels)
    plan = _plan(found, registers)
    chosen, health = plan.experiment.router.name, plan.experiment.health.options()
    key = ("router", "name") if found.given("router", "name") else ("router",)
    _guarded(found, key, lambda: first_routes(plan.fabric, plan.router, chosen, health))
    found.check()
    return plan


def from_document(document: Mapping[str, object], registers: Registers) -> Plan:
    """The plan that gave this document, in another process or at another time."""
    return _plan(from_mapping(document, "the experiment's document"), registers)


def build_fabric(
    name: str, options: Mapping[str, object], labels: Mapping[str, str], registers: Registers
) -> Fabric:
    """A fabric alone, for looking at. Raises ExperimentError that lists everything wrong."""
    found = settings(None, {"topology": name, **{f"topology.{k}": v for k, v in options.items()}}, labels)
    asked, _ = experiment(found)
    topology, choice = _chosen(found, registers, "topology", asked.topology)
    fabric: Fabric | None = None
    if choice is not None:
        fabric = _guarded(found, ("topology",), lambda: topology.build(choice.options))
    found.check()
    assert fabric is not None
    return fabric


def build_routed(
    overrides: Mapping[str, object], labels: Mapping[str, str], registers: Registers
) -> tuple[Fabric, str, Router, tuple[ResolvedFault, ...]]:
    """A fabric, the name of a router that serves it, that router, and faults found in the fabric: for looking at.

    `overrides` and `labels` as for `load`; no fault unless given. Raises ExperimentError that lists everything wrong.
    """
    found = settings(None, {"faults": [], **overrides}, labels)
    asked, broken = experiment(found)
    topology, fabric_choice = _chosen(found, registers, "topology", asked.topology)
    router, router_choice = _chosen(found, registers, "router", asked.router)
    fabric: Fabric | None = None
    faults: tuple[ResolvedFault, ...] = ()
    if fabric_choice is not None:
        fabric = _guarded(found, ("topology",), lambda: topology.build(fabric_choice.options))
    if fabric is not None and router_choice is not None:
        _must_serve(found, registers, "router", router_choice.name, router, fabric)
    if fabric is not None and "faults" not in broken:
        faults = _faults(found, asked, fabric, 1 << 60)
    found.check()
    assert fabric is not None and router_choice is not None
    return fabric, router_choice.name, router, faults


def _plan(found: Settings, registers: Registers) -> Plan:
    unread = {p.key[0] for p in found.problems if p.key}
    asked, broken = experiment(found)
    things: dict[str, Any] = {}
    choices: dict[str, Choice] = {}
    if asked.oracle and not asked.feedback:
        found.report(
            ("oracle",), "tells the router the truth, and without feedback it is told nothing. Give one."
        )
    instead = "workload" if asked.workload else "collective"
    if asked.workload and "collective" in found.value:
        found.report(
            ("workload",), "stands in place of a collective, and there is one too. Give one of them."
        )
    for kind in KINDS:
        if kind in broken or (kind in ("workload", "collective") and kind != instead):
            continue
        thing, choice = _chosen(found, registers, kind, getattr(asked, kind))
        if choice is not None:
            things[kind], choices[kind] = thing, choice
    fabric: Fabric | None = None
    if "topology" in things and "topology" not in unread:
        params = choices["topology"].options
        fabric = _guarded(found, ("topology",), lambda: things["topology"].build(params))
    width = np.dtype(asked.dtype).itemsize
    odd = next((size for size in asked.sizes if size % width), None)
    if odd is not None and not broken & {"size", "dtype"}:
        found.report(("size",), f"{odd} bytes are not whole elements of {asked.dtype} ({width} bytes each).")
    faults: tuple[ResolvedFault, ...] = ()
    pcap: tuple[int, ...] = ()
    schedules: tuple[Schedule, ...] | None = None
    if fabric is not None:
        for kind in ("router", instead):
            if kind in things:
                _must_serve(found, registers, kind, choices[kind].name, things[kind], fabric)
        if "faults" not in broken:
            count = 1 << 60 if "iterations" in broken else asked.iterations * len(asked.sizes)
            faults = _faults(found, asked, fabric, count)
        if "pcap" not in broken:
            pcap = _captured(found, asked, fabric)
        if instead in things and not found.problems:
            ranks, dtype, redop = range(fabric.n_gpus), asked.dtype, asked.redop
            plan = things[instead].schedule
            schedules = _guarded(
                found,
                (instead,),
                lambda: tuple(plan(fabric, ranks, size, dtype, redop) for size in asked.sizes),
            )
    found.check()
    assert fabric is not None and schedules is not None
    resolved = asked.model_copy(update={**choices, "faults": tuple(f.text for f in faults)})
    return Plan(
        experiment=resolved,
        topology=things["topology"],
        topology_params=_values(choices["topology"]),
        fabric=fabric,
        router=things["router"],
        collective=things[instead],
        estimator=things["estimator"],
        controller=things["controller"],
        transport=things["transport"],
        engine=things["engine"],
        schedules=schedules,
        packet=PacketFormat(asked.path_mtu),
        faults=faults,
        pcap_links=pcap,
        notes=tuple(found.notes),
    )


def _chosen(found: Settings, registers: Registers, kind: str, choice: Choice) -> tuple[Any, Choice | None]:
    """The plugin, configured, and the choice with its options complete; None for it when something is wrong."""
    try:
        thing = registers[kind][choice.name]
    except PluginError as error:
        found.report((kind, "name") if found.given(kind, "name") else (kind,), str(error))
        return None, None
    options = options_of(found, kind, choice, tuple(getattr(thing, "parameters", ())))
    if options is None:
        return None, None
    configure = getattr(thing, "configured", None)
    if configure is not None:
        thing = _guarded(found, (kind,), lambda: configure(options))
    return thing, None if thing is None else Choice(name=choice.name, options=options)


def _guarded(found: Settings, key: tuple[str, ...], make: Any) -> Any:
    """What `make` gives, or None with its refusal reported."""
    try:
        return make()
    except RailweaveError as error:
        found.report(key, str(error))
        return None


def _must_serve(
    found: Settings, registers: Registers, kind: str, name: str, thing: Router | Collective, fabric: Fabric
) -> None:
    if serves(thing, fabric.kind):
        return
    others = [n for n, t in registers[kind].items() if serves(t, fabric.kind)]
    found.report(
        (kind, "name") if found.given(kind, "name") else (kind,),
        f"{kind} {name} does not serve {fabric.kind} fabrics, only {', '.join(thing.serves)}. "
        f"For {fabric.kind} there is: {', '.join(others) or 'none'}.",
    )


def serves(thing: Router | Collective, fabric_kind: str) -> bool:
    """Whether a router or collective serves a kind of fabric; `*` or nothing said is all of them."""
    return not thing.serves or "*" in thing.serves or fabric_kind in thing.serves


def _faults(found: Settings, asked: Experiment, fabric: Fabric, iterations: int) -> tuple[ResolvedFault, ...]:
    chosen = found.value.get("faults") is not None
    if len(asked.sizes) > 1 and not chosen:
        found.notes.append("no fault in this run: it sweeps over sizes; give one with --fault if you want it")
        return ()
    resolved: list[ResolvedFault] = []
    for i, text in enumerate(asked.faults):
        try:
            fault = parse(text)
            if fault.at_iteration is not None and fault.at_iteration >= iterations:
                raise FaultError(
                    f"{text!r}: iteration {fault.at_iteration} never comes; there are {iterations}, "
                    f"0 to {iterations - 1}. Raise iterations or let it fire earlier."
                )
            # a stored experiment holds a fault's steps beside it
            made = [s for s in steps(fault) if s is fault or s.text not in asked.faults]
            resolved += [resolve(step, fabric) for step in made]
        except RailweaveError as error:
            if chosen:
                found.report(("faults", i), str(error))
            else:
                found.notes.append(f"no fault in this run; the default does not fit it: {error}")
    return tuple(resolved)


def _captured(found: Settings, asked: Experiment, fabric: Fabric) -> tuple[int, ...]:
    links = []
    for i, name in enumerate(asked.pcap):
        try:
            links.append(find_link(fabric, name))
        except RailweaveError as error:
            found.report(("pcap", i), str(error))
    return tuple(links)


def _values(choice: Choice) -> dict[str, Value]:
    return {k: v for k, v in choice.options.items() if isinstance(v, int | float | bool | str)}
