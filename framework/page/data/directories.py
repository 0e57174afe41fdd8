"""Run directories as pages. What is missing or damaged is said, not guessed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from railweave.framework.errors import InputError
from railweave.framework.experiment import yaml_reader
from railweave.framework.experiment.plan import build_fabric
from railweave.framework.model import Fabric
from railweave.framework.page.data.course import Course, events_of
from railweave.framework.page.data.matrix import planned_traffic
from railweave.framework.page.data.page_data import PageData
from railweave.framework.page.data.run_page import Known, page_of
from railweave.framework.page.data.samples import read_paths, read_samples
from railweave.framework.page.data.sentence import gain_unknown
from railweave.framework.page.data.unanswered import unanswered
from railweave.framework.registry import Registers
from railweave.framework.results.directory import read_result
from railweave.framework.results.result import RunResult
from railweave.framework.results.rule_file import read_rules
from railweave.framework.runs.recorder import ROUTED_GPUS

MOST_EXPERIMENT = 20_000_000
"""Bytes of experiment.yaml at most; no experiment has as many."""
MOST_EVENTS = 100_000
"""Events of a run that a page is made of, the first."""
MOST_LINE = 1_000_000
"""Bytes; a longer line is read as several, which are no events."""
MOST_NUMBER = 1e15
"""Largest number of an event, s or a count; a line with a larger one, or with NaN, is damaged."""


def page_of_run(
    path: Path, registers: Registers, *, result: RunResult | None = None, fabric: Fabric | None = None
) -> PageData:
    """The page of a run directory; `result` and `fabric` spare reading and building them.

    Raises InputError for what is no run directory, and for a result of another version.
    """
    return page_of(read_known(path, registers, result=result, fabric=fabric))


def read_known(
    path: Path, registers: Registers, *, result: RunResult | None = None, fabric: Fabric | None = None
) -> Known:
    """What a run directory says of its run, whole or not."""
    experiment = path / "experiment.yaml"
    if not experiment.is_file():
        raise InputError(
            f"{path} holds no experiment.yaml, so it is no run directory. Give one of `railweave run`."
        )
    if result is None and (path / "result.json").exists():
        result = read_result(path)
    text, document, no_experiment = _experiment(experiment, result, parse=fabric is None)
    if fabric is None:
        fabric = _fabric(path, document, registers)
    events, lines, no_events = read_events(path / "events.jsonl")
    if result is not None and (no_events or not lines):
        events = events_of(result)
    samples, no_samples = read_samples(path / "health.npz", fabric)
    paths, no_paths = read_paths(path / "routes.npz", fabric)
    rules, no_rules = read_rules(path / "rules.json", fabric)
    engine = document.get("engine", {})
    by_model = result is not None and fabric.n_gpus <= ROUTED_GPUS and gain_unknown(result)
    return Known(
        title=path.absolute().name,
        fabric=fabric,
        engine=str(engine.get("name", engine) if isinstance(engine, Mapping) else engine),
        experiment=text,
        repeat=f"railweave run {path / 'experiment.yaml'}",
        planned=_planned(document),
        result=result,
        samples=samples,
        paths=paths,
        rules=rules,
        traffic=None if result is None else planned_traffic(_kept(path, result), fabric.n_gpus, registers),
        course=Course.of(events),
        lines=lines,
        unanswered=unanswered(document, result, registers) if by_model and result is not None else None,
        left_out=tuple(
            words for words in (no_experiment, no_events, no_samples, no_paths, no_rules) if words
        ),
    )


def _experiment(path: Path, result: RunResult | None, *, parse: bool) -> tuple[str, Mapping[str, Any], str]:
    """The text of an experiment, its document, and why that is the result's, "" if it is not. `parse`: the
    text is to be read, where there is a result, too."""
    try:
        if (size := path.stat().st_size) > MOST_EXPERIMENT:
            raise InputError(f"{path} has {size / 1e6:.0f} MB, and no experiment has as many.")
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    if result is not None and not parse:
        return text, result.experiment, ""
    try:
        return text, _document(path, text), ""
    except InputError as error:
        if result is None:
            raise
        return text, result.experiment, f"{path.name} is left out, and that of the result shown: {error}"


def _document(path: Path, text: str) -> Mapping[str, Any]:
    """What can be read of an experiment; the rest is as if it were not there."""
    document = yaml_reader.parse(text, str(path)).value
    if not document:
        raise InputError(f"{path} holds no experiment. Give a directory that `railweave run` wrote.")
    return document


def _fabric(path: Path, document: Mapping[str, Any], registers: Registers) -> Fabric:
    chosen = document.get("topology")
    options = dict(chosen) if isinstance(chosen, Mapping) else {"name": chosen}
    name = str(options.pop("name", None) or "rail-only")
    if (path / "fabric.yaml").exists():
        options["file"] = str(path / "fabric.yaml")
    keys = ("topology", *(f"topology.{key}" for key in options))
    labels = {key: f"{path / 'experiment.yaml'}: {key}" for key in keys}
    return build_fabric(name, options, labels, registers)


def _kept(path: Path, result: RunResult) -> Mapping[str, object]:
    """The experiment, on the fabric of its file as it was then."""
    file = path / "fabric.yaml"
    kept = {"topology": {"name": "file", "file": str(file)}} if file.exists() else {}
    return {**result.experiment, **kept}


def read_events(path: Path) -> tuple[list[Mapping[str, Any]], int, str]:
    """The events as documents, MOST_EVENTS at most; how many lines the file has; and what was left out of
    them, "" if nothing."""
    events: list[Mapping[str, Any]] = []
    lines, damaged = 0, 0
    if not path.is_file():
        return events, lines, f"{path.name}: left out, because it is no file." if path.exists() else ""
    with path.open("rb") as file:
        while line := file.readline(MOST_LINE):
            lines += 1
            if len(events) == MOST_EVENTS:
                continue
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                event = None
            if isinstance(event, dict) and _whole(event):
                events.append(event)
            else:
                damaged += 1
    left_out = [f"{damaged} lines that are no events"] * bool(damaged)
    left_out += [f"all events after the first {MOST_EVENTS}"] * (len(events) == MOST_EVENTS)
    return events, lines, f"{path.name}: left out {' and '.join(left_out)}." if left_out else ""


_NEEDS = {"iteration": ("iteration", "seconds"), "fault": ("t_s",), "reroute": ("t_s", "pairs_changed"),
          "health": ("t_s", "version"), "note": (), "phase": ()}  # fmt: skip


def _whole(event: Mapping[str, Any]) -> bool:
    """Whether a document is an event with the numbers that its kind needs, and no others in their place."""
    kind = event.get("kind")
    if not isinstance(kind, str) or kind not in _NEEDS:
        return False
    if kind in ("fault", "note") and not isinstance(event.get("text"), str):
        return False
    numbers = [event.get(name) for name in _NEEDS[kind]]
    numbers += [event[name] for name in ("end_s", "job", "wrong") if name in event]
    return all(isinstance(n, int | float) and abs(n) < MOST_NUMBER for n in numbers) and (
        kind != "reroute" or "why" in event
    )


def _planned(document: Mapping[str, Any]) -> int | None:
    wanted = document.get("iterations")
    return wanted if type(wanted) is int and wanted > 0 and not document.get("jobs") else None
