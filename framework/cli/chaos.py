"""`railweave chaos`: random faults from a seed, run after run, and whether each ended as it should."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from railweave.framework.cli.context import example, json_option, print_json, registers, table, verbose_option
from railweave.framework.cli.options import ExperimentCommand, experiment_options, overrides_of
from railweave.framework.cli.signals import raised_signals
from railweave.framework.errors import RailweaveError, RunFailedError

if TYPE_CHECKING:
    from railweave.framework.chaos import Ending, Scenario
    from railweave.framework.experiment import Plan
    from railweave.framework.results import RunResult

DEFAULTS: dict[str, object] = {
    "topology.domains": 2, "topology.rails": 4, "size": "256K", "iterations": 6, "rate_scale": 2e-5, "faults": [],
    "timeout": "60s",
}  # fmt: skip
"""Where no option says: 8 GPUs, and iterations of some tenths of a second."""


@click.command(
    cls=ExperimentCommand,
    short_help="Run random faults from a seed and check how each run ends.",
    epilog=example(
        "railweave chaos --runs 50 --seed 1", "railweave chaos --runs 5 --seed 7 --router spray --json"
    ),
)
@experiment_options
@click.option("--runs", type=click.IntRange(1), default=10, show_default=True, help="Scenarios to run.")
@json_option
@verbose_option
@click.pass_context
def chaos(ctx: click.Context, /, runs: int, as_json: bool, verbose: bool, **_: object) -> None:
    """Draw scenarios of one to three faults (--seed), run each, and compare its end with what the faults leave.

    Where a path is left the run must end by itself with every number right; where none is, it must fail and name the
    cut ranks. Nothing may be left on the machine. The same seed gives the same scenarios.
    """
    from railweave.framework.chaos import judge, scenarios
    from railweave.framework.experiment import load

    if ctx.params.get("faults"):
        raise click.BadParameter("chaos draws its own faults; leave it out.", ctx=ctx, param_hint="--fault")
    values, labels = overrides_of(ctx.params, ctx)
    asked = {**DEFAULTS, **values}
    if "topology" in values:
        asked = {k: v for k, v in asked.items() if k in values or not k.startswith("topology.")}
    plan = load(ctx.params.get("experiment"), asked, registers(ctx), labels)
    drawn = scenarios(
        plan.fabric, plan.router, plan.schedule,
        runs=runs, seed=plan.experiment.seed, iterations=plan.experiment.iterations,
    )  # fmt: skip
    rows: list[dict[str, Any]] = []
    with raised_signals():
        for scenario in drawn:
            changed = {
                **asked,
                "faults": list(scenario.faults),
                "seed": plan.experiment.seed + scenario.number,
            }
            one = load(ctx.params.get("experiment"), changed, registers(ctx), labels)
            ending, result = _run(one)
            why = judge(scenario, ending)
            rows.append(_row(scenario, ending, result, why))
            click.echo(_line(len(rows), runs, scenario, ending, why), err=True)
    bad = [row for row in rows if row["why"] is not None]
    if as_json:
        print_json(
            "chaos", {"experiment": plan.document(), "runs": rows, "as_they_should": len(rows) - len(bad)}
        )
    else:
        click.echo(table(("what", "figure"), _summary(rows)))
    if bad:
        raise RunFailedError(
            f"{len(bad)} of {runs} runs did not end as they should; the first is {bad[0]['number']}: {bad[0]['why']}"
        )


def _run(plan: Plan) -> tuple[Ending, RunResult | None]:
    from railweave.framework import runner
    from railweave.framework.chaos import Ending
    from railweave.framework.leftovers import MARK, footprint
    from railweave.framework.rundir import RunDirectory

    directory = RunDirectory.create(None, f"chaos-{plan.experiment.router.name}")
    directory.write_experiment(plan.yaml())
    mark = os.environ[MARK] = directory.path.name
    before, began = footprint(mark), time.monotonic()
    result, error = None, None
    try:
        result = runner.run(plan, directory, lambda _: None)
        directory.write_result(result)
    except RailweaveError as failed:
        error = f"{type(failed).__name__}: {failed}"
    seconds = time.monotonic() - began
    left = tuple(sorted(footprint(mark) - before))
    wrong, verdict = (result.wrong, result.fidelity.verdict) if result else (0, "")
    return Ending(error, wrong, verdict, seconds, left), result


def _row(scenario: Scenario, ending: Ending, result: RunResult | None, why: str | None) -> dict[str, Any]:
    faults = [asdict(fault) for fault in result.faults] if result else []
    accuracy = asdict(result.accuracy) if result else None
    return {**asdict(scenario), **asdict(ending), "timed_faults": faults, "accuracy": accuracy, "why": why}


def _line(done: int, runs: int, scenario: Scenario, ending: Ending, why: str | None) -> str:
    how = "completed" if ending.error is None else "failed as it should" if why is None else "failed"
    verdict = f" ({why})" if why else ""
    return f"{done}/{runs} {'; '.join(scenario.faults)}: {how}, {ending.seconds:.1f} s{verdict}"


def _summary(rows: list[dict[str, Any]]) -> list[tuple[str, object]]:
    def spread(values: list[float]) -> str:
        return (
            f"{median(values):.2f} s median, {max(values):.2f} s at most, of {len(values)}" if values else "-"
        )

    timed = [fault for row in rows for fault in row["timed_faults"]]
    told = [row["accuracy"] for row in rows if row["accuracy"]]
    shares = {
        name: [told_of[name] for told_of in told if told_of[name] is not None]
        for name in ("precision", "recall")
    }
    return [
        ("runs", len(rows)),
        ("ended as they should", sum(row["why"] is None for row in rows)),
        ("completed, expected to", sum(row["error"] is None and row["expected"] == "completes" for row in rows)),
        ("failed, expected to", sum(row["error"] is not None and row["expected"] == "fails" for row in rows)),
        ("wrong elements", sum(row["wrong"] for row in rows)),
        ("left on the machine", sum(len(row["leftovers"]) for row in rows)),
        ("longest run", f"{max(row['seconds'] for row in rows):.1f} s"),
        ("to detect", spread([f["detected_s"] for f in timed if f["detected_s"] is not None])),
        ("to recover", spread([f["recovered_s"] for f in timed if f["recovered_s"] is not None])),
        *((name, f"{median(values):.2f} median of {len(values)}" if values else "-") for name, values in shares.items()),
    ]  # fmt: skip
