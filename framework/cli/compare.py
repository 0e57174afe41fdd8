"""`railweave compare`: routers, with and without feedback, in the same experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from railweave.framework.cli._context import (
    example,
    json_option,
    print_json,
    registers,
    table,
    verbose_option,
)
from railweave.framework.cli._options import ExperimentCommand, experiment_options, overrides_of
from railweave.framework.cli._signals import raised_signals

if TYPE_CHECKING:
    from railweave.framework.experiment.plan import Plan
    from railweave.framework.results.comparison import Variant
    from railweave.framework.results.directory import RunDirectory
    from railweave.framework.results.result import RunResult


@click.command(
    cls=ExperimentCommand,
    epilog=example(
        "railweave compare --router hscore,spray --fault 'at=iter:3 degrade rail:1 to=20%' --repeat 5",
        "railweave compare --router hscore --modes no-feedback,feedback,oracle --repeat 3",
    ),
)
@experiment_options
@click.option(
    "--repeat", type=click.IntRange(1), default=3, show_default=True, help="Runs of each router and mode."
)
@click.option(
    "--modes",
    default="feedback",
    show_default=True,
    metavar="LIST",
    help="What routers are told: feedback, no-feedback, oracle (the ground truth), separated by commas.",
)
@json_option
@verbose_option
@click.pass_context
def compare(
    ctx: click.Context, /, repeat: int, modes: str, as_json: bool, verbose: bool, **_: object
) -> None:
    """Run the same experiment with each router (`--router A,B,...`), in turn and with the same seeds, and
    print medians, spread and the ratio to the first. All runs use the rate scale of the first. Each leaves
    its directory under runs/.
    """
    from railweave.framework import api
    from railweave.framework.cli._live import Live
    from railweave.framework.experiment.plan import load_plan
    from railweave.framework.results.comparison import variants_of
    from railweave.framework.results.directory import RunDirectory

    values, labels = overrides_of(ctx.params, ctx)
    file = ctx.params.get("experiment")
    if "router" in values:
        routers = _listed(str(values.pop("router")))
    else:
        routers = [load_plan(file, values, registers(ctx), labels).experiment.router.name]
    plans = {
        variant: load_plan(file, {**values, **variant.keys}, registers(ctx), labels)
        for variant in variants_of(routers, _listed(modes))
    }

    def directory(turn: int, variant: Variant) -> RunDirectory:
        click.echo(f"{turn + 1}/{repeat} {variant.name}", err=True)
        return RunDirectory.create(None, f"compare-{variant.router}")

    results: dict[Variant, list[RunResult]] = {variant: [] for variant in plans}
    iterations = next(iter(plans.values())).iterations
    try:
        with raised_signals(), Live(iterations, quiet=False, verbose=verbose, lines=verbose) as live:
            for variant, result in api.compared_runs(plans, repeat, registers(ctx), directory, live.emit):
                results[variant].append(result)
                times = f"{result.summary.declared_time_us:.4g} us declared, a mean iteration"
                click.echo(f"    {result.fidelity.verdict}, {times}", err=True)
    finally:  # an interrupted comparison shows what it has
        _show(plans, results, as_json)


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def _show(
    plans: Mapping[Variant, Plan], results: Mapping[Variant, Sequence[RunResult]], as_json: bool
) -> None:
    from railweave.framework.results.comparison import compare as compare_results

    rows = compare_results([(variant, runs) for variant, runs in results.items() if runs])
    if not rows:
        return
    if as_json:
        experiment = next(iter(plans.values())).document()
        print_json("compare", {"experiment": experiment, "rows": [asdict(row) for row in rows]}, version=2)
        return
    head = ("router", "runs", "healthy us", "faulted us", "lowest", "highest", "speedup", "wrong", "verdicts")
    cells = []
    for row in rows:
        lowest, highest = row.spread_us or (None, None)
        figures = (row.healthy_us, row.faulted_us, lowest, highest, row.ratio)
        shown = ("-" if figure is None else f"{figure:.4g}" for figure in figures)
        cells.append((row.variant.name, row.repeats, *shown, row.wrong, ", ".join(sorted(set(row.verdicts)))))
    click.echo(table(head, cells))
    scales = sorted({scale for row in rows for scale in row.rate_scales})
    click.echo(f"declared times; rate scale {', '.join(f'{scale:.4g}' for scale in scales)} in all runs")
