"""`railweave compare`: routers, with and without feedback, in the same experiment."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from railweave.framework.api.studies import (
    SHARES,
    Comparison,
    Point,
    Row,
    SharedRails,
    Sweep,
    Variant,
    compare_results,
    compare_shares,
    compared_picture,
    comparing,
    in_turn,
    jobs_sharing,
    sharing,
    variant_of,
    variants_of,
)
from railweave.framework.cli import VERBOSE, _context
from railweave.framework.cli._context import example, json_command, print_json, print_text, registers, table
from railweave.framework.cli._options import ExperimentCommand, overrides_of
from railweave.framework.cli._signals import raised_signals
from railweave.framework.cli._study import study_directory
from railweave.framework.experiment.plan import Plan, load_plan
from railweave.framework.model.events import IterationEnded, RunEvent
from railweave.framework.results.directory import write_whole


@click.command(
    cls=ExperimentCommand,
    epilog=example(
        "railweave compare --router hscore,spray --fault 'at=iter:3 down rail:1' --plot routers.svg",
        "railweave compare --router hscore --modes no-feedback,feedback,oracle --repeat 5",
        "railweave compare --jobs --repeat 1 --collective all-to-all",
        "railweave compare --engines emulation,packet,fluid --quick --repeat 3",
    ),
)
@click.option(
    "--repeat", type=click.IntRange(1), default=3, show_default=True,
    help="Runs of each; with --engines 1 unless given.",
)  # fmt: skip
@click.option(
    "--modes",
    default="feedback",
    show_default=True,
    metavar="LIST",
    help="What routers are told: feedback, no-feedback, oracle (the ground truth), separated by commas.",
)
@click.option(
    "--jobs",
    "two_jobs",
    is_flag=True,
    help="Compare two jobs with 0, 25, 50, 75 % of their rails in common, in place of routers.",
)
@click.option(
    "--engines",
    metavar="A,B,...",
    help="Run on each of these engines, at the rate scale of the first; compare each with the one before.",
)
@click.option(
    "--all",
    "many",
    flag_value="all",
    help="With --engines: every fabric and router of 16 GPUs, under faults and with two jobs.",
)
@click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.svg",
    help="Of routers: a figure of the iterations' times, with the faults marked.",
)  # fmt: skip
@click.option("--quick", "many", flag_value="quick", help="With --engines: eight combinations of --all.")
@click.option(
    "--resume",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="With --engines: the directory of an earlier comparison, to go on with what it lacks.",
)
@json_command
def compare(
    ctx: click.Context,
    /,
    repeat: int,
    modes: str,
    two_jobs: bool,
    engines: str | None,
    many: str | None,
    resume: Path | None,
    plot: Path | None,
    as_json: bool,
    **_: object,
) -> None:
    """Run the same experiment with each router (`--router A,B,...`), in turn and with the same seeds, and
    print medians, spread and the ratio to the first. All runs use the rate scale of the first. Rows and runs
    are kept in one directory under runs/, which `report` shows and `sweep` goes on with.

    With --jobs, the interference of two equal jobs, by default on 2 domains x 8 rails. With --engines, how
    far apart engines are.
    """
    if plot is not None and (two_jobs or engines is not None):
        raise click.BadParameter("draws routers alone.", ctx=ctx, param_hint="--plot")
    if engines is not None:
        from railweave.framework.cli._engines import compare_engines

        compare_engines(ctx, engines, many, resume, as_json=as_json)
        return
    if many or resume:
        raise click.BadParameter("needs --engines.", ctx=ctx, param_hint=f"--{many}" if many else "--resume")
    if two_jobs:
        _compare_jobs(ctx, repeat, as_json=as_json)
        return
    if plot is not None and (plot.suffix != ".svg" or not plot.absolute().parent.is_dir()):
        text = f"{plot}: expects a file that ends in .svg, in a directory that exists."
        raise click.BadParameter(text, ctx=ctx, param_hint="--plot")
    _compare_routers(ctx, repeat, modes, plot, as_json=as_json)


def _compare_routers(
    ctx: click.Context, repeat: int, modes: str, plot: Path | None, *, as_json: bool
) -> None:
    values, labels = overrides_of(ctx)
    load = partial(load_plan, ctx.params["experiment"], registers=registers(ctx), labels=labels)
    router = str(values.pop("router") if "router" in values else load(values).experiment.router.name)
    variants = variants_of(*([word.strip() for word in text.split(",")] for text in (router, modes)))
    plans = {variant: load({**values, **variant.keys}) for variant in variants}

    results: dict[Variant, list[Row]] = {variant: [] for variant in plans}

    def add(point: Point, row: Row) -> None:
        results[variant_of(point.settings)].append(row)
        times = f"{row['iteration_us']:.4g} us declared, a mean iteration"
        click.echo(f"    {row['verdict']}, {times}", err=True)

    plan = plans[variants[0]]
    try:
        _carry_out(ctx, comparing(plans, repeat), plan, lambda p: variant_of(p.settings).name, add)
    finally:  # an interrupted comparison shows what it has
        done = {variant: runs for variant, runs in results.items() if runs}
        rows = compare_results(done)
        if plot is not None and done:
            write_whole(plot, compared_picture({v.name: runs for v, runs in done.items()}).encode())
        if rows and as_json:
            pinned = plan.at_scale(rows[0].rate_scales[0])
            print_json("compare", 2, experiment=pinned.document(), rows=[asdict(row) for row in rows])
        elif rows:
            _show(rows)


def _carry_out(
    ctx: click.Context,
    sweep: Sweep,
    plan: Plan,
    name_of: Callable[[Point], str],
    add: Callable[[Point, Row], None],
) -> None:
    """Run the points of a comparison in turn, with a bar on a terminal, in a directory of their own; `add`
    gets a point and its row, unless it failed."""
    from railweave.framework.cli._live import Live

    def begin(point: Point) -> None:
        click.echo(f"{point.repeat + 1}/{sweep.study.repeats} {name_of(point)}", err=True)

    def end(point: Point, row: Row) -> Row:
        if "cause" in row:
            click.echo(f"    failed: {row['error']}", err=True)
        else:
            add(point, row)
        return row

    verbose, iterations = ctx.meta[VERBOSE], plan.iterations if len(plan.jobs) == 1 else None
    jobs = [] if iterations else [job.job.name for job in plan.named_jobs]
    with (
        raised_signals(),
        study_directory(sweep.study.name) as directory,
        Live(iterations, quiet=False, verbose=verbose, lines=verbose, jobs=jobs, fabric=plan.fabric) as live,
    ):
        emit = _told_by_the_minute(live.emit)
        in_turn(sweep, registers(ctx), directory, on_event=emit, on_point=begin, on_row=end)


def _told_by_the_minute(emit: Callable[[RunEvent], None]) -> Callable[[RunEvent], None]:
    """Off a terminal, which has a bar, a line once a minute: the iteration that has just ended."""
    last_s = [time.monotonic()]

    def told(event: RunEvent) -> None:
        emit(event)
        now_s = time.monotonic()
        if (
            isinstance(event, IterationEnded)
            and not sys.stderr.isatty()
            and now_s - last_s[0] >= _context.MINUTE_S
        ):
            last_s[0] = now_s
            click.echo(f"    iteration {event.iteration + 1}", err=True)

    return told


def _compare_jobs(ctx: click.Context, repeat: int, *, as_json: bool) -> None:
    values, labels = overrides_of(ctx)
    if ctx.get_parameter_source("modes") is not ParameterSource.DEFAULT:
        raise click.BadParameter("means nothing with --jobs.", ctx=ctx, param_hint="--modes")
    if "jobs" in values:
        raise click.BadParameter("--jobs has two jobs of its own.", ctx=ctx, param_hint="--job")
    if "topology" not in values and ctx.params["experiment"] is None:
        values = {"topology.domains": 2, "topology.rails": 8, **values}
    plan = load_plan(ctx.params["experiment"], values, registers(ctx), labels)
    sweep, results = sharing(plan, SHARES, repeat), dict[int, list[Row]]()
    two = load_plan(
        ctx.params["experiment"], {**values, "jobs": jobs_sharing(plan.fabric, 0)}, registers(ctx)
    )

    def name_of(point: Point) -> str:
        return f"{point.settings['percent']} % of rails used by both"

    def add(point: Point, row: Row) -> None:
        results.setdefault(int(str(point.settings["percent"])), []).append(row)

    try:
        _carry_out(ctx, sweep, two, name_of, add)
    finally:  # an interrupted comparison shows what it has
        rows = compare_shares(results)
        if rows and as_json:
            pinned = two.at_scale(rows[0].rate_scales[0])
            print_json("compare-jobs", experiment=pinned.document(), rows=[asdict(row) for row in rows])
        elif rows:
            _show_jobs(rows, packets=plan.engine.packets)


def _show_jobs(rows: Sequence[SharedRails], *, packets: bool) -> None:
    head = ("rails of both", "runs", "first", "second", "lowest", "highest", "fairness", "wrong", "verdicts")
    cells = []
    for row in rows:
        figures = (*row.interference, *(row.spread or (None, None)), row.fairness)
        shown = ("-" if figure is None else f"{figure:.2f}" for figure in figures)
        verdicts = ", ".join(sorted(set(row.verdicts)))
        cells.append((f"{row.percent} %", row.repeats, *shown, row.wrong, verdicts))
    print_text(table(head, cells))
    print_text("interference of each job: time in company over time alone")
    if not packets:
        print_text(
            "a model runs equal jobs in lockstep, which is the worst case: on a lab they drift apart and "
            "lose less"
        )


def _show(rows: Sequence[Comparison]) -> None:
    head = ("router", "runs", "healthy us", "faulted us", "lowest", "highest", "speedup", "wrong", "verdicts")
    cells = []
    for row in rows:
        figures = (row.healthy_us, row.faulted_us, *(row.spread_us or (None, None)), row.ratio)
        shown = ("-" if figure is None else f"{figure:.4g}" for figure in figures)
        cells.append((row.variant.name, row.repeats, *shown, row.wrong, ", ".join(sorted(set(row.verdicts)))))
    print_text(table(head, cells))
    scales = sorted({scale for row in rows for scale in row.rate_scales})
    print_text(f"declared times; rate scale {', '.join(f'{scale:.4g}' for scale in scales)} in all runs")
