"""`railweave model fleet`: failures, slices, circuits and jobs of a pod over a year."""

from pathlib import Path

import click
from click.core import ParameterSource

from railweave.framework.cli._context import example, json_command, print_json, print_text
from railweave.framework.cli._progress_bar import progress_bar
from railweave.framework.cli.model._fleet_report import FleetReport
from railweave.framework.cli.model._options import SHARE, bundled, value_option
from railweave.framework.errors import ExperimentError
from railweave.framework.papers.fleet.assumptions import assumptions
from railweave.framework.papers.fleet.component_failures import Draws
from railweave.framework.papers.fleet.job_mix import TYPICAL, JobMix, parse_days, parse_kind
from railweave.framework.papers.fleet.pod import FailureRates, Pod, read_rates
from railweave.framework.papers.fleet.year import Fleet, simulate

FILE = click.Path(dir_okay=False, path_type=Path)
REPAIRS = ("4h", "12h", "24h")


def rates_of(
    rates_file: Path | None, host_rate: float, cable_rate: float, ocs_rate: float
) -> tuple[FailureRates, bool]:
    """The rates of the file or of the options, and whether the user chose them."""
    ctx = click.get_current_context()
    options = [
        f"--{name.replace('_', '-')}"
        for name in ("host_rate", "cable_rate", "ocs_rate")
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if rates_file is None:
        return FailureRates(host_rate, cable_rate, ocs_rate), bool(options)
    if options:
        raise click.UsageError(
            f"--rates holds all rates, so {', '.join(options)} would have no effect. Leave it out, or leave "
            "--rates out.",
            ctx,
        )
    return read_rates(rates_file), True


def mix_of(kinds: tuple[str, ...], per_day: float, opt_in: float) -> JobMix:
    """The jobs of the options."""
    return JobMix(tuple(parse_kind(text) for text in kinds), per_day, opt_in)


@click.command(
    "fleet",
    short_help="Simulate a year of a pod of cubes.",
    epilog=example(
        "railweave model fleet",
        "railweave model fleet --repair 1h --repair 6h --repair 3d --spares 8 --seeds 50 --json",
        "railweave model fleet --rates rates.yaml --job 1x1x1:80%:6h --job 2x2x2:20%:2d",
    ),
)
@value_option("--cubes", 64, int, "Cubes of 64 chips in the pod, spare ones included.")
@value_option("--spares", 4, int, "Cubes that jobs leave free for others that fail.")
@value_option("--host-rate", "0.08%", SHARE, "Share of hosts that fail in a day.")
@value_option("--cable-rate", "0.005%", SHARE, "Share of cables that fail in a day.")
@value_option("--ocs-rate", "0.04%", SHARE, "Share of optical circuit switches that fail in a day.")
@click.option(
    "--rates", "rates_file", type=FILE, help="YAML or JSON with hosts, cables and ocs, in place of these."
)
@value_option("--repair repairs", REPAIRS, str, "Mean time to repair: a row each. Repeatable.")
@value_option("--job kinds", TYPICAL, str, "SHAPE:SHARE:DURATION of jobs, shape in cubes. Repeatable.")
@value_option("--jobs-per-day per_day", 12.0, float, "Jobs that arrive in a day.")
@value_option("--opt-in", "95%", SHARE, "Share of jobs that may run on fault-tolerant routes.")
@value_option("--days", 365, int, "Days to simulate.")
@value_option("--seeds", 200, click.IntRange(2), "Independent years, for the intervals.")
@value_option("--seed", 1, click.IntRange(0), "Where the random numbers begin.")
@bundled("pod", Pod, "cubes", "spares")
@bundled("chosen_rates", rates_of, "rates_file", "host_rate", "cable_rate", "ocs_rate")
@bundled("mix", mix_of, "kinds", "per_day", "opt_in")
@bundled("draws", Draws, "seeds", "seed")
@json_command
def fleet(
    ctx: click.Context,
    pod: Pod,
    chosen_rates: tuple[FailureRates, bool],
    repairs: tuple[str, ...],
    mix: JobMix,
    days: int,
    draws: Draws,
    as_json: bool,
) -> None:
    """Simulate a year of a pod of cubes that optical circuit switches join (sections 5 and 7).

    Hosts, cables and OCSes fail at the rates of figure 12. Prints how much of the pod is in whole slices,
    with circuits and with fixed wiring; how many circuits jobs need (figure 13); which share of jobs runs on
    fault-tolerant routes (figure 14); means over seeds with 95 % intervals, and all assumptions.
    """
    rates, own_rates = chosen_rates
    planned = Fleet(pod, rates, mix, days, draws)
    repair_days = tuple(parse_days(text, "--repair") for text in repairs)
    if len(set(repair_days)) < len(repair_days):
        raise ExperimentError(f"--repair {', '.join(repairs)} holds a time twice. Leave one of them out.")
    jobs_chosen = ctx.get_parameter_source("kinds") is ParameterSource.COMMANDLINE
    with progress_bar("jobs") as on_progress:
        years = simulate(planned, repair_days, on_progress)
    stated = assumptions(planned, own_rates=own_rates, own_jobs=jobs_chosen)
    report = FleetReport(planned, years, stated)
    if as_json:
        print_json("model.fleet", **report.document())
    else:
        print_text(report.text())
