"""`railweave compare --engines` on many experiments: a line for each, as it is measured."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from railweave.bench.engine_cases import JOBS, SCENARIOS, Row, compared
from railweave.framework.cli._context import print_json, table
from railweave.framework.cli._engines import percent
from railweave.framework.registry import Registers


def compare_cases(
    engines: tuple[str, str],
    registers: Registers,
    changed: Mapping[str, object],
    *,
    quick: bool,
    resume: Path | None,
    as_json: bool,
) -> None:
    """Run all cases or the `quick` ones on both engines, and print the rows as a table or as JSON."""
    rows: list[Row] = []
    try:
        progress = partial(click.echo, err=True)
        for row in compared(engines, registers, changed, quick=quick, resume=resume, progress=progress):
            rows.append(row)
            click.echo(f"    {row.failed or ', '.join(_of_row(row))}", err=True)
    finally:  # an interrupted comparison shows what it has
        if rows and as_json:
            print_json("compare-engines-many", rows=[asdict(row) for row in rows])
        elif rows:
            click.echo("\n".join(_shown_rows(rows)))


def _of_row(row: Row) -> list[str]:
    """The differences of the stages; `!` behind those that are larger than they may be."""
    stages = row.agreement.stages if row.agreement else ()
    if row.scenario == JOBS:  # of both, the one that differs most
        names = dict.fromkeys(stage.name.rpartition(" ")[2] for stage in stages)
        of_jobs = [[s for s in stages if s.name.endswith(f" {name}")] for name in names]
        stages = tuple(max(some, key=lambda stage: abs(stage.difference or 0.0)) for some in of_jobs)
    return [percent(s.difference) + "!" * (s.within is False) for s in stages]


def _shown_rows(rows: Sequence[Row]) -> list[str]:
    """A line for each fabric and router, and one for each drawn scenario."""
    lines = []
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        if not row.drawn:
            of_pair = cells.setdefault((row.fabric, row.router), {})
            doubtful = row.agreement and {*row.agreement.verdicts} != {"pass"}
            cell = "  ".join(_of_row(row)) + "  *" * bool(doubtful)
            of_pair[row.scenario] = "failed" if row.failed else cell
    if cells:
        body = [(*pair, *(of_pair.get(name, "") for name in SCENARIOS)) for pair, of_pair in cells.items()]
        lines += [table(("fabric", "router", *SCENARIOS), body)]
        lines.append(
            "before, iteration of the fault, after; of two jobs alone and together; ! more than allowed; "
            "* the verdict of a run is not pass"
        )
    choices = [(row, row.agreement) for row in rows if row.drawn and row.agreement]
    if choices:
        head = ("faults", *(f"on {name}" for name in choices[0][1].engines), "reroute s", "scores apart")
        body = [
            (row.scenario.replace("at=iter:", "").replace("degrade ", "").replace("to=", ""),
             *(name or "none" for name in agreement.chosen),
             " and ".join("-" if s is None else f"{s:.2f}" for s in agreement.reroute_s),
             f"{agreement.score_difference:.2f}")
            for row, agreement in choices
        ]  # fmt: skip
        same = sum(agreement.chosen[0] == agreement.chosen[1] for _, agreement in choices)
        lines += ["", table(head, body), f"the same choice in {same} of {len(choices)}"]
    return [*lines, *(f"{row.name}: {row.failed}" for row in rows if row.failed)]
