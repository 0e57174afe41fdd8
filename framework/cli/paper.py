"""`railweave paper`: what four sources print, and what railweave computes for each item."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from railweave.framework.cli._context import (
    example,
    json_command,
    json_text,
    print_json,
    print_text,
    registers,
    table,
)
from railweave.framework.cli._live import Live
from railweave.framework.errors import ExperimentError, InputError
from railweave.framework.experiment.engines import DEFAULT, predicting
from railweave.framework.papers.items import report
from railweave.framework.papers.items.computed import NOT_YET, Computed, computed, method_of
from railweave.framework.papers.items.item import Item, Paper
from railweave.framework.papers.items.registry import PAPERS, item_named, paper_named
from railweave.framework.papers.items.workbench import Workbench
from railweave.framework.papers.training.model_files import read_model

ALL, PAGE = "all", "papers.md"
MODEL = "model"
"""The input that `--model` sets."""


@click.command(
    epilog=example(
        "railweave paper",
        "railweave paper optree o06",
        "railweave paper rail-only r05 --svg heatmap.svg",
        "railweave paper all --out docs",
    )
)
@click.argument("source", metavar="[PAPER]", required=False)
@click.argument("item", metavar="[ITEM]", required=False)
@click.option(
    "--svg", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write the picture of ITEM in the manner of the source's figure.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="With all: write papers.md, its pictures and its JSON here.",
)  # fmt: skip
@click.option("--lab", is_flag=True, help="Carry out the runs of items on the lab, not on a model.")
@click.option(
    "--model", "model_file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="YAML of a language model of yours, for the item that takes one: name, heads, hidden, layers.",
)  # fmt: skip
@json_command
def paper(
    ctx: click.Context,
    source: str | None,
    item: str | None,
    svg: Path | None,
    out: Path | None,
    lab: bool,
    model_file: Path | None,
    as_json: bool,
) -> None:
    """Print the tables, figures and claims of a PAPER (hscore, optree, tpuv4, rail-only): what the source
    prints, what comes out here, the difference and why, and by which method.

    Without PAPER, list all items. `all` computes every item; with --out it writes the page docs/papers.md.
    """
    chosen, chosen_item = _chosen(source, item)
    _refuse(chosen, source, chosen_item, svg=svg, out=out, lab=lab, model_file=model_file)
    engine = DEFAULT if lab else predicting(registers(ctx))
    if source is None:
        _list(Workbench(registers(ctx), engine), engine, as_json=as_json)
        return
    inputs = {} if model_file is None else {MODEL: read_model(model_file)}
    with Live(None, quiet=not lab, verbose=False) as live:
        workbench = Workbench(registers(ctx), engine, live.emit)
        papers = [
            (paper_, _computed(paper_, chosen_item, workbench, inputs, err=as_json or source != ALL))
            for paper_ in chosen
        ]
    rows = [row for _, some in papers for row in some]
    if svg:
        _write(svg, _picture(rows[0]))
    if out:
        print_text(_write_page(out, papers, engine), err=as_json)
    if as_json:
        print_json("paper", items=[report.document(row, engine) for row in rows])
    elif out is None:
        print_text(table(*report.table_of(rows)))
    for row in rows:
        if row.error is not None:
            raise row.error


def _chosen(source: str | None, item: str | None) -> tuple[list[Paper], Item | None]:
    """The papers asked for, and the item of one. Raises InputError for names that there are not."""
    if source in (None, ALL):
        if item is not None:
            raise InputError(f"all takes no item (got {item}). Name the paper: {', '.join(PAPERS)}.")
        return [*PAPERS.values()], None
    chosen_paper = paper_named(str(source))
    return [chosen_paper], None if item is None else item_named(chosen_paper, item)


def _refuse(
    papers: Sequence[Paper],
    source: str | None,
    item: Item | None,
    *,
    svg: Path | None,
    out: Path | None,
    lab: bool,
    model_file: Path | None,
) -> None:
    """Raise InputError for options that would have no effect."""
    items = [item] if item else [entry for paper in papers for entry in paper.items]
    named = item.id if item else source or "the list"
    if out and source != ALL:
        raise InputError(f"--out goes with all, not with {named}. Use --svg or --json, or leave it out.")
    if svg and (item is None or not item.picture):
        with_one = ", ".join(entry.id for entry in items if entry.picture) or "none"
        what = f"{named} has no picture" if item else "--svg goes with one item"
        near = [entry.id for paper in papers for entry in paper.items if entry.picture]
        raise InputError(f"{what}; those with a picture are {', '.join(near) if item else with_one}.")
    if lab and (source is None or not any(entry.method == "run" and entry.compute for entry in items)):
        runs = [entry.id for paper in PAPERS.values() for entry in paper.items if entry.method == "run"]
        raise InputError(f"{named} runs nothing, so --lab changes nothing. Runs: {', '.join(runs)}.")
    if model_file and (item is None or MODEL not in item.inputs or isinstance(item.inputs[MODEL], str)):
        takers = [
            f"{paper.key} {entry.id}" for paper in PAPERS.values() for entry in paper.items
            if MODEL in entry.inputs and not isinstance(entry.inputs[MODEL], str)
        ]  # fmt: skip
        raise InputError(f"{named} takes no --model. Use it with {', '.join(takers)}.")


def _list(workbench: Workbench, engine: str, *, as_json: bool) -> None:
    """All items of all papers, without computing any."""
    items = [(paper, entry) for paper in PAPERS.values() for entry in paper.items]
    if as_json:
        print_json(
            "papers",
            items=[
                {
                    "id": entry.id, "paper": paper.key, "title": entry.title, "place": entry.place,
                    "method": method_of(entry, workbench), "command": report.command_of(entry, engine),
                    "picture": entry.picture, "missing": entry.missing, "computed_by": entry.computed_by,
                }
                for paper, entry in items
            ],
        )  # fmt: skip
        return
    rows = [
        (entry.id, paper.key, entry.place, entry.title, method_of(entry, workbench),
         "yes" if entry.picture else "-", f"{NOT_YET}: {entry.missing}" if entry.missing else "computed")
        for paper, entry in items
    ]  # fmt: skip
    print_text(table(("item", "paper", "place", "title", "method", "picture", "state"), rows))


def _computed(
    paper: Paper,
    item: Item | None,
    workbench: Workbench,
    inputs: Mapping[str, object],
    *,
    err: bool,
) -> list[Computed]:
    """The items computed; what each of several took is printed as it is done, to stderr with `err`."""
    rows = []
    for row in computed([item] if item else paper.items, workbench, inputs):
        if item is None:
            spent = f"{row.seconds:7.2f} s  {row.peak_mb:6.0f} MB" if row.state == "computed" else row.state
            print_text(f"{row.item.id}  {spent}", err=err)
        rows.append(row)
    return rows


def _picture(row: Computed) -> str:
    """The SVG of an item. Raises what its computation raised."""
    if row.error is not None:
        raise row.error
    assert row.outcome is not None and row.outcome.svg
    return row.outcome.svg


def _write_page(out: Path, papers: Sequence[tuple[Paper, Sequence[Computed]]], engine: str) -> str:
    """papers.md, and the pictures and the JSON of all items in a folder next to it; says what it took."""
    rows = [row for _, some in papers for row in some]
    pictures = out / report.PICTURES
    try:
        pictures.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExperimentError(f"{error.filename} cannot be made: {error.strerror}.") from error
    _write(out / PAGE, report.page(papers, engine))
    _write(pictures / "items.json", json_text("paper", items=[report.document(row, engine) for row in rows]))
    for row in rows:
        if row.outcome is not None and row.outcome.svg:
            _write(pictures / f"{row.item.id}.svg", row.outcome.svg)
    total = sum(row.seconds for row in rows)
    peak = max((row.peak_mb for row in rows), default=0.0)
    return f"{out / PAGE}: {len(rows)} items, {total:.1f} s, at most {peak:.0f} MB"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise ExperimentError(f"{error.filename} cannot be written: {error.strerror}.") from error
