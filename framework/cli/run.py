"""`railweave run`: the main job."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from railweave.framework.cli import DIRECTORY
from railweave.framework.cli._context import example, registers, verbose_option
from railweave.framework.cli._options import ExperimentCommand, experiment_options, plan_of
from railweave.framework.cli._signals import raised_signals
from railweave.framework.errors import InputError, RunFailedError

if TYPE_CHECKING:
    from railweave.framework.results.result import RunResult


@click.command(
    cls=ExperimentCommand,
    epilog=example(
        "railweave run",
        "railweave run --domains 2 --rails 8 --size 4M --fault 'at=2s degrade rail:1 to=20%'",
        "railweave run --workload ptdp --model gpt-1t --tp 8 --pp 8 --dp 4 --fault none",
        "railweave run --size 64K:4M:x2 --iterations 3",
        "railweave run experiment.yaml --no-feedback --json result.json",
    ),
)
@experiment_options
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Run directory; new or empty.")
@click.option("--json", "json_to", metavar="FILE|-", help="Write the whole result as JSON; - is stdout.")
@click.option(
    "-q", "--quiet", is_flag=True, help="Print only the final table, and a verdict other than pass."
)
@verbose_option
@click.pass_context
def run(
    ctx: click.Context, /, out: Path | None, json_to: str | None, quiet: bool, verbose: bool, **_: object
) -> None:
    """Bring up a lab and run an experiment in it: by default a hierarchical all-reduce over a rail-only
    fabric of 4 domains x 4 rails, in which rail 1 is degraded before the fifth iteration.

    Every option is also a key of EXPERIMENT.yaml; options win.
    """
    if quiet and verbose:
        raise click.UsageError("-q and -v contradict each other; give one.", ctx)
    plan = plan_of(ctx)
    json_path = _json_path(json_to)

    from railweave.framework import api
    from railweave.framework.cli._live import Live
    from railweave.framework.results.directory import RunDirectory, result_json, write_whole
    from railweave.framework.results.nccl_table import nccl_table

    directory = RunDirectory.create(out, f"{plan.experiment.router.name}-{plan.experiment.topology.name}")
    ctx.meta[DIRECTORY] = directory.path
    with raised_signals(), Live(plan.iterations, quiet=quiet, verbose=verbose) as live:
        result = api.run(plan, out=directory, on_event=live.emit, registers=registers(ctx))
    if json_path is not None:
        write_whole(json_path, result_json(result).encode())
    to_stderr = json_to == "-"
    if to_stderr:
        click.echo(result_json(result), nl=False)
    terminal = (sys.stderr if to_stderr else sys.stdout).isatty()
    columns = shutil.get_terminal_size().columns if terminal else None
    click.echo(nccl_table(result, columns), nl=False, err=to_stderr)
    if not quiet:
        from railweave.framework.cli._summary import report

        click.echo("\n" + report(result, directory.path), nl=False, err=to_stderr)
    elif result.fidelity.verdict == "degraded":  # `invalid` is an error, below
        click.echo(f"fidelity degraded: {'; '.join(result.fidelity.reasons)}", err=True)
    _judge(result)


def _json_path(json_to: str | None) -> Path | None:
    """Where `--json` writes, checked before anything starts."""
    if json_to is None or json_to == "-":
        return None
    path = Path(json_to)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InputError(
            f"--json {json_to}: not a file in a directory that exists. Give another, or - for stdout."
        )
    return path


def _judge(result: RunResult) -> None:
    """Wrong data or an invalid emulation is a failed run, though it has a result."""
    if result.wrong:
        raise RunFailedError(f"{result.wrong} elements came out wrong; see the rows of the result.")
    if result.fidelity.verdict == "invalid":
        raise RunFailedError("the run is invalid: " + "; ".join(result.fidelity.reasons))
