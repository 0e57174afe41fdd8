"""`railweave run`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from railweave.framework.cli.context import example, registers, verbose_option
from railweave.framework.cli.options import ExperimentCommand, experiment_options, plan_of
from railweave.framework.cli.signals import raised_signals
from railweave.framework.errors import InputError, RunFailedError

if TYPE_CHECKING:
    from railweave.framework.experiment import Plan
    from railweave.framework.results import RunResult
    from railweave.framework.rundir import RunDirectory


@click.command(
    cls=ExperimentCommand,
    short_help="Bring up a lab and run an experiment in it.",
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
@click.option("-q", "--quiet", is_flag=True, help="Print the final table alone.")
@verbose_option
@click.pass_context
def run(
    ctx: click.Context, /, out: Path | None, json_to: str | None, quiet: bool, verbose: bool, **_: object
) -> None:
    """Bring up a lab and run an experiment in it: by default a hierarchical all-reduce over a rail-only fabric of
    4 domains x 4 rails, in which rail 1 is degraded before the fifth iteration.

    Every option is also a key of EXPERIMENT.yaml; options win.
    """
    if quiet and verbose:
        raise click.UsageError("-q and -v contradict each other; give one.", ctx)
    plan = plan_of(ctx)
    json_path = _json_path(json_to)

    from railweave.framework.nccl_table import nccl_table
    from railweave.framework.rundir import RunDirectory, result_json, write_whole

    label = f"{plan.experiment.router.name}-{plan.experiment.topology.name}"
    directory = RunDirectory.create(out, label)
    directory.write_experiment(plan.yaml())
    try:
        with raised_signals():
            result = _run(plan, directory, quiet=quiet, verbose=verbose)
    except InputError:  # refused before anything ran
        directory.discard()
        raise
    directory.write_result(result)
    if plan.experiment.workload:
        _draw_traffic(plan, directory)
    _tell_plugins(ctx, result, directory)
    if json_path is not None:
        write_whole(json_path, result_json(result).encode())
    to_stderr = json_to == "-"
    if to_stderr:
        click.echo(result_json(result), nl=False)
    click.echo(nccl_table(result), nl=False, err=to_stderr)
    if not quiet:
        from railweave.framework.cli.report import report

        click.echo("\n" + report(result, directory.path), nl=False, err=to_stderr)
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


def _run(plan: Plan, directory: RunDirectory, *, quiet: bool, verbose: bool) -> RunResult:
    from railweave.framework import runner
    from railweave.framework.cli.live import Live

    with Live(plan.iterations, quiet=quiet, verbose=verbose) as live:

        def emit(event: dict[str, Any]) -> None:
            if event.get("kind") != "progress":
                directory.append_event(event)
            live.emit(event)

        for note in plan.notes:
            emit({"kind": "note", "text": note})
        return runner.run(plan, directory, emit)


def _draw_traffic(plan: Plan, directory: RunDirectory) -> None:
    """Who sent how much to whom in an iteration: traffic.csv, and as a heatmap, traffic.svg and traffic.png."""
    import io

    import numpy as np

    from railweave.framework.llm.heatmap import heatmap_png, heatmap_svg
    from railweave.framework.rundir import write_whole

    bytes_ = plan.schedule.matrix()
    domain = plan.fabric.groups[0].shape[-1]
    title = f"{plan.experiment.traffic.name}, bytes of one iteration as emulated"
    text = io.StringIO()
    np.savetxt(text, bytes_, "%.0f", ",")
    write_whole(directory.path / "traffic.csv", text.getvalue().encode())
    write_whole(directory.path / "traffic.svg", heatmap_svg(bytes_, domain, title).encode())
    write_whole(directory.path / "traffic.png", heatmap_png(bytes_, domain))


def _tell_plugins(ctx: click.Context, result: RunResult, directory: RunDirectory) -> None:
    """Registered reports write theirs into the run directory; observers hear that the run is over."""
    offered, document = registers(ctx), result.document()
    for offer in offered["report"].offers():
        offer.thing.write(document, str(directory.path))
    offered.manager.hook.on_run_end(result=document)


def _judge(result: RunResult) -> None:
    """Wrong data or an invalid emulation is a failed run, though it has a result."""
    if result.wrong:
        raise RunFailedError(f"{result.wrong} elements came out wrong; see the rows of the result.")
    if result.fidelity.verdict == "invalid":
        raise RunFailedError("the run is invalid: " + "; ".join(result.fidelity.reasons))
