"""`railweave compare`: routers, with and without feedback, in the same runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from railweave.framework.cli.context import example, json_option, print_json, registers, table, verbose_option
from railweave.framework.cli.options import ExperimentCommand, experiment_options, overrides_of
from railweave.framework.cli.signals import raised_signals


@click.command(
    cls=ExperimentCommand,
    short_help="Compare routers, with and without feedback, under the same fault.",
    epilog=example(
        "railweave compare --router hscore,spray,shortest --fault 'at=iter:3 degrade rail:1 to=20%' --repeat 5",
        "railweave compare --router hscore --modes no-feedback,feedback,oracle --repeat 3",
    ),
)
@experiment_options
@click.option("--repeat", type=click.IntRange(1), default=3, show_default=True, help="Runs of each way.")
@click.option(
    "--modes",
    default="feedback",
    show_default=True,
    metavar="LIST",
    help="What routers are told: feedback, no-feedback, oracle (the truth), with commas between.",
)
@json_option
@verbose_option
@click.pass_context
def compare(
    ctx: click.Context, /, repeat: int, modes: str, as_json: bool, verbose: bool, **_: object
) -> None:
    """Run the same experiment with each router (`--router A,B,...`), in turn, with the same seeds, and print medians,
    spread and the ratio to the first. Each run leaves its directory under runs/.
    """
    from railweave.framework.comparison import MODES, Way
    from railweave.framework.comparison import compare as compared
    from railweave.framework.experiment import load

    values, labels = overrides_of(ctx.params, ctx)
    chosen = [mode.strip() for mode in modes.split(",")]
    for mode in chosen:
        if mode not in MODES:
            raise click.BadParameter(
                f"{mode!r} is none of {', '.join(MODES)}.", ctx=ctx, param_hint="--modes"
            )
    routers = [name.strip() for name in str(values.pop("router", "hscore")).split(",")]
    plans = []
    for name in routers:  # all are checked before the first starts
        for mode in chosen:
            asked = {**values, "router": name, **MODES[mode]}
            plans.append((Way(name, mode), load(ctx.params.get("experiment"), asked, registers(ctx), labels)))
    results: dict[Way, list[Any]] = {way: [] for way, _ in plans}
    with raised_signals():
        for turn in range(repeat):
            for way, plan in plans:
                result = _run(plan)
                results[way].append(result)
                click.echo(f"{turn + 1}/{repeat} {way.name}: {result.fidelity.verdict}, "
                           f"{result.summary.time_us / 1e6:.3g} s a mean iteration", err=True)  # fmt: skip
    rows = compared([(way, results[way]) for way, _ in plans])
    if as_json:
        print_json("compare", {"experiment": plans[0][1].document(), "rows": [asdict(row) for row in rows]})
    else:
        head = ("way", "healthy s", "faulted s", "least", "most", "times as fast", "wrong", "verdicts")
        click.echo(table(head, [_cells(row) for row in rows]))


def _run(plan: Any) -> Any:
    from railweave.framework import runner
    from railweave.framework.rundir import RunDirectory

    directory = RunDirectory.create(None, f"compare-{plan.experiment.router.name}")
    directory.write_experiment(plan.yaml())
    result = runner.run(plan, directory, lambda _: None)
    directory.write_result(result)
    return result


def _cells(row: Any) -> tuple[object, ...]:
    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:.3g}"

    least, most = row.spread_s or (None, None)
    return (row.way.name, number(row.healthy_s), number(row.faulted_s), number(least), number(most), number(row.ratio),
            row.wrong, ", ".join(sorted(set(row.verdicts))))  # fmt: skip
