"""`railweave watch`: an idle lab, and the lowest health published of it."""

from __future__ import annotations

from typing import Any

import click

from railweave.framework.cli.context import example, json_option, print_json, table, verbose_option
from railweave.framework.cli.inlab import done_in_lab
from railweave.framework.cli.options import ExperimentCommand, experiment_options, plan_of


@click.command(
    cls=ExperimentCommand,
    short_help="Hold a lab without traffic, and say the lowest health published.",
    epilog=example(
        "railweave watch --seconds 60 --measure probe",
        "railweave watch --domains 8 --rails 8 --seconds 60 --measure counters --json",
    ),
)
@experiment_options
@click.option(
    "--seconds", type=click.FloatRange(1, 86400), default=60.0, show_default=True, help="For how long."
)
@json_option
@verbose_option
@click.pass_context
def watch(ctx: click.Context, /, seconds: float, as_json: bool, verbose: bool, **_: object) -> None:
    """Bring the lab up, send nothing, and measure health as a run does. A healthy fabric should score close to 1 all
    the time and move no route; what is lower is the emulator's own delay, or a fault (`--fault`, none by default).
    """
    asked = ctx.params.get("fault") or ctx.params.get("faults")
    plan = plan_of(ctx, {} if asked else {"fault": "none"})

    asked_of = {"document": plan.document(), "seconds": seconds}
    found: dict[str, Any] = done_in_lab("watch", asked_of, quiet=as_json)["findings"]
    if as_json:
        print_json("watch", {"experiment": plan.document(), **found})
        return
    rows = [(name, f"{score:.2f}") for name, score in found["elements"].items()]
    click.echo(table(("element", "lowest score"), rows))
    cpu = ", ".join(f"{name} {share:.1%}" for name, share in found["cpu"].items())
    click.echo(
        f"\nlowest link {found['link']} {found['link_score']:.2f}; {found['measured']} of {found['links']} links "
        f"measured by {plan.experiment.measure}; {found['published']} changes published, "
        f"{len(found['reroutes'])} reroutes in {seconds:g} s\nCPU of one core: {cpu}"
    )
