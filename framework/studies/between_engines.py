"""Experiments on several engines, as a study: all runs of one at one rate scale, and models with what the
first engine measured of packets and of the moments at which jobs sent."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from railweave.framework.errors import InputError, RunFailedError
from railweave.framework.experiment.engines import DEFAULT, predicting
from railweave.framework.experiment.plan import Plan, from_document
from railweave.framework.experiment.schema import MOST_SEED
from railweave.framework.experiment.settings import LayeredSettings
from railweave.framework.judging.agreement import Agreement, Observation, agreement, observed
from railweave.framework.model.events import RunEvent
from railweave.framework.registry import Registers
from railweave.framework.results.directory import RunDirectory
from railweave.framework.results.result import RunResult
from railweave.framework.runs import runner
from railweave.framework.studies.carrying_out import ROWS
from railweave.framework.studies.computing import Row
from railweave.framework.studies.ledger import rows
from railweave.framework.studies.points import Point
from railweave.framework.studies.sweep_file import Sweep, sweep_of
from railweave.framework.studies.sweeps import as_written, carried_out, check, sweep_of_plan
from railweave.framework.studies.version import code_version

NAME, CASE, ENGINE, OBSERVED = "compare-engines", "case", "engine", "observed"
"""The study, its axes, and what its rows have besides figures."""

OPTION = "engine."
"""What keys of the options of an engine begin with."""


def engines_of(names: Sequence[str], registers: Registers, most: int | None = 2) -> tuple[str, ...]:
    """Two different engines, or up to `most` (None: any number); the default one and the one that predicts
    where none are named. Raises InputError for fewer or more of them, and for one that there is not."""
    usual = DEFAULT, predicting(registers)
    if not names:
        return usual
    if len(names) < 2 or len(set(names)) < len(names) or (most is not None and len(names) > most):
        several = "two" if most == 2 else "two or more"
        listed = ", ".join(names)
        raise InputError(
            f"engines: expects {several} different ones, such as {','.join(usual)} (got {listed})."
        )
    engines = registers["engine"]
    if unknown := [name for name in names if name not in engines]:
        raise InputError(
            f"--engines: there is no engine {unknown[0]!r}; known are: {', '.join(sorted(engines))}."
        )
    return tuple(names)


def on_engines(plans: Mapping[str, Plan], repeat: int = 1) -> Sweep:
    """The sweep of one experiment on several engines, by its plans for them."""
    axis = [{"label": name, **as_written(plan)["engine"]} for name, plan in plans.items()]
    return sweep_of_plan(NAME, next(iter(plans.values())), {ENGINE: axis}, {"repeats": repeat})


def cases_on_engines(
    cases: Mapping[str, Mapping[str, object]],
    engines: Sequence[str],
    changed: Mapping[str, object],
    registers: Registers,
    repeat: int = 1,
) -> Sweep:
    """The sweep of experiments, as keys by name, on several engines; keys in `changed` win, options of an
    engine (`keys_by_engine`) go to the engines that have them. Raises InputError for one that none has."""
    by_engine = keys_by_engine(changed, engines, registers)
    common = {key: value for key, value in changed.items() if not key.startswith(OPTION)}
    options = {name: [key for key in keys if key.startswith(OPTION)] for name, keys in by_engine.items()}
    axes = {
        CASE: [
            {"label": name, **{k: v for k, v in keys.items() if k not in changed}}
            for name, keys in cases.items()
        ],
        ENGINE: [
            {"label": name, "name": name, **{k.removeprefix(OPTION): changed[k] for k in options[name]}}
            for name in engines
        ],
    }
    value = {"name": NAME, "experiment": common, "axes": axes, "repeats": repeat}
    return sweep_of(LayeredSettings(NAME, value, written=True), NAME)


def keys_by_engine(
    keys: Mapping[str, object], engines: Sequence[str], registers: Registers
) -> dict[str, dict[str, object]]:
    """By engine, `keys` without the options (`engine.OPTION`) that it has not. Raises InputError for one that
    none of the engines has."""
    has = {name: {option.name for option in registers["engine"][name].parameters} for name in engines}
    options = {key: key.removeprefix(OPTION) for key in keys if key.startswith(OPTION)}
    for key, option in options.items():
        if not any(option in owned for owned in has.values()):
            raise InputError(f"--set {key}: none of the engines {', '.join(engines)} has such an option.")
    return {
        name: {key: value for key, value in keys.items() if options.get(key, "") in {"", *owned}}
        for name, owned in has.items()
    }


@dataclass(frozen=True, slots=True)
class Compared:
    """How a case came out: each engine next to the one before; none where a run `failed`, which says why."""

    case: str
    agreements: tuple[Agreement, ...]
    failed: str = ""

    @property
    def doubtful(self) -> bool:
        """Whether the verdict of a run is not pass."""
        return any({*agreement.verdicts} != {"pass"} for agreement in self.agreements)


class EngineRuns:
    """The runs of a sweep of experiments on engines, the first of `engines` first, in turn in this process; a
    directory keeps rows and runs; a run that it has is not repeated. `on_event`: of the first engine.
    """

    def __init__(
        self,
        sweep: Sweep,
        engines: Sequence[str],
        directory: Path,
        registers: Registers,
        on_event: Callable[[RunEvent], None] = lambda event: None,
    ) -> None:
        self._sweep, self._engines, self._directory = sweep, tuple(engines), directory
        self._registers, self._on_event = registers, on_event
        path = directory / ROWS
        self._rows: dict[str, Row] = rows(path, NAME, code_version()) if path.is_file() else {}
        self._points: dict[str, list[Point]] = {}
        for point in sweep.study.points():
            self._points.setdefault(_case_of(point), []).append(point)
        self._point: Point | None = None
        self._observed: Observation | None = None

    def carry_out(
        self,
        on_point: Callable[[Point], None] = lambda point: None,
        on_row: Callable[[Point, Row], None] = lambda point, row: None,
    ) -> None:
        """Run what the directory lacks, and what failed. Raises InputError before anything runs."""
        if len(check(self._sweep, self._registers).schedules) > 1:
            raise InputError("size: engines are compared at one size. Give one, such as --size 1M.")

        def begin(point: Point) -> None:
            self._point, self._observed = point, None
            on_point(point)

        def add(point: Point, row: Row) -> Row:
            if self._observed is not None:
                row = {**row, OBSERVED: asdict(self._observed)}
            self._rows[point.id] = row
            on_row(point, row)
            return row

        carried_out(
            self._sweep, self._directory, self._registers, self._run, here=True, retry_failed=True,
            differing=(ENGINE,), on_point=begin, on_row=add,
        )  # fmt: skip

    def _run(self, plan: Plan, directory: RunDirectory) -> RunResult:
        assert self._point is not None
        on_event = self._on_event
        if (name := plan.experiment.engine.name) != self._engines[0]:
            on_event = _ignore
            runs = self._of(_case_of(self._point), self._engines[0])
            if self._point.repeat not in runs:
                raise RunFailedError(f"{self._engines[0]} has no run to compare {name} with.")
            first = runs[self._point.repeat]
            plan = _in_step(plan, first, self._point.repeat, self._registers)
            plan = plan.at_scale(first.rate_scale, first.latency_s)
        result = runner.run(plan, self._registers, directory, on_event)
        self._observed = observed(result)
        return result

    def _of(self, case: str, engine: str) -> dict[int, Observation]:
        """The runs of a case on an engine, by number."""
        return {
            point.repeat: Observation.read(row[OBSERVED])
            for point in self._points[case]
            if point.settings[ENGINE] == engine and OBSERVED in (row := self._rows.get(point.id, {}))
        }

    def compared(self, case: str = "") -> Compared | None:
        """A case whose points all have rows; of others None."""
        points = self._points[case]
        if not all(point.id in self._rows for point in points):
            return None
        for point in points:
            row = self._rows[point.id]
            if OBSERVED not in row:
                return Compared(
                    case, (), f"engine {point.settings[ENGINE]}: {row.get('error', 'not compared')}"
                )
        runs = [tuple(self._of(case, engine).values()) for engine in self._engines]
        pairs = zip(pairwise(self._engines), pairwise(runs), strict=True)
        return Compared(case, tuple(agreement(names, both) for names, both in pairs))


def _case_of(point: Point) -> str:
    return str(point.settings.get(CASE, ""))


def _in_step(plan: Plan, first: Observation, repeat: int, registers: Registers) -> Plan:
    """The plan with jobs that start and pause as in a run of the first engine, and draws of its own in every
    repeat: runs on that engine, which measures, differ too."""
    seed = (plan.experiment.seed + repeat) % (MOST_SEED + 1)
    document: dict[str, Any] = {**plan.document(), "seed": seed}
    if first.starts_s:
        times = zip(document["jobs"], first.starts_s, first.pauses_s, strict=True)
        timed = [{**job, "start": start_s, "pause": pause_s} for job, start_s, pause_s in times]
        document = {**document, "jobs": timed}
    return from_document(document, registers)


def _ignore(event: RunEvent) -> None:
    """Of another engine than the first."""


def run_on_all(
    plans: Mapping[str, Plan],
    repeat: int,
    registers: Registers,
    directory: Path,
    on_event: Callable[[RunEvent], None] = lambda event: None,
    on_point: Callable[[Point], None] = lambda point: None,
) -> tuple[Agreement, ...]:
    """Run one experiment, by its plans for several engines, and compare each engine with the one before it.
    Raises RunFailedError, with the engine's name, where one of the runs fails."""
    runs = EngineRuns(on_engines(plans, repeat), [*plans], directory, registers, on_event)
    runs.carry_out(on_point)
    compared = runs.compared()
    assert compared is not None
    if compared.failed:
        raise RunFailedError(compared.failed)
    return compared.agreements
