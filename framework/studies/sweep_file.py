"""Sweeps as people write them: a YAML file or keywords, read into a study and what judges it.

    question: How slow may a NIC be before it costs more than cutting it?
    experiment:
      engine: fluid
      faults: ["at=iter:2 degrade nic:{domain}.{rail} to={depth}"]
    axes:
      router: [hscore, spray]
      rail: [0, 7]
      depth: {from: 10%, to: 90%, steps: 9}
    drawn: {domain: {from: 0, to: 7, draw: whole}}
    seeds: 3
    judge: {figure: after_us, to: {router: hscore}}

A value of an axis sets the key, the parameter or the word in braces that the axis is named after; a mapping
sets all that it names, and is shown as its `label` if it has one. What is `drawn` has a value for each seed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, isfinite, log
from pathlib import Path
from typing import Any

from railweave.framework.errors import ExperimentError, did_you_mean
from railweave.framework.experiment import yaml_reader
from railweave.framework.experiment.schema import KINDS
from railweave.framework.experiment.settings import Key, LayeredSettings
from railweave.framework.parameters import Parameter
from railweave.framework.studies.figures import MEANINGS
from railweave.framework.studies.points import Axis, Drawn, Listed, Study, Value, quantity

MOST_POINTS = 1_000_000
"""Points of a sweep at most: their ids and figures are held at once when they are shown."""
COUNTS = {
    "seeds": Parameter("seeds", 1, "count", "seeds of each point, from that of the experiment on", 1, 10**6),
    "repeats": Parameter("repeats", 1, "count", "runs of each point with the same seed", 1, 10**6),
    "sample": Parameter("sample", 0, "count", "points that are drawn, in place of all", 0, 10**9),
    "draw_seed": Parameter("draw_seed", 1, "count", "seed of what is drawn", 0, 10**9),
}
OTHERS = ("name", "question", "experiment", "axes", "drawn", "judge")
_RANGE = ("from", "to", "steps", "spacing", "draw")
_QUANTITY = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z/%]*)")


@dataclass(frozen=True, slots=True)
class Judge:
    """What is asked of the rows: `figure`, one of MEANINGS, relative to the points with the settings `to`, if
    there are any; `at_most`: what the figure or the ratio may be."""

    figure: str
    to: Mapping[str, object] = field(default_factory=dict)
    at_most: float | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """A study with what it asks. `document`: as it was written, to be kept next to its rows."""

    study: Study
    judge: Judge | None
    question: str
    document: Mapping[str, object]


def read_sweep(path: Path, limited: bool = False) -> Sweep:
    """The sweep in a file. `limited`: there may be more than MOST_POINTS; the first ones are wanted. Raises
    ExperimentError that lists everything wrong with lines and columns."""
    return sweep_of(yaml_reader.read(path), path.stem, limited)


def sweep_of(settings: LayeredSettings, name: str, limited: bool = False) -> Sweep:
    """The sweep of a mapping as the file has it; `name` where it has none. Raises ExperimentError."""
    value = settings.value
    for key in value:
        if key not in (*COUNTS, *OTHERS):
            keys = (*OTHERS, *COUNTS)
            settings.report(
                (key,), f"there is no such key.{did_you_mean(key, keys)} Keys are: {', '.join(keys)}."
            )
    counts = {key: _count(settings, key) for key in COUNTS}
    base, axes, drawn = _base(settings), _axes(settings, "axes"), _axes(settings, "drawn")
    if both := {n for axis in axes for n in axis.names} & {n for axis in drawn for n in axis.names}:
        settings.report(("drawn",), f"{min(both)} has an axis, too. Keep one of them.")
    if counts["seeds"] > 1 and any("seed" in axis.names for axis in axes):
        settings.report(("seeds",), "the axes have seeds of their own. Keep one of them.")
    if not counts["sample"] and any(isinstance(axis, Drawn) for axis in axes):
        settings.report(("axes",), "an axis is drawn, and `sample` does not say how many points. Add it.")
    judge = _judge(settings, axes)
    name, question = (_text(settings, *pair) for pair in (("name", name), ("question", "")))
    settings.check()
    study = Study(
        name, base, axes, drawn, counts["seeds"], counts["repeats"], counts["sample"] or None,
        counts["draw_seed"], settings.written,
    )  # fmt: skip
    if study.count > MOST_POINTS and not limited:
        raise ExperimentError(
            f"{settings.source}: these are {study.count:,} points, and {MOST_POINTS:,} are the most. Draw "
            "some of them (`sample: 1000`), give `--limit`, or shorten the axes."
        )
    return Sweep(study, judge, question, {"name": name, **value})


def _text(settings: LayeredSettings, key: str, otherwise: str) -> str:
    value = settings.value.get(key, otherwise)
    if not isinstance(value, str):
        settings.report((key,), f"expects a text (got {value!r}).")
    return str(value)


def _count(settings: LayeredSettings, key: str) -> int:
    try:
        return int(COUNTS[key].parse(settings.value.get(key, COUNTS[key].default)))
    except ExperimentError as error:
        settings.report((key,), str(error).removeprefix(f"{key}: "))
        return 1


def _base(settings: LayeredSettings) -> Mapping[str, object]:
    """The keys of the experiment, or of the file that it names."""
    base = settings.value.get("experiment", {})
    if isinstance(base, str):
        try:
            return yaml_reader.read(Path(base)).value
        except ExperimentError as error:
            settings.report(("experiment",), str(error))
            return {}
    if not isinstance(base, Mapping):
        settings.report(("experiment",), f"expects the keys of an experiment, or a file (got {base!r}).")
        return {}
    seed = base.get("seed", 1)
    if type(seed) is not int:
        settings.report(("experiment", "seed"), f"expects a whole number (got {seed!r}).")
        return {}
    return base


# -- axes ----------------------------------------------------------------------------------------------------
def _axes(settings: LayeredSettings, section: str) -> tuple[Axis, ...]:
    axes = settings.value.get(section, {})
    if not isinstance(axes, Mapping):
        settings.report((section,), f"expects names with their values (got {axes!r}).")
        return ()
    read = {name: _axis(settings, (section, name), values) for name, values in axes.items()}
    owners: dict[str, str] = {}
    for name, axis in read.items():
        for key in sorted(axis.names if axis else ()):
            if key in owners:
                text = f"sets {key}, as axis {owners[key]} does. Keep one of them."
                settings.report((section, name), text)
            owners[key] = name
    return tuple(axis for axis in read.values() if axis is not None)


def _axis(settings: LayeredSettings, at: Key, values: object) -> Axis | None:
    if isinstance(values, Mapping):
        return _range(settings, at, values)
    if not isinstance(values, list | tuple) or not values:
        settings.report(at, f"expects a list of values, or a range (got {values!r}).")
        return None
    listed = tuple(_value(str(at[-1]), value) for value in values)
    if any(not value.sets for value in listed):
        settings.report(at, "a value sets nothing. Take it out.")
        return None
    doubled = [value.shown for i, value in enumerate(listed) if value.shown in [v.shown for v in listed[:i]]]
    if doubled:
        settings.report(at, f"lists {', '.join(map(str, doubled[0].values()))} twice. Keep one of them.")
    return Listed(listed)


def _value(name: str, value: object) -> Value:
    """What a value of an axis sets: itself, or what its mapping says; the options of a plugin belong to the
    axis of its kind."""
    if not isinstance(value, Mapping):
        return Value({name: value}, {name: value})
    sets = {key: part for key, part in value.items() if key != "label"}
    if name in KINDS or name == "health":
        sets = {name if key == "name" else f"{name}.{key}": part for key, part in sets.items()}
    return Value({name: value["label"]} if "label" in value else sets, sets)


def _range(settings: LayeredSettings, at: Key, values: Mapping[str, Any]) -> Axis | None:
    """`{from: A, to: B, steps: N}`, or with `draw` in the place of steps."""
    if unknown := [key for key in values if key not in _RANGE]:
        text = f"there is no {unknown[0]!r} in a range.{did_you_mean(unknown[0], _RANGE)}"
        settings.report((*at, unknown[0]), f"{text} It has: {', '.join(_RANGE)}.")
        return None
    ends = [_quantity(values.get(key)) for key in ("from", "to")]
    if None in ends or ends[0][1] != ends[1][1] or not ends[0][0] < ends[1][0]:  # type: ignore[index]
        settings.report(at, "a range goes `from` a number `to` a larger one of the same unit: 5% and 95%.")
        return None
    (low, unit), (high, _) = ends  # type: ignore[misc]
    if "draw" in values:
        return _drawn(settings, at, values, low, high, unit)
    steps, log_spaced = values.get("steps"), values.get("spacing", "even") == "log"
    if type(steps) is not int or not 2 <= steps <= MOST_POINTS:
        settings.report(at, f"`steps` expects how many values there are, 2 or more (got {steps!r}).")
        return None
    if values.get("spacing", "even") not in ("even", "log") or (log_spaced and low <= 0):
        settings.report(at, "`spacing` is even, or from a number above 0 on log.")
        return None
    shares = [i / (steps - 1) for i in range(steps)]
    numbers = [
        exp(log(low) + share * (log(high) - log(low))) if log_spaced else low + share * (high - low)
        for share in shares
    ]
    return Listed.of(*({str(at[-1]): quantity(number, unit)} for number in numbers))


def _drawn(
    settings: LayeredSettings, at: Key, values: Mapping[str, Any], low: float, high: float, unit: str
) -> Axis | None:
    spread = values["draw"]
    if spread not in ("uniform", "log", "whole") or "steps" in values or "spacing" in values:
        settings.report(at, "`draw` is uniform, log or whole, and takes the place of steps and spacing.")
    elif spread == "log" and low <= 0:
        settings.report(at, f"draws evenly in the logarithm, which {low:g} does not have. Begin above 0.")
    elif spread == "whole" and not (low.is_integer() and high.is_integer()):
        settings.report(at, f"draws whole numbers from {low:g} to {high:g}. Give whole ends.")
    else:
        return Drawn(str(at[-1]), low, high, spread, unit)
    return None


def _quantity(value: object) -> tuple[float, str] | None:
    """A number and its unit, `5%`, `10us`; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    match = _QUANTITY.fullmatch(str(value).strip())
    if match is None or not isfinite(float(match[1])):
        return None
    return float(match[1]), match[2]


# -- the judge -----------------------------------------------------------------------------------------------
def _judge(settings: LayeredSettings, axes: tuple[Axis, ...]) -> Judge | None:
    value = settings.value.get("judge")
    if value is None:
        return None
    at: Key = ("judge",)
    if not isinstance(value, Mapping) or not {"figure"} <= value.keys() <= {"figure", "to", "at_most"}:
        settings.report(at, f"expects a figure, and may have `to` and `at_most` (got {value!r}).")
        return None
    figure, to, at_most = value["figure"], value.get("to", {}), value.get("at_most")
    if figure not in MEANINGS:
        text = f"there is no figure {figure!r}.{did_you_mean(figure, MEANINGS)}"
        settings.report((*at, "figure"), f"{text} Figures are: {', '.join(MEANINGS)}.")
    if not isinstance(to, Mapping):
        settings.report((*at, "to"), f"expects settings of the axes, such as router: ecmp (got {to!r}).")
        return None
    listed = [value.shown for axis in axes if isinstance(axis, Listed) for value in axis.values]
    names = sorted({name for shown in listed for name in shown})
    for name in to:
        values = [shown[name] for shown in listed if name in shown]
        if values and to[name] not in values:
            text = f"the axis does not have {to[name]!r}.{did_you_mean(to[name], map(str, values))}"
            settings.report((*at, "to", name), text)
        if name not in names:
            text = f"no axis sets it.{did_you_mean(name, names)} They set: {', '.join(names) or 'nothing'}."
            settings.report((*at, "to", name), text)
    if at_most is not None and (isinstance(at_most, bool) or not isinstance(at_most, int | float)):
        settings.report((*at, "at_most"), f"expects a number (got {at_most!r}).")
        return None
    return Judge(str(figure), dict(to), at_most)
