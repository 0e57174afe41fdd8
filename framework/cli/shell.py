"""`railweave shell`: the lab up, Mininet's prompt inside it."""

import click

from railweave.framework.cli._context import example, plain_command
from railweave.framework.cli._options import ExperimentCommand, plan_of
from railweave.framework.cli._signals import raised_signals


@click.command(
    cls=ExperimentCommand,
    epilog=example("railweave shell --domains 2 --rails 2"),
)
@plain_command
def shell(ctx: click.Context, /, **_: object) -> None:
    """Bring up the lab of an experiment, with its routes installed, and open Mininet's prompt in it.

    Takes the options of `run`. Leaving the prompt takes the lab down.
    """
    plan = plan_of(ctx)
    for note in plan.notes:
        click.echo(f"note: {note}", err=True)

    from railweave.framework.lab.tasks.shell import shell as open_shell

    with raised_signals():
        open_shell(plan)
