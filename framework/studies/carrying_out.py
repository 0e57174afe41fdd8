"""A study carried out: points that its ledger lacks are computed, a few at a time, and their rows kept."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import islice
from json import dumps
from pathlib import Path
from typing import Any, Protocol

from railweave.framework.errors import RailweaveError
from railweave.framework.experiment.engines import DEFAULT
from railweave.framework.experiment.plan import Plan
from railweave.framework.registry import Registers
from railweave.framework.results.directory import RunDirectory
from railweave.framework.results.result import RunResult
from railweave.framework.studies.computing import Row, Task, computed
from railweave.framework.studies.ledger import HEAD, Ledger, LedgerContent, known, rows
from railweave.framework.studies.points import Point, Study, listed
from railweave.framework.studies.version import code_version

ROWS, SWEEP, RUNS = "rows.jsonl", "sweep.yaml", "runs"
"""What the directory of a study holds: its rows, the study as it was written, and the runs of its labs."""
COMPARED = ("router", "feedback", "oracle", "health", "estimator", "measure", "faults", "jobs", "seed")
"""Keys in which runs differ that are compared with each other, and that have one rate scale therefore."""


class Workers(Protocol):
    """What computes points (local.py, on_dask.py). `runs_labs`: those on labs, too, where `lab` says so;
    `waits_for`: what is missing while none can be computed, else ""."""

    runs_labs: bool
    waits_for: str

    @property
    def free(self) -> bool:
        """Whether another task may be submitted."""

    @property
    def busy(self) -> bool:
        """Whether any task has not ended."""

    def submit(self, task: Task, *, lab: bool = False) -> None: ...

    def finished(self) -> Iterator[tuple[str, Row]]:
        """The point and the row of every task that has ended; waits for one, or for what changes
        `waits_for`."""

    def close(self) -> None: ...


RunHere = Callable[[Plan, RunDirectory], RunResult]


@dataclass(slots=True)
class Tally:
    """How far a study is. `points`: how many are wanted, and `ids` of the points looked at, in order;
    `before`: had a row when it began; `done`: have one now; `failed`: of these, by cause; `twice`: points
    that are others of the study again; `foreign`: rows of this version that belong to none, None where that
    was not counted; `versions`: rows of each other version; `cut_bytes`: of a torn last row;
    `waits_for`: what is missing while no worker can compute, else ""."""

    points: int
    ids: list[str] = field(default_factory=list, repr=False)
    before: int = 0
    done: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    twice: int = 0
    foreign: int | None = None
    versions: Mapping[str, int] = field(default_factory=dict)
    cut_bytes: int = 0
    waits_for: str = ""


def status(study: Study, directory: Path, *, limit: int | None = None, mix_versions: bool = False) -> Tally:
    """How far a study is, or its first `limit` points, by its ledger; nothing is computed. Causes are not
    told apart."""
    content = known(directory / ROWS, study.name, None if mix_versions else code_version())
    tally = Tally(_wanted(study, limit), versions=content.others)
    for point in _missing(study, content, tally, limit, retry_failed=False):
        del point  # counting is all
    return tally


def carry_out(
    study: Study,
    directory: Path,
    registers: Registers,
    workers: Workers | None,
    run_here: RunHere,
    *,
    limit: int | None = None,
    retry_failed: bool = False,
    mix_versions: bool = False,
    add: Iterable[Row] = (),
    differing: Sequence[str] = COMPARED,
    on_begin: Callable[[], None] = lambda: None,
    on_point: Callable[[Point], None] = lambda point: None,
    on_row: Callable[[Point, Row], Row] = lambda point, row: row,
    on_progress: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Compute the points of a study, or the first `limit`, that its ledger lacks. Points on labs, or without
    `workers` all, run in turn in this process, by `run_here`, while no worker computes, unless workers run
    labs; points that differ in the keys `differing` alone are compared, and run at one rate scale.
    `add`: rows of the same study from elsewhere; the ones the ledger lacks are kept first.

    `on_begin` is called once no other process can write to the study; `on_point` before a point runs here;
    `on_row` with each row, for the row that is kept.

    Raises InputError as `Ledger` does; RunFailedError where a row cannot be kept. `workers` are not closed.
    """
    version = code_version()
    with Ledger(directory / ROWS, study.name) as ledger:
        on_begin()
        if others := [*add]:
            _add(ledger, others, known(directory / ROWS, study.name, None))
        content = known(directory / ROWS, study.name, None if mix_versions else version)
        tally = Tally(_wanted(study, limit), versions=content.others, cut_bytes=ledger.cut)
        labs = _Labs(study, directory, registers, version, differing)
        kept = _Kept(ledger, version, tally, labs, on_row, on_progress)
        for point in _missing(study, content, tally, limit, retry_failed=retry_failed):
            task = Task(point.id, *study.keys(point), study.written)
            lab = needs_lab(task, registers)
            if workers is None or (lab and not workers.runs_labs):
                kept.collect_all(workers)
                on_point(point)
                kept.keep(point, labs.row(point, task, run_here))
                continue
            if lab:
                while (pinned := labs.pinned(task)) is None:
                    kept.collect(workers)
                task = pinned
            while not workers.free:
                kept.collect(workers)
            kept.under_way[point.id] = point
            workers.submit(task, lab=lab)
        kept.collect_all(workers)
        on_progress(tally)
    return tally


def _add(ledger: Ledger, rows: Iterable[Row], content: LedgerContent) -> None:
    """Keep rows from elsewhere of points that have none."""
    for row in rows:
        if row["point"] not in content.ok:
            point, version, ok = (row[key] for key in HEAD)
            ledger.add(point, version, ok, {key: value for key, value in row.items() if key not in HEAD})


class _Kept:
    """The rows of a study as they come. `under_way`: the points that workers have, by their ids."""

    def __init__(
        self,
        ledger: Ledger,
        version: str,
        tally: Tally,
        labs: "_Labs",
        on_row: Callable[[Point, Row], Row],
        on_progress: Callable[[Tally], None],
    ) -> None:
        self._ledger, self._version, self._tally, self._labs = ledger, version, tally, labs
        self._on_row, self._on_progress = on_row, on_progress
        self.under_way: dict[str, Point] = {}

    def keep(self, point: Point, row: Row) -> None:
        row, cause = self._on_row(point, self._labs.noted(point, row)), row.get("cause")
        who = {"settings": point.settings, "seed": point.seed, "repeat": point.repeat}
        document = {**who, **({"drawn": point.drawn} if point.drawn else {}), **row}
        self._ledger.add(point.id, self._version, cause is None, document)
        self._tally.done += 1
        if cause is not None:
            self._tally.failed[str(cause)] += 1
        self._on_progress(self._tally)

    def collect(self, workers: Workers) -> None:
        """Wait for rows; one that arrives twice counts once."""
        for identity, row in workers.finished():
            if point := self.under_way.pop(identity, None):
                self.keep(point, row)
        if workers.waits_for != self._tally.waits_for:
            self._tally.waits_for = workers.waits_for
            self._on_progress(self._tally)

    def collect_all(self, workers: Workers | None) -> None:
        """Until no worker has any more."""
        while workers is not None and workers.busy:
            self.collect(workers)


def _wanted(study: Study, limit: int | None) -> int:
    return study.count if limit is None else min(study.count, limit)


def _missing(
    study: Study, content: LedgerContent, tally: Tally, limit: int | None, *, retry_failed: bool
) -> Iterator[Point]:
    """The points without a row, or with one of a failure that is to be tried again; others are counted."""
    seen: set[str] = set()
    for point in islice(study.points(), limit):
        if point.id in seen:
            tally.twice += 1
            tally.points -= 1
            continue
        seen.add(point.id)
        tally.ids.append(point.id)
        ok = content.ok.get(point.id)
        if ok is None or (retry_failed and not ok):
            yield point
            continue
        tally.before += 1
        tally.done += 1
        if not ok:
            tally.failed["earlier"] += 1
    if limit is None or limit >= study.count:
        tally.foreign = len(content.ok.keys() - seen)


def needs_lab(task: Task, registers: Registers) -> bool:
    """Whether its engine has packets; one that there is not is refused when it is computed."""
    return _has_packets(task.over.get("engine", task.base.get("engine", DEFAULT)), registers)


def has_labs(study: Study, registers: Registers) -> bool:
    """Whether any point of a study needs a lab."""
    choices = [some["engine"] for some in (study.base, *listed(study)) if "engine" in some] or [DEFAULT]
    return any(_has_packets(choice, registers) for choice in choices)


def _has_packets(choice: object, registers: Registers) -> bool:
    name = str(choice.get("name", DEFAULT) if isinstance(choice, Mapping) else choice)
    engines = registers["engine"]
    return name in engines and bool(engines[name].packets)


class _Labs:
    """Points on labs. Those that are compared have the rate scale of the first of them; one that runs here
    leaves its run directory, named by what is different in it."""

    def __init__(
        self,
        study: Study,
        directory: Path,
        registers: Registers,
        version: str,
        differing: Sequence[str],
    ) -> None:
        self._study, self._directory, self._registers = study, directory, registers
        self._version, self._differing = version, differing
        self._alike: dict[str, str] = {}
        """What each point is compared with, by its id."""
        self._waiting: set[str] = set()

    @cached_property
    def _scales(self) -> dict[str, float]:
        kept = rows(self._directory / ROWS, self._study.name, self._version).values()
        return {row["alike"]: row["rate_scale"] for row in kept if row["ok"] and "alike" in row}

    def pinned(self, task: Task) -> Task | None:
        """The task at the rate scale of those it is compared with; None while the first of them runs. A task
        that cannot be planned is refused when it is computed."""
        try:
            plan = task.plan(self._registers)
        except RailweaveError:
            return task
        alike = self._alike[task.id] = _alike(plan, self._differing)
        if plan.experiment.rate_scale != "auto":
            return task
        if alike in self._scales:
            return replace(task, over={**task.over, "rate_scale": self._scales[alike]})
        if alike in self._waiting:
            return None
        self._waiting.add(alike)
        return task

    def row(self, point: Point, task: Task, run_here: RunHere) -> Row:
        """Of a point that runs here."""
        runs = self._directory / RUNS
        made: RunDirectory | None = None

        def run(plan: Plan) -> RunResult:
            nonlocal made
            alike = self._alike[point.id] = _alike(plan, self._differing)
            if plan.experiment.rate_scale == "auto" and alike in self._scales:
                plan = plan.at_scale(self._scales[alike])
            made = RunDirectory.create(_new(runs / _name(self._study, point)), "")
            return run_here(plan, made)

        row = computed(task, self._registers, run)
        return row if made is None else {**row, "directory": f"{RUNS}/{made.path.name}"}

    def noted(self, point: Point, row: Row) -> Row:
        """The row of a point, with what it is compared with if that is known."""
        if (alike := self._alike.pop(point.id, None)) is None:
            return row
        self._waiting.discard(alike)
        if "rate_scale" in row:
            self._scales.setdefault(alike, row["rate_scale"])
        return {**row, "alike": alike}


def _alike(plan: Plan, differing: Sequence[str]) -> str:
    """The same for plans that are compared with each other."""
    document: dict[str, Any] = {k: v for k, v in plan.document().items() if k not in differing}
    return sha256(dumps(document, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _name(study: Study, point: Point) -> str:
    """`router=hscore,feedback=false,seed=2`."""
    words = {**point.settings}
    if study.seeds > 1:
        words["seed"] = point.seed
    if study.repeats > 1:
        words["repeat"] = point.repeat + 1
    parts = [re.sub(r"[^\w.=%+-]+", "-", f"{key}={value}").strip("-") for key, value in words.items()]
    return (",".join(parts) or study.name)[:200]


def _new(path: Path) -> Path:
    """The directory, or where there is something of an earlier attempt, one next to it."""
    number, free = 1, path
    while free.exists() and any(free.iterdir()):
        number += 1
        free = path.with_name(f"{path.name}.attempt{number}")
    return free
