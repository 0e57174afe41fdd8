"""`railweave compare --engines`: one experiment on two engines, or many."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from railweave.bench.engine_cases import JOBS, SCENARIOS, Row, compared
from railweave.framework import units
from railweave.framework.cli import VERBOSE
from railweave.framework.cli._context import print_json, registers, table
from railweave.framework.cli._live import Live
from railweave.framework.cli._options import overrides_of
from railweave.framework.cli._signals import raised_signals
from railweave.framework.errors import InputError
from railweave.framework.experiment.plan import load_plan
from railweave.framework.judging.agreement import Agreement
from railweave.framework.results.directory import RunDirectory
from railweave.framework.studies.two_engines import engines_of, run_both

MEANINGLESS = ("repeat", "modes", "two_jobs", "engine")
"""Options that say what `--engines` says, or nothing next to it."""

OF_CASES = ("topology", "router", "faults", "jobs", "ranks")
"""Keys that every case of `--all` and `--quick` brings, and is named by."""


def compare_engines(
    ctx: click.Context, engines: str, many: str | None, resume: Path | None, *, as_json: bool
) -> None:
    """Run the experiment of the command, or `many` (all, quick), on both engines and print how far apart they
    are."""
    names = engines_of([word.strip() for word in engines.split(",") if word.strip()], registers(ctx))
    values, labels = overrides_of(ctx)
    for name in MEANINGLESS:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            flag = "--jobs" if name == "two_jobs" else f"--{name}"
            raise click.BadParameter("means nothing with --engines.", ctx=ctx, param_hint=flag)
    if many is not None:
        for key, label in labels.items():
            if key.partition(".")[0] in OF_CASES:
                text = f"--{many} brings its own. Leave one of them out."
                raise click.BadParameter(text, ctx=ctx, param_hint=label)
        _compare_many(ctx, names, values, many, resume, as_json=as_json)
        return
    if resume is not None:
        raise click.BadParameter("needs --all or --quick.", ctx=ctx, param_hint="--resume")
    labels["engine"] = "--engines"
    load = partial(load_plan, ctx.params["experiment"], registers=registers(ctx), labels=labels)
    plans = [load({**values, "engine": name}) for name in names]

    def directory(name: str) -> RunDirectory:
        click.echo(name, err=True)
        return RunDirectory.create(None, f"compare-{name}")

    verbose, jobs = ctx.meta[VERBOSE], [job.job.name for job in plans[0].jobs]
    with (
        raised_signals(),
        Live(plans[0].iterations, quiet=False, verbose=verbose, lines=verbose, jobs=jobs) as live,
    ):
        agreement = run_both((plans[0], plans[1]), registers(ctx), directory, live.emit)
    if as_json:
        pinned = plans[0].at_scale(agreement.rate_scale)
        figures = {**asdict(agreement), "within": agreement.within}
        print_json("compare-engines", experiment=pinned.document(), agreement=figures)
    else:
        click.echo(shown(agreement))


def _compare_many(
    ctx: click.Context,
    names: tuple[str, str],
    values: Mapping[str, object],
    many: str,
    resume: Path | None,
    *,
    as_json: bool,
) -> None:
    if ctx.params["experiment"] is not None:
        raise click.BadParameter("brings its own experiments.", ctx=ctx, param_hint=f"--{many}")
    known = registers(ctx)["engine"]
    if unknown := [name for name in names if name not in known]:
        raise InputError(
            f"--engines: there is no engine {unknown[0]!r}; known are: {', '.join(sorted(known))}."
        )
    rows: list[Row] = []
    try:
        with raised_signals():
            for row in compared(
                names, registers(ctx), values, quick=many == "quick", resume=resume,
                progress=lambda text: click.echo(text, err=True),
            ):  # fmt: skip
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
        each = [[s for s in stages if s.name.endswith(f" {name}")] for name in names]
        stages = tuple(max(some, key=lambda stage: abs(stage.difference or 0.0)) for some in each)
    return [_percent(s.difference) + "!" * (s.within is False) for s in stages]


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
             *(name or "none" for name in one.chosen),
             " and ".join("-" if s is None else f"{s:.2f}" for s in one.reroute_s),
             f"{one.score_difference:.2f}")
            for row, one in choices
        ]  # fmt: skip
        same = sum(one.chosen[0] == one.chosen[1] for _, one in choices)
        lines += ["", table(head, body), f"the same choice in {same} of {len(choices)}"]
    return [*lines, *(f"{row.name}: {row.failed}" for row in rows if row.failed)]


def shown(agreement: Agreement) -> str:
    """The agreement as a table and lines."""
    one, other = agreement.engines
    cells = [
        (stage.name, *map(str, stage.iterations), *map(_declared, stage.declared_us),
         _percent(stage.difference), {None: "-", True: "yes", False: "NO"}[stage.within])
        for stage in agreement.stages
    ]  # fmt: skip
    lines = [
        table(("iterations", f"{one}:", f"{other}:", f"{one}", f"{other}", "apart", "within"), cells),
        f"declared times; rate scale {agreement.rate_scale:.4g} on both",
        *_pair("reroute", [None if s is None else f"{s:.2f} s after the fault" for s in agreement.reroute_s]),
        *_pair("moved to", agreement.chosen),
        f"scores at the end at most {agreement.score_difference:.2f} apart",
        f"verdicts {' and '.join(agreement.verdicts)}",
    ]
    return "\n".join(lines)


def _pair(what: str, pair: Sequence[str | None]) -> list[str]:
    if pair[0] is None and pair[1] is None:
        return []
    return [f"{what}: {pair[0] or 'none'} and {pair[1] or 'none'}"]


def _declared(us: float | None) -> str:
    return "-" if us is None else units.time(us * 1e-6)


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:+.1f} %"
