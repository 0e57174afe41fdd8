"""`railweave model`: results of published formulas, without a lab."""

from collections.abc import Sequence
from dataclasses import asdict

import click

from railweave.framework.cli._context import example, json_command, print_json, print_text, table
from railweave.framework.cli.model._options import RATE, SIZE, TIME, bundled, value_option
from railweave.framework.cli.model.fleet import fleet
from railweave.framework.cli.model.rail_only import allgather, cost
from railweave.framework.cli.model.training import iteration, traffic
from railweave.framework.papers.optical.all_gather_costs import Costs, compare
from railweave.framework.papers.optical.closed_forms import StepSetup, optimal_depth
from railweave.framework.papers.optical.optree import best_depth
from railweave.framework.parameters import units


@click.group(
    commands=[iteration, cost, allgather, traffic, fleet],
    epilog=example("railweave model optree --nodes 1024 --wavelengths 64"),
)
def model() -> None:
    """Evaluate the formulas of the papers that railweave implements: costs, bounds, iteration times, optical
    schedules, a pod's failures over a year.

    Nothing is brought up.
    """


@model.command(
    "optree",
    short_help="Compare OpTree with other optical all-gathers.",
    epilog=example("railweave model optree --nodes 16 --wavelengths 2 --item 256K --json"),
)
@value_option("--nodes", 16, int, "Nodes on the ring, 2 or more.")
@value_option("--wavelengths", 2, int, "Wavelengths per direction.")
@value_option("--item", "1M", SIZE, "Bytes that each node contributes.")
@value_option("--rate", "40Gb/s", RATE, "Rate of one wavelength.")
@value_option("--step-time", "25us", TIME, "Time to set the lightpaths of a step.")
@value_option("--packet", "128", SIZE, "Bytes of a packet; items are whole packets.")
@value_option("--flit", "32", SIZE, "Bytes of a flit, the unit that packets consist of.")
@value_option("--cycle", "0s", TIME, "Time to convert a flit between light and electrons (O/E/O).")
@bundled("setup", StepSetup, "packet", "flit", "cycle", "step_time")
@json_command
def optree(
    _: click.Context, nodes: int, wavelengths: int, item: int, rate: float, setup: StepSetup, as_json: bool
) -> None:
    """Compare OpTree at every depth with ring, neighbor-exchange, Wrht and one-stage all-gathers.

    Steps by the formulas of the paper (Table I, Theorem 1) and their time (equation 3: one item a step), then
    the schedule that `railweave run` carries out, in whole steps, with its item-times and the wavelengths in
    use.
    """
    step_time = setup.step_s(item)
    rows = compare(nodes, wavelengths, setup.wire_bytes(item), rate, step_time)
    best, scheduled = optimal_depth(nodes), best_depth(nodes, wavelengths)
    if as_json:
        print_json(
            "model.optree",
            nodes=nodes,
            wavelengths=wavelengths,
            item_bytes=item,
            rate_bps=rate,
            step_s=step_time,
            setup=asdict(setup),
            flits=setup.flits(item),
            optimal_depth=best,
            schedule_depth=scheduled,
            algorithms=[asdict(row) for row in rows],
        )
        return
    print_text(
        f"{nodes} nodes, {wavelengths} wavelengths per direction; items of {units.size(item)} at "
        f"{units.rate(rate)}, {units.time(step_time)} a step\n"
    )
    print_text(_algorithm_table(rows))
    if nodes % 2:
        print_text("\nneighbor-exchange: needs an even number of nodes")
    print_text(f"\nbest depth by Theorem 2: {best}; depth of the schedule with the fewest steps: {scheduled}")


def _algorithm_table(rows: Sequence[Costs]) -> str:
    head = (
        *("algorithm", "depth", "arity", "steps", "time"),
        *("schedule", "item-times", "used", "time of schedule"),
    )
    cells = [
        (
            row.algorithm,
            row.depth or "-",
            row.arity or "-",
            row.steps,
            units.time(row.time_s),
            row.schedule_steps,
            row.item_times,
            row.wavelengths,
            units.time(row.schedule_s),
        )
        for row in rows
    ]
    return table(head, cells)
