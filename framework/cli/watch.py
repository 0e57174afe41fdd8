"""`railweave watch`: an idle lab, and the lowest health that is published."""

import click

from railweave.framework.cli._context import example, json_command, print_json, print_text, table
from railweave.framework.cli._in_lab import LAB, done_in_lab


@click.command(
    **LAB,
    epilog=example(
        "railweave watch --seconds 60 --measure probe",
        "railweave watch --domains 8 --rails 8 --seconds 60 --measure counters --json",
    ),
)
@click.option(
    "--seconds", type=click.FloatRange(1, 86400), default=60.0, show_default=True, help="For how long."
)
@json_command
def watch(ctx: click.Context, /, seconds: float, as_json: bool, **_: object) -> None:
    """Bring the lab up, send nothing, and measure health as a run does. A healthy fabric should score close
    to 1 all the time and move no route; what is lower is the emulator's own delay, or a fault (`--fault`,
    none by default).
    """
    plan, figures = done_in_lab(ctx, "watch", quiet=as_json, seconds=seconds)
    if as_json:
        print_json("watch", experiment=plan.document(), **figures)
        return
    rows = [(name, f"{score:.2f}") for name, score in figures["elements"].items()]
    print_text(table(("element", "lowest score"), rows))
    cpu = ", ".join(f"{name} {share:.1%}" for name, share in figures["cpu"].items())
    print_text(
        f"\nlowest link {figures['link']} {figures['link_score']:.2f}; {figures['measured']} of "
        f"{figures['links']} links measured by {plan.experiment.measure}; {figures['published']} changes "
        f"published, {len(figures['reroutes'])} reroutes in {seconds:g} s\nCPU of one core: {cpu}"
    )
