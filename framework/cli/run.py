"""`railweave run`: the main job."""

import shutil
import sys
from pathlib import Path

import click

from railweave.framework.cli import DIRECTORY, VERBOSE
from railweave.framework.cli._context import example, plain_command, registers
from railweave.framework.cli._options import ExperimentCommand, plan_of
from railweave.framework.cli._page import check_packages, live_page
from railweave.framework.cli._signals import raised_signals
from railweave.framework.cli.model._options import TIME
from railweave.framework.errors import InputError, RunFailedError, UnwrittenError
from railweave.framework.model.events import RunEvent


@click.command(
    cls=ExperimentCommand,
    epilog=example(
        "railweave run",
        "railweave run --domains 2 --rails 8 --size 4M --fault 'at=2s degrade rail:1 to=20%'",
        "railweave run --workload ptdp --model gpt-1t --tp 8 --pp 8 --dp 4 --fault none",
        "railweave run --size 64K:4M:x2 --iterations 3",
        "railweave run --job 'ranks=domain:0-1' --job 'ranks=domain:2-3 collective=all-to-all'",
        "railweave run experiment.yaml --no-feedback --json result.json",
        "railweave run --predict",
        "railweave run --live",
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
    help="Refuse a run on the lab that should take longer on the wall clock.",
)
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
    verbose = ctx.meta[VERBOSE]
    if quiet and verbose:
        raise click.UsageError("-q and -v contradict each other; give one.", ctx)
    if port is not None and not live:
        raise click.UsageError("--port is that of --live; give both.", ctx)
    if live:
        check_packages("--live")
    plan = plan_of(ctx)
    to_stdout = json_to == "-"
    json_path = None if json_to is None or to_stdout else Path(json_to)
    if json_path and (json_path.is_dir() or not json_path.absolute().parent.is_dir()):
        raise InputError(
            f"--json {json_to}: not a file in a directory that exists. Give another, or - for stdout."
        )

    if dry_run:
        from railweave.framework.cli._dry_run import show

        show(plan, registers(ctx), json_path, as_json=to_stdout, longest_s=longest)
        return
    from railweave.framework import api
    from railweave.framework.cli._dry_run import check_estimate, estimate_text
    from railweave.framework.cli._live import Live
    from railweave.framework.cli._summary import report
    from railweave.framework.experiment.headline import headline
    from railweave.framework.results.directory import RunDirectory, result_json, write_whole
    from railweave.framework.results.nccl_table import nccl_table

    check_estimate(plan, registers(ctx), longest)
    directory = RunDirectory.create(out, f"{plan.experiment.router.name}-{plan.experiment.topology.name}")
    ctx.meta[DIRECTORY] = directory.path
    names = [job.job.name for job in plan.jobs]
    if not quiet:
        takes = estimate_text(plan)
        head = headline(plan.fabric, plan.document(), plan.chosen)
        click.echo(f"{head} · takes {takes}" if takes else head, err=True)
    with (
        raised_signals(),
        live_page(plan, directory, registers(ctx), (port or 0) if live else None) as (follow, end),
        Live(plan.iterations, quiet=quiet, verbose=verbose, jobs=names, fabric=plan.fabric) as shown,
    ):

        def emit(event: RunEvent) -> None:
            shown.emit(event)
            follow(event)

        unwritten: UnwrittenError | None = None
        try:
            result = api.run(plan, out=directory, predict=predict, on_event=emit, registers=registers(ctx))
        except UnwrittenError as error:  # what was measured is shown before it is lost
            result, unwritten = error.result, error
        end(result)
    if json_path and unwritten is None:
        write_whole(json_path, result_json(result).encode())
    if to_stdout:
        click.echo(result_json(result), nl=False)
    terminal = (sys.stderr if to_stdout else sys.stdout).isatty()
    columns = shutil.get_terminal_size().columns if terminal else None
    click.echo(nccl_table(result, columns), nl=False, err=to_stdout)
    if not quiet:
        click.echo("\n" + report(result, directory.path), nl=False, err=to_stdout)
    elif result.fidelity.verdict == "degraded":  # `invalid` is an error, below
        click.echo(f"fidelity degraded: {'; '.join(result.fidelity.reasons)}", err=True)
    if unwritten is not None:
        raise unwritten
    if failed := [f"job {job.name} failed: {job.error}" for job in result.jobs if job.error]:
        raise RunFailedError("\n".join(failed))
    # wrong data or an invalid emulation is a failed run, though it has a result
    if result.wrong:
        raise RunFailedError(f"{result.wrong} elements came out wrong; see the rows of the result.")
    if result.fidelity.verdict == "invalid":
        raise RunFailedError("the run is invalid: " + "; ".join(result.fidelity.reasons))
