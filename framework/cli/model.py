"""`railweave model`: what formulas say, without a lab."""

from __future__ import annotations

from dataclasses import asdict

import click

from railweave.framework.cli.context import example, json_option, print_json, table, verbose_option
from railweave.framework.cli.rail_only import allgather, cost
from railweave.framework.cli.training import iteration, traffic


@click.group(
    short_help="Compute what formulas say of a fabric; no lab.",
    epilog=example("railweave model optree --nodes 1024 --wavelengths 64"),
)
def model() -> None:
    """Compute what the formulas of the sources say. Nothing is brought up."""


@model.command(
    "optree", epilog=example("railweave model optree --nodes 16 --wavelengths 2 --item 256K --json")
)
@click.option("--nodes", type=int, default=16, show_default=True, help="Nodes on the ring, 2 or more.")
@click.option("--wavelengths", type=int, default=2, show_default=True, help="Wavelengths per direction.")
@click.option("--item", metavar="BYTES", default="1M", show_default=True, help="What each node contributes.")
@click.option("--rate", metavar="RATE", default="40Gb/s", show_default=True, help="Rate of one wavelength.")
@click.option(
    "--step-time", metavar="TIME", default="25us", show_default=True,
    help="What a step costs beyond its data: reconfiguration, conversion.",
)  # fmt: skip
@json_option
@verbose_option
def optree(
    nodes: int, wavelengths: int, item: str, rate: str, step_time: str, as_json: bool, verbose: bool
) -> None:
    """Compare OpTree at every depth with ring, neighbor-exchange, Wrht and one-stage all-gathers.

    Steps and time by the formulas of the paper (Table I, Theorem 1, equation 3), then of the schedule that
    `railweave run` would carry out, in whole numbers, with its item-times and the wavelengths it uses.
    """
    from railweave.framework.optical.closed_forms import optimal_depth
    from railweave.framework.optical.comparison import compare
    from railweave.framework.optical.optree import best_depth
    from railweave.framework.parameters import Parameter
    from railweave.framework.quantities import time

    item_bytes = int(Parameter("--item", 0, "bytes", "", minimum=0).parse(item))
    rate_bps = float(Parameter("--rate", 0.0, "rate", "", minimum=1).parse(rate))
    step_s = float(Parameter("--step-time", 0.0, "time", "", minimum=0).parse(step_time))
    rows = compare(nodes, wavelengths, item_bytes, rate_bps, step_s)
    best, scheduled = optimal_depth(nodes), best_depth(nodes, wavelengths)
    if as_json:
        print_json(
            "model.optree",
            {
                "nodes": nodes, "wavelengths": wavelengths, "item_bytes": item_bytes, "rate_bps": rate_bps,
                "step_s": step_s, "optimal_depth": best, "schedule_depth": scheduled,
                "algorithms": [asdict(row) for row in rows],
            },
        )  # fmt: skip
        return
    click.echo(
        f"{nodes} nodes, {wavelengths} wavelengths per direction; items of {item} at {rate}, {step_time} a step\n"
    )
    head = (
        "algorithm",
        "depth",
        "arity",
        "steps",
        "time",
        "schedule",
        "item-times",
        "used",
        "time of schedule",
    )
    click.echo(
        table(
            head,
            [
                (
                    row.algorithm, row.depth or "-", row.arity or "-", row.steps, time(row.time_s),
                    row.schedule_steps, row.item_times, row.wavelengths, time(row.schedule_s),
                )
                for row in rows
            ],
        )
    )  # fmt: skip
    if nodes % 2:
        click.echo("\nneighbor-exchange: needs an even number of nodes")
    click.echo(f"\nbest depth by Theorem 2: {best}; fewest steps as a schedule: depth {scheduled}")


for command in (iteration, cost, allgather, traffic):
    model.add_command(command)
