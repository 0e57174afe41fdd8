"""`railweave run`: the main job."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from railweave.framework.cli import KEPT, VERBOSE
from railweave.framework.cli._context import (
    example,
    plain_command,
    print_text,
    registers,
    results_stream,
    table,
)
from railweave.framework.cli._options import COMMON, ExperimentCommand, plan_of
from railweave.framework.cli._page import check_packages, live_page
from railweave.framework.cli._signals import raised_signals
from railweave.framework.cli.model._options import TIME
from railweave.framework.errors import InputError, RunFailedError, UnwrittenError
from railweave.framework.experiment.plan import Plan
from railweave.framework.model.events import RunEvent

if TYPE_CHECKING:
    from railweave.framework.results.directory import RunDirectory
    from railweave.framework.results.result import RunResult


@click.command(
    cls=ExperimentCommand,
    common=(*COMMON[:-1], "out", "json_to", "kpi", "dry_run", "live", "quiet", "help_all"),
    epilog=example(
        "railweave run",
        "railweave run --domains 2 --rails 8 --size 4M --fault 'at=2s degrade rail:1 to=20%'",
        "railweave run --workload ptdp --model gpt-1t --tp 8 --pp 8 --dp 4 --fault none",
        "railweave run --size 64K:4M:x2 --iterations 3",
        "railweave run --job 'ranks=domain:0-1' --job 'ranks=domain:2-3 collective=all-to-all'",
        "railweave run experiment.yaml --no-feedback --json result.json",
        "railweave run --predict --live",
        "railweave run --engine {engine} --trace 50ms",
        "railweave run --engine {engine} --domains 256 --rails 256 --size 1G --fault none --dry-run",
    ),
)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Run directory; new or empty.")
@click.option("--json", "json_to", metavar="FILE|-", help="Write the whole result as JSON; - is stdout.")
@click.option(
    "--dry-run", is_flag=True, help="Check everything, print what the run would take, and start nothing."
)
@click.option(
    "--longest",
    type=TIME,
    default="1h",
    show_default=True,
    help="Refuse a run that should take longer on the wall clock.",
)
@click.option("--kpi", is_flag=True, help="Print the key figures, and which of them are not known.")
@click.option("--predict", is_flag=True, help="Print what {engine} makes of every iteration next to it.")
@click.option(
    "--live", is_flag=True, help="Serve a page on this machine that follows the run; prints its URL."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), help="With --live: the port; by default any that is free."
)
@click.option(
    "-q", "--quiet", is_flag=True, help="Print only the final table, and a verdict other than pass."
)
@plain_command
def run(
    ctx: click.Context,
    /,
    out: Path | None,
    json_to: str | None,
    dry_run: bool,
    longest: float,
    kpi: bool,
    predict: bool,
    live: bool,
    port: int | None,
    quiet: bool,
    **_: object,
) -> None:
    """Bring up a lab and run an experiment in it, or compute it (`--engine {engine}`): by default a
    hierarchical all-reduce over a rail-only fabric of 4 domains x 4 rails, in which rail 1 is degraded before
    the fifth iteration.

    Every option is also a key of EXPERIMENT.yaml; options win.
    """
    _check_options(ctx, quiet=quiet, live=live, port=port)
    plan = plan_of(ctx)
    to_stdout = json_to == "-"
    json_path = None if json_to is None or to_stdout else _json_path(json_to)
    if dry_run:
        from railweave.framework.cli._dry_run import show

        show(plan, registers(ctx), json_path, as_json=to_stdout, longest_s=longest)
        return
    from railweave.framework.cli._dry_run import check_estimate
    from railweave.framework.results.directory import RunDirectory, result_json, write_whole

    check_estimate(plan, registers(ctx), longest)
    directory = RunDirectory.create(out, f"{plan.experiment.router.name}-{plan.experiment.topology.name}")
    ctx.meta[KEPT] = f"The events so far are in {directory.path}."
    if not quiet:
        _announce(plan)
    result, unwritten = _shown_run(ctx, plan, directory, (port or 0) if live else None)
    if json_path and unwritten is None:
        write_whole(json_path, result_json(result).encode())
    _show_result(result, directory.path, quiet=quiet, as_json=to_stdout)
    if kpi:
        _show_key_figures(result, as_json=to_stdout)
    if unwritten is not None:
        raise unwritten
    _check_success(result)


def _check_options(ctx: click.Context, *, quiet: bool, live: bool, port: int | None) -> None:
    """Raises UsageError for options that contradict each other, InputError where --live lacks packages."""
    if quiet and ctx.meta[VERBOSE]:
        raise click.UsageError("-q and -v contradict each other; give one.", ctx)
    if port is not None and not live:
        raise click.UsageError("--port is that of --live; give both.", ctx)
    if live:
        check_packages("--live")


def _json_path(name: str) -> Path:
    """The file of --json. Raises InputError where none can be written."""
    path = Path(name)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InputError(
            f"--json {name}: not a file in a directory that exists. Give another, or - for stdout."
        )
    return path


def _announce(plan: Plan) -> None:
    """Print what is about to run, and how long that should take where it is known."""
    from railweave.framework.cli._dry_run import estimate_text
    from railweave.framework.experiment.headline import headline

    takes = estimate_text(plan)
    head = headline(plan.fabric, plan.document(), plan.chosen)
    click.echo(f"{head} · takes {takes}" if takes else head, err=True)


def _shown_run(
    ctx: click.Context, plan: Plan, directory: "RunDirectory", port: int | None
) -> tuple["RunResult", UnwrittenError | None]:
    """Carry out the plan and show its events as they happen, on a page too where there is a `port`.

    (the result, why its directory lacks it): what was measured is shown before it is lost.
    """
    from railweave.framework import api
    from railweave.framework.cli._live import Live

    quiet, verbose = ctx.params["quiet"], ctx.meta[VERBOSE]
    names = [job.job.name for job in plan.named_jobs]
    with (
        raised_signals(),
        live_page(plan, directory, registers(ctx), port) as (follow, end),
        Live(plan.iterations, quiet=quiet, verbose=verbose, jobs=names, fabric=plan.fabric) as shown,
    ):

        def emit(event: RunEvent) -> None:
            shown.emit(event)
            follow(event)

        unwritten: UnwrittenError | None = None
        try:
            result = api.run(
                plan,
                out=directory,
                predict=ctx.params["predict"],
                on_event=emit,
                registers=registers(ctx),
            )
        except UnwrittenError as error:
            result, unwritten = error.result, error
        end(result)
    return result, unwritten


def _show_result(result: "RunResult", directory: Path, *, quiet: bool, as_json: bool) -> None:
    """Print the table of the result and a summary; with JSON on stdout, on stderr."""
    from railweave.framework.cli._summary import report
    from railweave.framework.results.directory import result_json
    from railweave.framework.results.nccl_table import nccl_table

    if as_json:
        print_text(result_json(result), nl=False)
    terminal = (sys.stderr if as_json else results_stream()).isatty()
    columns = shutil.get_terminal_size().columns if terminal else None
    print_text(nccl_table(result, columns), nl=False, err=as_json)
    if not quiet:
        print_text("\n" + report(result, directory), nl=False, err=as_json)
    elif result.fidelity.verdict == "degraded":  # `invalid` is an error, see _check_success
        click.echo(f"fidelity degraded: {'; '.join(result.fidelity.reasons)}", err=True)


def _show_key_figures(result: "RunResult", *, as_json: bool) -> None:
    """Print the known figures, and the names of the others; with JSON on stdout, on stderr."""
    from railweave.framework.page.data.figure_texts import UNKNOWN, key_figures

    figures = key_figures(result)
    cells = [(figure.name, figure.value, figure.meaning) for figure in figures if figure.value != UNKNOWN]
    print_text("\n" + table(("figure", "value", "meaning"), cells), err=as_json)
    if unknown := [figure.name for figure in figures if figure.value == UNKNOWN]:
        print_text(f"not known: {', '.join(unknown)}", err=as_json)


def _check_success(result: "RunResult") -> None:
    """Raises RunFailedError for a failed job, wrong data or an invalid emulation: such a run has failed,
    though it has a result."""
    if failed := [f"job {job.name} failed: {job.error}" for job in result.jobs if job.error]:
        raise RunFailedError("\n".join(failed))
    if result.wrong:
        raise RunFailedError(f"{result.wrong} elements came out wrong; see the rows of the result.")
    if result.fidelity.verdict == "invalid":
        raise RunFailedError("the run is invalid: " + "; ".join(result.fidelity.reasons))
