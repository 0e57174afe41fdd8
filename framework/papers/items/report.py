"""Items that were computed as JSON, as rows of a table, and as a page; next to what a model makes of a run
stands what a lab made of it, as recorded."""

from collections.abc import Sequence
from dataclasses import asdict
from textwrap import fill

from railweave.framework.papers.items.computed import LAB, NOT_YET, Computed
from railweave.framework.papers.items.item import Claim, Item, Paper, Value

COLUMNS = 120
"""Characters of a line of the page that is no table."""
PICTURES = "papers"
"""The folder of pictures next to the page."""
HEAD = ("item", "figure", "source", "ours", "difference", LAB, "method", "why")


def document(row: Computed, engine: str) -> dict[str, object]:
    """The item as plain JSON: `source`, `ours` and `difference` by figure."""
    outcome, item = row.outcome, row.item
    return {
        "id": item.id,
        "title": item.title,
        "place": item.place,
        "state": row.state,
        "source": outcome.source if outcome else None,
        "ours": outcome.ours if outcome else None,
        "difference": {f.name: f.difference for f in outcome.figures} if outcome else None,
        "units": {f.name: f.unit for f in outcome.figures if f.unit} if outcome else {},
        "why": row.why,
        "method": row.method,
        "command": command_of(item, engine),
        "computed_by": item.computed_by,
        "picture": bool(outcome and outcome.svg),
        "lab": asdict(row.lab) if row.lab else None,
    }


def command_of(item: Item, engine: str) -> str:
    """The line that shows the item, with the engine that computes runs."""
    return item.command.replace("{engine}", engine)


def text_of(value: Value | None, unit: str = "") -> str:
    """A value as a table has it: six digits, yes or no, `-` for nothing."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    words = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f"{words} {unit}" if unit and not isinstance(value, str) else words


def source_text(figure: Claim) -> str:
    """What the source prints: `> 99 %`, or `-`."""
    words = text_of(figure.source, figure.unit)
    return f"{figure.bound} {words}" if figure.bound else words


def difference_text(figure: Claim) -> str:
    """`+0.28 %`; `none`; `differs`; the difference itself where the source has 0; `-` without a source."""
    difference = figure.difference
    if difference is None or isinstance(difference, str):
        return difference or "-"
    if abs(difference) < 5e-7:
        return "none"
    return f"{100 * difference:+.2f} %" if figure.source else f"{difference:+.6g}"


def table_of(rows: Sequence[Computed]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The head and the lines of a table of all figures; method and why stand in the first line of an item.
    With a column of what was recorded on a lab, where there is any."""
    shown = [column for column in HEAD if column != LAB or any(row.lab for row in rows)]
    lines = [dict(zip(HEAD, line, strict=True)) for row in rows for line in _lines_of(row)]
    return tuple(shown), [tuple(line[column] for column in shown) for line in lines]


def _lines_of(row: Computed) -> list[tuple[str, ...]]:
    item = row.item
    if row.outcome is None:
        return [(item.id, item.title, "-", "-", "-", "-", row.method, row.why)]
    method = f"{row.method}; lab: {row.lab.date}" if row.lab else row.method
    return [
        (
            item.id if number == 0 else "",
            figure.name,
            source_text(figure),
            text_of(figure.ours, figure.unit),
            difference_text(figure),
            _lab_text(row, figure),
            method if number == 0 else "",
            row.why if number == 0 else "",
        )
        for number, figure in enumerate(row.outcome.figures)
    ]


def _lab_text(row: Computed, figure: Claim) -> str:
    return text_of(row.lab.ours.get(figure.name), figure.unit) if row.lab else "-"


def page(papers: Sequence[tuple[Paper, Sequence[Computed]]], engine: str) -> str:
    """The page in Markdown; pictures lie in `papers/ID.svg` next to it. Equal outcomes give equal pages."""
    rows = [row for _, some in papers for row in some]
    parts = [
        "# What four sources print, and what railweave computes",
        "    railweave paper all --out docs",
        _wrapped(_preface(rows, engine)),
    ]
    for paper, some in papers:
        parts.append(f"## {paper.title}")
        parts.append(f"`railweave paper {paper.key}`")
        parts += [part for row in some for part in section(row, engine)]
    return "\n\n".join(parts) + "\n"


def _preface(rows: Sequence[Computed], engine: str) -> str:
    counts = {state: sum(row.state == state for row in rows) for state in ("computed", NOT_YET, "failed")}
    failed = f"; {counts['failed']} failed" if counts["failed"] else ""
    later = f" and {counts[NOT_YET]} are {NOT_YET}" if counts[NOT_YET] else ""
    return (
        f"writes this page. Of {len(rows)} tables, figures and claims {counts['computed']} are computed"
        f"{later}{failed}. Nothing in the column `ours` is typed in: each item names "
        "the function that computes it, and `railweave paper PAPER ITEM` computes it again. A source of `-` "
        "prints nothing to compare; where a source errs or leaves a parameter open, what is assumed stands "
        "below the table. Differences are relative to the source. Runs are computed by the engine "
        f"`{engine}`; `--lab` carries them out as packets, and what that came to on the day named stands in "
        "the column `lab`; the latency of the lab's switches is part of it ([fidelity.md](fidelity.md))."
    )


def section(row: Computed, engine: str) -> list[str]:
    """The paragraphs of an item on the page."""
    item = row.item
    heading = f"### {item.id}: {item.title}"
    numbered = item.place[:1].isdigit() or item.place.startswith(("I", "V"))
    where = f"Section {item.place}" if numbered else f"{item.place[:1].upper()}{item.place[1:]}"
    if row.outcome is None:
        return [heading, _wrapped(f"{where}. {row.why[:1].upper()}{row.why[1:]}.")]
    measured = row.lab is not None and not row.lab.refused
    figures = [
        f"| {f.name} | {source_text(f)} | {text_of(f.ours, f.unit)} | {difference_text(f)} |"
        + (f" {_lab_text(row, f)} |" if measured else "")
        for f in row.outcome.figures
    ]
    head = ("| figure | source | ours | difference |", "|---|---|---|---|")
    table = "\n".join((head[0] + " lab |" * measured, head[1] + "---|" * measured, *figures))
    by = f"{where}. Method: {row.method}, `{item.computed_by.removeprefix('railweave.')}`."
    parts = [heading, _wrapped(f"{by} Command: `{command_of(item, engine)}`"), table]
    if row.why:
        parts.append(_wrapped(row.why))
    if row.lab is not None:
        how = f"refused: {row.lab.refused}" if row.lab.refused else "column lab."
        parts.append(_wrapped(f"On the lab, {row.lab.date}, `{row.lab.command}`: {how}"))
    if row.outcome.svg:
        parts.append(f"![{item.title}]({PICTURES}/{item.id}.svg)")
    return parts


def _wrapped(text: str) -> str:
    return fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False)
