"""Sweeps from a file or from keywords to rows, lines and an answer."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from railweave.framework.errors import ExperimentError, InputError, RailweaveError
from railweave.framework.experiment import yaml_reader
from railweave.framework.experiment.plan import Plan
from railweave.framework.experiment.settings import LayeredSettings
from railweave.framework.registry import Registers
from railweave.framework.results.directory import write_whole
from railweave.framework.studies.answers import Answer, answers, sentence
from railweave.framework.studies.carrying_out import (
    COMPARED,
    ROWS,
    SWEEP,
    RunHere,
    Tally,
    Workers,
    carry_out,
    has_labs,
    needs_lab,
    status,
)
from railweave.framework.studies.computing import Row, Task, computed
from railweave.framework.studies.ledger import known, rows, study_of
from railweave.framework.studies.parquet import read_parquet, write_parquet
from railweave.framework.studies.points import Point
from railweave.framework.studies.sweep_file import MOST_POINTS, Sweep, read_sweep, sweep_of
from railweave.framework.studies.version import code_version

PARENT = Path("studies")
"""Where studies are, by their names, unless another place is given."""
TRIED, FAR = 3, 10_000
"""Points that are tried; a sweep is refused if none is possible. And how far apart they are at most."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """`rows`: of the points that have one, in the order of the study; `lines`: what they say, a line for each
    setting; `answer`: a sentence."""

    tally: Tally
    rows: tuple[Row, ...]
    lines: tuple[Answer, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class Ahead:
    """What computing the rest of a sweep will take. `seconds` and `memory_bytes` None where no engine says;
    `tried_s`: what the one point took that was computed to know it, None if none was."""

    points: int
    missing: int
    on_labs: bool
    seconds: float | None
    memory_bytes: int | None
    tried_s: float | None


def found(place: Path, *, limited: bool = False) -> tuple[Sweep, Path]:
    """The sweep of a file, or of the directory of a study, and that directory. Raises ExperimentError that
    lists everything wrong, InputError for a directory of something else."""
    if not place.is_dir():
        sweep = read_sweep(place, limited)
        return sweep, PARENT / sweep.study.name
    if not (place / SWEEP).is_file():
        raise InputError(
            f"{place} holds no {SWEEP}, so it is no study. Give a file, or a directory of `sweep`."
        )
    return read_sweep(place / SWEEP, limited), place


def sweep_of_keywords(
    axes: Mapping[str, object], keys: Mapping[str, object], options: Mapping[str, object], *, limited: bool
) -> Sweep:
    """The sweep of a script: `keys` of the experiment, `options` as the file has them (seeds, judge, ...)."""
    value = {"experiment": dict(keys), "axes": axes, **options}
    return sweep_of(LayeredSettings("sweep", value), "sweep", limited)


def sweep_of_plan(
    name: str, plan: Plan, axes: Mapping[str, Sequence[Mapping[str, object]]], options: Mapping[str, object]
) -> Sweep:
    """The sweep of a command: the experiment of a plan but for what its `axes` set, as a person would write
    it; `options` as the file has them."""
    sets = {*axes, *(key for values in axes.values() for value in values for key in value)}
    base = {key: value for key, value in as_written(plan).items() if key not in sets}
    value = {"experiment": base, "axes": axes, **options}
    return sweep_of(LayeredSettings(name, {"name": name, **value}, written=True), name)


def as_written(plan: Plan) -> dict[str, Any]:
    """The experiment of a plan as plain data, with units where a file has them."""
    return yaml_reader.parse(plan.yaml(), "the experiment").value


def check(sweep: Sweep, registers: Registers) -> Plan:
    """The plan of a point, the first of those tried that is possible. Raises ExperimentError of the first
    where none is: then something is wrong with what all of them have."""
    errors: list[ExperimentError] = []
    for point in _some(sweep, TRIED):
        try:
            return Task(point.id, *sweep.study.keys(point), sweep.study.written).plan(registers)
        except ExperimentError as error:
            errors.append(error)
    raise errors[0]


def _some(sweep: Sweep, count: int) -> list[Point]:
    """Points from everywhere in a study, its first among them."""
    step = min(max(1, sweep.study.combinations // count), FAR)
    return list(islice(sweep.study.points(), 0, step * count, step))


def carried_out(
    sweep: Sweep,
    directory: Path,
    registers: Registers,
    run_here: RunHere,
    *,
    workers: int | None = None,
    on: str | None = None,
    limit: int | None = None,
    retry_failed: bool = False,
    mix_versions: bool = False,
    add: Path | None = None,
    here: bool = False,
    differing: Sequence[str] = COMPARED,
    **told: Callable[..., Any],
) -> SweepResult:
    """Compute what the directory of a study lacks, and say what its rows say. `add`: a file of rows from
    elsewhere. `here`: all points run in this process, in turn, as those on labs do. `differing`: as
    `carry_out` has it; `told`: what `carry_out`
    calls meanwhile. Raises InputError before anything runs, RunFailedError where rows cannot be kept."""
    check(sweep, registers)
    others = [] if add is None else _rows_of(add, sweep.study.name)
    if on is not None and workers is not None:
        raise InputError("workers: a cluster has its own. Leave one of `workers` and `on` out.")
    with nullcontext() if here else _workers(sweep, registers, workers, on) as computing:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{directory} cannot be made: {error.strerror}. Choose another --out.") from None
        tally = carry_out(
            sweep.study, directory, registers, computing, run_here,
            limit=limit, retry_failed=retry_failed, mix_versions=mix_versions, add=others,
            differing=differing, on_begin=lambda: _write(sweep, directory), **told,
        )  # fmt: skip
    return answered(sweep, directory, tally, mix_versions=mix_versions)


def _rows_of(path: Path, study: str) -> list[Row]:
    """The rows of a ledger or a Parquet file of a study. Raises InputError for any other file."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file of rows. Check the path.")
    if path.suffix != ".parquet":
        return [*rows(path, study, None).values()]
    name, rows_ = read_parquet(path)
    if name != study:
        raise InputError(f"{path} has rows of study {name!r}, this is {study!r}. Give another file.")
    return rows_


def _write(sweep: Sweep, directory: Path) -> None:
    """Keep the sweep next to its rows; an experiment that came from a file as it is now."""
    document = {**sweep.document, "experiment": sweep.study.base}
    write_whole(directory / SWEEP, yaml_reader.written(document).encode())


@contextmanager
def _workers(sweep: Sweep, registers: Registers, count: int | None, on: str | None) -> Iterator[Workers]:
    """Processes of this machine, or those of a Dask cluster."""
    workers: Workers
    if on is None:
        from railweave.framework.studies.local import LocalWorkers  # needs Linux

        workers = LocalWorkers(count)
    else:
        from railweave.framework.studies.on_dask import DaskWorkers

        workers = DaskWorkers(on, labs=has_labs(sweep.study, registers))
    try:
        yield workers
    finally:
        workers.close()


def answered(sweep: Sweep, directory: Path, tally: Tally, *, mix_versions: bool) -> SweepResult:
    """What the rows say that a study has."""
    kept = rows(directory / ROWS, sweep.study.name, None if mix_versions else code_version())
    in_order = tuple(kept[identity] for identity in tally.ids if identity in kept)
    lines = answers(in_order, sweep.judge)
    return SweepResult(tally, in_order, tuple(lines), sentence(lines, sweep.judge))


def has_rows(directory: Path) -> bool:
    """Whether the ledger of a study has any row."""
    path = directory / ROWS
    return path.is_file() and bool(known(path, study_of(path), None).ok)


def ordered(sweep: Sweep, kept: Mapping[str, Row]) -> list[Row]:
    """The rows of the points of a study, in their order, each once."""
    wanted = dict.fromkeys(point.id for point in islice(sweep.study.points(), MOST_POINTS))
    return [kept[identity] for identity in wanted if identity in kept]


def ahead(
    sweep: Sweep,
    directory: Path,
    registers: Registers,
    *,
    limit: int | None = None,
    mix_versions: bool = False,
) -> Ahead:
    """What computing the rest, or that of the first `limit` points, will take, from points out of all of it.
    Where an engine that computes does not say, one point is computed."""
    check(sweep, registers)
    tally = status(sweep.study, directory, limit=limit, mix_versions=mix_versions)
    missing, seconds, memory = tally.points - tally.done, list[float](), list[int]()
    tried_s: float | None = None
    on_labs = False
    for point in _some(sweep, TRIED):
        task = Task(point.id, *sweep.study.keys(point), sweep.study.written)
        try:
            estimate = task.plan(registers).estimate
        except RailweaveError:  # it will fail, and take no time
            continue
        on_labs = on_labs or needs_lab(task, registers)
        memory += [] if estimate.memory_bytes is None else [estimate.memory_bytes]
        if estimate.seconds is None and tried_s is None and not needs_lab(task, registers):
            computed(task, registers)  # compiled code and plugins are there now
            began = time.monotonic()
            computed(task, registers)
            tried_s = time.monotonic() - began
        took_s = tried_s if estimate.seconds is None else estimate.seconds
        seconds += [] if took_s is None else [took_s]
    at_once = 1 if on_labs else len(os.sched_getaffinity(0))
    return Ahead(
        tally.points,
        missing,
        on_labs,
        median(seconds) * missing / at_once if seconds else None,
        max(memory) * at_once if memory else None,
        tried_s,
    )


def sweep(
    source: str | Path | None,
    keys: Mapping[str, object],
    options: Mapping[str, Any],
    registers: Registers,
    run_here: RunHere,
    out: Path | None,
    **how: Any,
) -> SweepResult:
    """`rw.sweep`, once its arguments are sorted."""
    limited = how.get("limit") is not None
    if source is not None:
        read, directory = found(Path(source), limited=limited)
    else:
        axes = options.get("axes") or {}
        rest = {key: value for key, value in options.items() if key != "axes" and value}
        read, directory = sweep_of_keywords(axes, keys, rest, limited=limited), PARENT
    with ExitStack() as stack:
        if out is None and source is None:
            directory = Path(stack.enter_context(TemporaryDirectory(prefix="railweave-")))
        return carried_out(read, out or directory, registers, run_here, **how)


def as_parquet(directory: Path, path: Path) -> int:
    """Write the rows of a study, all versions, as a Parquet file; says how many there are."""
    name = found(directory, limited=True)[0].study.name
    kept = [*rows(directory / ROWS, name, None).values()]
    write_parquet(path, name, kept)
    return len(kept)
