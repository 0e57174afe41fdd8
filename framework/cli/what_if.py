"""`railweave what-if`: the experiment of a finished run at many times its GPUs."""

from dataclasses import asdict
from pathlib import Path

import click

from railweave.framework import api
from railweave.framework.api.studies import FACTORS, WhatIf
from railweave.framework.cli._context import example, json_command, print_json, print_text, registers, table
from railweave.framework.cli._options import LEADING, ExperimentCommand, overrides_of
from railweave.framework.cli._signals import raised_signals
from railweave.framework.parameters import units

KEYS = ("router", "collective", "ranks", "size", "iterations", "faults", "estimator", "seed")
"""What may change of the run's experiment."""


@click.command(
    "what-if",
    cls=ExperimentCommand,
    leading=(click.Argument(["run"], metavar="RUN", type=click.Path(path_type=Path)), *LEADING[1:]),
    keys=KEYS,
    kinds=(),
    defaults=dict.fromkeys(KEYS, "that of RUN"),
    epilog=example(
        "railweave what-if runs/20261122-074744-hscore-rail-only",
        "railweave what-if runs/20261122-074744-hscore-rail-only --times 4,64 --size 64M",
    ),
)
@click.option(
    "--times", default=",".join(map(str, FACTORS)), show_default=True, metavar="LIST",
    help="Times the GPUs of the run, separated by commas.",
)  # fmt: skip
@json_command
def what_if(ctx: click.Context, /, run: Path, times: str, as_json: bool, **_: object) -> None:
    """Compute the experiment of the run in directory RUN on larger fabrics of its kind, with the engine
    fluid: how long iterations take healthy and after the fault, what feedback gains, what holds them."""
    words = [word.strip() for word in times.split(",")]
    if not all(word.isascii() and word.isdecimal() and int(word) for word in words):
        raise click.BadParameter(f"{times!r} is no list such as 10,100,1000.", ctx=ctx, param_hint="--times")
    changed, _labels = overrides_of(ctx)
    rows: list[WhatIf] = []

    def add(row: WhatIf) -> None:
        rows.append(row)
        click.echo(row.refused or f"{row.engine}: {row.gpus} GPUs", err=True)

    factors = [int(word) for word in words]
    try:
        with raised_signals():
            api.what_if(run, factors=factors, on_row=add, registers=registers(ctx), **changed)
    finally:  # an interrupted command shows what it has
        if rows and as_json:
            print_json("what-if", rows=[asdict(row) for row in rows])
        elif rows:
            _show(rows)


def _show(rows: list[WhatIf]) -> None:
    head = ("engine", "GPUs", "healthy", "faulted", "no feedback", "gain", "bottleneck", "computed in")
    print_text(table(head, [_cells(row) for row in rows]))
    print_text("declared times of an iteration; gain: without feedback over with it, after the fault")
    for row in rows:
        if row.refused:
            print_text(f"refused: {row.refused}")


def _cells(row: WhatIf) -> tuple[object, ...]:
    if row.refused:
        return (row.engine, *"-" * 5, "refused", "-")
    times = ["-" if us is None else units.time(us * 1e-6) for us in (row.healthy_us, row.faulted_us)]
    alone = "fails" if row.alone_failed else "-" if row.alone_us is None else units.time(row.alone_us * 1e-6)
    return (
        row.engine,
        row.gpus,
        *times,
        alone,
        "-" if row.gain is None else f"{row.gain:.2f}",
        f"{row.bottleneck} {100 * (row.share or 0):.0f} %" if row.bottleneck else "none",
        "-" if row.took_s is None else f"{row.took_s:.1f} s",
    )
