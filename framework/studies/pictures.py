"""The figures of a study: its judged figure over its axes, and the iterations of its runs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from railweave.framework.drawing.plots import Axis, Curve, VerticalMark, curves, heat_map
from railweave.framework.studies.answers import Answer, words
from railweave.framework.studies.figures import MEANINGS
from railweave.framework.studies.spread import Spread

MOST_CURVES, MOST_MAPS = 8, 6
"""What a reader can tell apart; of more, the first are drawn and the title says so."""
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_SCALED = {"K": 2**10, "M": 2**20, "G": 2**30, "us": 1e-6, "ms": 1e-3, "ns": 1e-9}


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure as SVG, and its numbers as rows under a head."""

    title: str
    svg: str
    head: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def pictures(lines: Sequence[Answer], rows: Sequence[Mapping[str, Any]]) -> list[Picture]:
    """Curves over the axis with most values, maps of the two axes with most, and the time of iterations."""
    names = _varying(lines)
    drawn = [_curves(lines, names)] if names else []
    drawn += _maps(lines, names) if len(names) > 1 else []
    return [*drawn, *_iterations(rows)]


def _varying(lines: Sequence[Answer]) -> list[str]:
    """Settings with several values: those of numbers first, then those with most values."""
    all_names = dict.fromkeys(name for line in lines for name in line.settings)
    values = {
        name: [*dict.fromkeys(str(line.settings.get(name, "-")) for line in lines)] for name in all_names
    }
    several = [name for name in all_names if len(values[name]) > 1]
    return sorted(several, key=lambda name: (_numbers(values[name]) is None, -len(values[name])))


def _numbers(values: Sequence[str]) -> list[float] | None:
    """The numbers of values that are all one, with the same unit; None of others."""
    numbers, units = [], set()
    for value in values:
        match = _NUMBER.match(value)
        if match is None:
            return None
        unit = value[match.end() :].strip()
        numbers.append(float(match[0]) * _SCALED.get(unit, 1.0))
        units.add("" if unit in ("K", "M", "G", "") else unit)
    return numbers if len(units) == 1 else None


def _shown(line: Answer) -> Spread | None:
    return line.relative or line.value


def _what(lines: Sequence[Answer]) -> str:
    figure = lines[0].figure
    return f"{figure}, relative" if any(line.relative for line in lines) else figure


def _curves(lines: Sequence[Answer], names: Sequence[str]) -> Picture:
    x, others = names[0], names[1:]
    series: dict[str, list[Answer]] = {}
    for line in lines:
        rest = {name: line.settings[name] for name in others if name in line.settings}
        series.setdefault(words(rest) if rest else lines[0].figure, []).append(line)
    values = [*dict.fromkeys(str(line.settings.get(x, "-")) for line in lines)]
    numbers = _numbers(values)
    at = dict(zip(values, numbers or range(len(values)), strict=True))
    drawn = []
    for name, some in [*series.items()][:MOST_CURVES]:
        some = sorted(some, key=lambda line: at[str(line.settings.get(x, "-"))])
        spreads = [_shown(line) for line in some]
        drawn.append(
            Curve(
                name,
                [at[str(line.settings.get(x, "-"))] for line in some],
                [spread.median if spread else None for spread in spreads],
                [spread.low if spread else None for spread in spreads],
                [spread.high if spread else None for spread in spreads],
            )
        )
    title = f"{_what(lines)} over {x}"
    title += f", {MOST_CURVES} of {len(series)} settings" if len(series) > MOST_CURVES else ""
    axis = Axis(x, () if numbers else values)
    table = tuple(
        (name, str(line.settings.get(x, "-")), spread.median, spread.low, spread.high, spread.n)
        for name, some in series.items() for line in some if (spread := _shown(line))
    )  # fmt: skip
    svg = curves(title, axis, Axis(MEANINGS.get(lines[0].figure, lines[0].figure)), drawn)
    return Picture(title, svg, ("setting", x, "median", "low", "high", "n"), table)


def _maps(lines: Sequence[Answer], names: Sequence[str]) -> list[Picture]:
    (x, y), others = names[:2], names[2:]
    groups: dict[str, list[Answer]] = {}
    for line in lines:
        rest = {name: line.settings[name] for name in others if name in line.settings}
        groups.setdefault(words(rest) if rest else "", []).append(line)
    drawn = []
    for name, some in [*groups.items()][:MOST_MAPS]:
        axes = [
            Axis(axis, [*dict.fromkeys(str(line.settings.get(axis, "-")) for line in some)])
            for axis in (x, y)
        ]
        value_at = {
            (str(line.settings.get(y, "-")), str(line.settings.get(x, "-"))): spread.median
            for line in some if (spread := _shown(line))
        }  # fmt: skip
        values = [[value_at.get((row, column)) for column in axes[0].labels] for row in axes[1].labels]
        title = f"{_what(lines)} over {x} and {y}" + f", {name}" * bool(name)
        table = tuple((row, column, value) for (row, column), value in value_at.items())
        svg = heat_map(title, axes[0], axes[1], values, MEANINGS.get(lines[0].figure, ""))
        drawn.append(Picture(title, svg, (y, x, _what(lines)), table))
    return drawn


def _iterations(rows: Sequence[Mapping[str, Any]]) -> list[Picture]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row.get("iterations_us"):
            groups.setdefault(words(row["settings"]), []).append(row)
    picture = iterations_picture(groups)
    return [] if picture is None else [picture]


def iterations_picture(groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> Picture | None:
    """The time of each iteration: the median of the rows of a name, and the lowest and highest of them; with
    faults as lines. None where no run has two iterations."""
    drawn, table, marks = [], [], dict[float, VerticalMark]()
    for name, some in [*groups.items()][:MOST_CURVES]:
        columns = [
            [us[i] for row in some if len(us := row["iterations_us"]) > i]
            for i in range(max(len(row["iterations_us"]) for row in some))
        ]
        several = len(some) > 1
        drawn.append(
            Curve(
                name,
                [*map(float, range(len(columns)))],
                [median(us) for us in columns],
                [min(us) for us in columns] if several else [],
                [max(us) for us in columns] if several else [],
            )
        )
        table += [(name, i, median(us), min(us), max(us)) for i, us in enumerate(columns)]
        for row in some:
            marks |= {at: VerticalMark(at, "fault") for at in row.get("faults_at", [])}
    if not drawn or max(len(curve.x) for curve in drawn) < 2:
        return None
    title = "time of iterations"
    title += f", {MOST_CURVES} of {len(groups)} settings" if len(groups) > MOST_CURVES else ""
    few = [*marks.values()] if len(marks) <= MOST_CURVES else []
    svg = curves(title, Axis("iteration"), Axis("us, declared"), drawn, few)
    return Picture(title, svg, ("setting", "iteration", "median us", "lowest", "highest"), tuple(table))


def compared_picture(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The time of iterations in the rows of several runs of each name, as SVG."""
    picture = iterations_picture(results)
    return curves("time of iterations", Axis("iteration"), Axis("us"), []) if picture is None else picture.svg
