"""`railweave chaos`: random faults from a seed, run after run, and whether each run ended as expected."""

from statistics import median
from typing import Any

import click

from railweave.framework.api.studies import campaign, scenarios
from railweave.framework.cli._context import example, json_command, print_json, print_text, registers, table
from railweave.framework.cli._options import ExperimentCommand, overrides_of
from railweave.framework.cli._signals import raised_signals
from railweave.framework.cli._study import study_directory
from railweave.framework.errors import RunFailedError
from railweave.framework.experiment.faults import VERBS
from railweave.framework.experiment.plan import load_plan

DEFAULTS: dict[str, object] = {
    "topology.domains": 2,
    "topology.rails": 4,
    "size": "1M",
    "iterations": 6,
    "rate_scale": 2e-5,
    "faults": [],
    "timeout": "60s",
}
"""Defaults of this command: 8 GPUs, and iterations of half a second, long enough that a fault in the last one
can be measured. Its rates are those of its fabric; another one has the usual ones."""


@click.command(
    cls=ExperimentCommand,
    defaults={**DEFAULTS, "topology": "rail-only, of 2 domains x 4 rails"},
    refused=("faults", "jobs"),
    epilog=example(
        "railweave chaos --runs 50 --seed 1",
        "railweave chaos --runs 5 --seed 7 --router spray --json",
        "railweave chaos --runs 100 --engine {engine}",
    ),
)
@click.option("--runs", type=click.IntRange(1), default=10, show_default=True, help="Scenarios to run.")
@json_command
def chaos(ctx: click.Context, /, runs: int, as_json: bool, **_: object) -> None:
    """Draw scenarios of one to three faults (--seed), run each, and check that it ends as the faults imply.

    While every pair keeps a path the run must complete with every element right; otherwise it must fail and
    name the unreachable ranks. Nothing may be left on the machine. The same seed gives the same scenarios on
    an engine; faults that it cannot do are not drawn.
    """
    values, labels = overrides_of(ctx)
    if "faults" in values:
        raise click.BadParameter(
            "chaos draws its own faults; leave it out.", ctx=ctx, param_hint=labels["faults"]
        )
    keys = {**DEFAULTS, **values}
    if "topology" in values:
        own = ("topology.", "rate_scale")
        keys = {key: value for key, value in keys.items() if key in values or not key.startswith(own)}
    plan = load_plan(ctx.params["experiment"], keys, registers(ctx), labels)
    if len(plan.jobs) > 1:
        raise click.BadParameter("chaos knows how a run of one job should end.", ctx=ctx, param_hint="--job")
    seed, iterations = plan.experiment.seed, plan.experiment.iterations
    if iterations < 2:
        text = f"{iterations}: faults fire before the second iteration or a later one, so 2 are the least."
        raise click.BadParameter(text, ctx=ctx, param_hint=labels["iterations"])
    drawn = scenarios(
        plan.fabric, plan.router, plan.on_gpus(plan.schedule), plan.engine,
        runs=runs, seed=seed, iterations=iterations,
    )  # fmt: skip
    if left_out := [name for name in plan.engine.lacks if name.split()[0] in VERBS and "without" not in name]:
        name = plan.experiment.engine.name
        click.echo(f"engine {name} cannot, so chaos does not draw: {', '.join(left_out)}", err=True)

    def told(run: dict[str, Any]) -> None:
        why = run["why"]
        how = "completed" if run["error"] is None else "failed as expected" if why is None else "failed"
        text = f"{'; '.join(run['faults'])}: {how}, {run['seconds']:.1f} s{f' ({why})' if why else ''}"
        click.echo(f"{run['number'] + 1}/{runs} {text}", err=True)

    with raised_signals(), study_directory(f"chaos-{plan.experiment.router.name}") as directory:
        rows = campaign(plan, drawn, directory, registers(ctx), told)
    bad = [row for row in rows if row["why"] is not None]
    if as_json:
        print_json("chaos", 2, experiment=plan.document(), runs=rows, as_expected=len(rows) - len(bad))
    else:
        print_text(table(("what", "figure"), _summary(rows, plan.engine.packets)))
    if bad:
        raise RunFailedError(
            f"{len(bad)} of {runs} runs did not end as expected, first {bad[0]['number']}: {bad[0]['why']}"
        )


def _summary(rows: list[dict[str, Any]], compared: bool) -> list[tuple[str, object]]:
    """`compared`: whether elements were compared."""

    def spread(values: list[float]) -> str:
        return (
            f"{median(values):.2f} s median, {max(values):.2f} s at most, of {len(values)}" if values else "-"
        )

    timed = [fault for row in rows for fault in row["timed_faults"]]
    judged = [row["accuracy"] for row in rows if row["accuracy"]]
    shares = {
        name: [accuracy[name] for accuracy in judged if accuracy[name] is not None]
        for name in ("precision", "recall")
    }
    return [
        ("runs", len(rows)),
        ("ended as expected", sum(row["why"] is None for row in rows)),
        (
            "completed, as expected",
            sum(row["error"] is None and row["expected"] == "completes" for row in rows),
        ),
        ("failed, as expected", sum(row["error"] is not None and row["expected"] == "fails" for row in rows)),
        ("wrong elements", sum(row["wrong"] for row in rows) if compared else "N/A"),
        ("left on the machine", sum(len(row["leftovers"]) for row in rows)),
        ("longest run", f"{max(row['seconds'] for row in rows):.1f} s"),
        ("to detect", spread([f["detected_s"] for f in timed if f["detected_s"] is not None])),
        ("to recover", spread([f["recovered_s"] for f in timed if f["recovered_s"] is not None])),
        *(
            (n, f"{median(values):.2f} median of {len(values)}" if values else "-")
            for n, values in shares.items()
        ),
    ]
