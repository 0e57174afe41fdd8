"""The page of a study: its question and answer, figures over its axes, a table of all settings."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from railweave.framework.errors import InputError
from railweave.framework.page.data.page_data import PageData, Plot, Table
from railweave.framework.studies.answers import Answer, answers, sentence, words
from railweave.framework.studies.carrying_out import ROWS
from railweave.framework.studies.figures import MEANINGS
from railweave.framework.studies.ledger import rows
from railweave.framework.studies.pictures import Picture, pictures
from railweave.framework.studies.spread import Spread
from railweave.framework.studies.sweep_file import Sweep
from railweave.framework.studies.sweeps import found, ordered

Cell = str | float | int | None


def page_of_sweep(
    sweep: Sweep,
    kept: Sequence[Mapping[str, Any]],
    lines: Sequence[Answer],
    answer: str,
    drawn: Sequence[Picture],
) -> PageData:
    """The page of what a study has; `lines`, `answer` and `drawn` are those of the rows that were `kept`."""
    plots = tuple(
        Plot(picture.title, picture.svg, picture.head, tuple(tuple(map(_cell, row)) for row in picture.rows))
        for picture in drawn
    )
    missing = sweep.study.count - len(kept)
    text = " ".join(filter(None, (sweep.question, answer or "No row says anything yet.")))
    text += f" {missing} of {sweep.study.count} points have no row." if missing > 0 else ""
    return PageData(
        "study",
        sweep.study.name,
        text,
        plots=plots,
        tables=(*_settings(lines), *_failures(kept), _all_rows(kept)),
    )


def _settings(lines: Sequence[Answer]) -> tuple[Table, ...]:
    if not lines:
        return ()
    names, figure = _names(line.settings for line in lines), lines[0].figure
    relative = any(line.relative for line in lines)
    head = [*names, "n", figure, "CV", "low", "high", *(["relative", "low", "high"] if relative else [])]
    body = tuple(
        (*(_cell(line.settings.get(name)) for name in names), line.value.n if line.value else 0,
         *_cells(line.value), *(_cells(line.relative, cv=False) if relative else ()),
         *([{None: "-", True: "yes", False: "no"}[line.holds]]), ", ".join(line.verdicts), line.failed)
        for line in lines
    )  # fmt: skip
    note = f"{figure}: {MEANINGS.get(figure, figure)}; median over seeds and repeats, with the 95 % interval."
    return (Table("Settings", (*head, "holds", "verdicts", "failed"), body, note),)


def _cells(spread: Spread | None, *, cv: bool = True) -> tuple[Cell, ...]:
    if spread is None:
        return (None,) * (3 + cv)
    middle: tuple[Cell, ...] = (spread.median, spread.cv) if cv else (spread.median,)
    return (*middle, spread.low, spread.high)


def _failures(kept: Sequence[Mapping[str, Any]]) -> tuple[Table, ...]:
    failed = [row for row in kept if not row["ok"]]
    counts = Counter(row["cause"] for row in failed)
    first = {cause: next(row for row in failed if row["cause"] == cause) for cause in counts}
    body = tuple(
        (cause, count, words(first[cause]["settings"]), str(first[cause]["error"]))
        for cause, count in counts.most_common()
    )
    return (Table("Points that failed", ("cause", "points", "the first", "why"), body),) if body else ()


def _all_rows(kept: Sequence[Mapping[str, Any]]) -> Table:
    names = _names(row["settings"] for row in kept)
    figures = [name for name in MEANINGS if any(row.get(name) is not None for row in kept)]
    body = tuple(
        (*(_cell(row["settings"].get(name)) for name in names), row["seed"], row["repeat"],
         row.get("verdict"), row.get("bottleneck"), *(row.get(name) for name in figures))
        for row in kept
    )  # fmt: skip
    head = (*names, "seed", "repeat", "verdict", "bottleneck", *figures)
    return Table("All points", head, body, "; ".join(f"{name}: {MEANINGS[name]}" for name in figures))


def _names(settings: Any) -> list[str]:
    return list(dict.fromkeys(name for some in settings for name in some))


def _cell(value: object) -> Cell:
    return value if value is None or isinstance(value, str | int | float) else str(value)


def page_of_study(directory: Path) -> tuple[PageData, dict[str, str]]:
    """The page of a study, and its figures as files by name. Raises InputError for what is no study, or has
    no rows."""
    read, _ = found(directory, limited=True)
    mixed = rows(directory / ROWS, read.study.name, None)
    if not mixed:
        raise InputError(f"{directory} has no rows yet. Run `railweave sweep {directory}`.")
    newest = [*mixed.values()][-1]["version"]
    in_order = ordered(read, rows(directory / ROWS, read.study.name, newest))
    lines = answers(in_order, read.judge)
    drawn = pictures(lines, in_order)
    shown = page_of_sweep(read, in_order, lines, sentence(lines, read.judge), drawn)
    files: dict[str, str] = {}
    for number, picture in enumerate(drawn, 1):
        name = f"figures/{number}-{re.sub(r'[^a-z0-9]+', '-', picture.title.lower()).strip('-')[:60]}"
        files |= {f"{name}.svg": picture.svg, f"{name}.csv": csv_text(picture.head, picture.rows)}
    for table in shown.tables:
        files[f"figures/{table.title.lower().replace(' ', '-')}.csv"] = csv_text(table.head, table.rows)
    return shown, files


def csv_text(head: Sequence[str], body: Iterable[Sequence[object]]) -> str:
    """Rows for spreadsheets and pandas; None is empty, and what would be a formula is quoted."""
    text = StringIO()
    lines = ([f"'{c}" if isinstance(c, str) and c[:1] in _FORMULA else c for c in line] for line in body)
    csv.writer(text, lineterminator="\n").writerows([head, *lines])
    return text.getvalue()


_FORMULA = ("=", "+", "@", "-")
