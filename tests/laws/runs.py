"""Drawn experiments carried out on the engine `fluid`, in this process."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from math import inf
from pathlib import Path
from pprint import pformat
from typing import Any

import railweave as rw
from railweave.framework.errors import TransportError
from railweave.framework.experiment.plan import Plan
from railweave.framework.hookspecs import hookimpl
from railweave.framework.judging.run_result import run_result
from railweave.framework.model import HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.findings import Findings
from railweave.framework.registry import Registers
from railweave.framework.results.result import RunResult
from railweave.framework.routing.batches import join
from tests.laws.experiments import Document, registers


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="railweave-laws-")


def written(document: Mapping[str, Any]) -> Document:
    """The document with the text of a fabric in a file, in place of the text."""
    document = deepcopy(dict(document))
    topology = document["topology"]
    if "text" in topology:
        text = topology.pop("text")
        path = Path(_folder().name, hashlib.sha256(text.encode()).hexdigest()[:12] + ".yaml")
        if not path.exists():
            path.write_text(text)
        topology["file"] = str(path)
    return document


class RouteWatch:
    """Keeps the tables that came into use during a run."""

    def __init__(self) -> None:
        self.tables: list[RouteTable] = []

    @hookimpl
    def on_reroute(self, table: RouteTable) -> None:
        self.tables.append(table)


@dataclass(frozen=True)
class Outcome:
    """How a run went. `failed`: why, where its traffic ended for good; then there are no `findings`.
    `rerouted`: the tables that came into use after the first."""

    plan: Plan
    findings: Findings | None
    rerouted: tuple[RouteTable, ...] = ()
    failed: str = ""

    @property
    def found(self) -> Findings:
        assert self.findings is not None, self.failed
        return self.findings

    def seconds(self, job: int = 0) -> list[float]:
        """Of every iteration, on the run's clock; infinite ones of a run that failed."""
        if self.findings is None:
            return [inf] * (self.plan.iterations or 1)
        return [one.result.seconds for one in self.findings.iterations if one.job == job and not one.alone]

    def declared_s(self, job: int = 0) -> list[float]:
        return [seconds * self.found.rate_scale for seconds in self.seconds(job)]

    @property
    def healthy(self) -> HealthSnapshot:
        """What the router was first asked with."""
        return HealthSnapshot.healthy(self.plan.fabric, margin=self.plan.experiment.health.margin)

    @property
    def paths(self) -> list[PathBatch]:
        """The paths of all pairs in use: those at the beginning, then those after each reroute."""
        assert self.plan.pairs is not None
        return [join(*self.plan.first_paths), *(table.paths(*self.plan.pairs) for table in self.rerouted)]

    @cached_property
    def result(self) -> RunResult:
        return run_result(self.plan, self.found, 0.0, lambda text: None)


def plan_of(document: Mapping[str, Any]) -> Plan:
    """The plan of a drawn experiment; raises ExperimentError for one that cannot be."""
    return rw.load(
        {**written(document), "engine": {"name": "fluid", **document.get("engine", {})}},
        registers=registers(),
    )


def run(document: Mapping[str, Any]) -> Outcome:
    """The outcome of a drawn experiment."""
    plan, watch = plan_of(document), RouteWatch()
    try:
        findings = plan.engine.run(plan, Registers((("laws", watch),)), lambda event: None)
    except TransportError as error:
        return Outcome(plan, None, tuple(watch.tables), str(error))
    return Outcome(plan, findings, tuple(watch.tables))


def reproduction(document: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]) -> str:
    """Python that runs the experiment by the public calls, once for each variant."""
    lines, files = ["import railweave as rw"], dict[str, str]()

    def plain(part: Mapping[str, Any]) -> Document:
        part = deepcopy(dict(part))
        topology = part.get("topology", {})
        if text := topology.pop("text", ""):
            topology["file"] = files.setdefault(text, f"fabric{len(files)}.yaml")
        return part

    experiment, changes = plain({"engine": {"name": "fluid"}, **document}), [plain(part) for part in variants]
    lines += [f"open({name!r}, 'w').write({text!r})" for text, name in files.items()]
    lines.append(f"experiment = {pformat(experiment, width=110, sort_dicts=False)}")
    for change in changes:
        lines.append(f"result = rw.run({{**experiment, **{change!r}}})")
        lines.append("print([round(row.declared_time_us, 4) for row in result.rows])")
    return "\n".join(lines)
