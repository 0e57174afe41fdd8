"""`railweave shell`: the lab up, Mininet's prompt inside it."""

import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Any

import click

from railweave.framework.cli._context import example, plain_command
from railweave.framework.cli._options import ExperimentCommand, plan_of
from railweave.framework.cli._signals import raised_signals
from railweave.framework.model.events import RunEvent
from railweave.framework.results.result import RunResult


@click.command(
    cls=ExperimentCommand,
    defaults={"faults": "none"},
    epilog=example("railweave shell --domains 2 --rails 2", "echo pingall | railweave shell"),
)
@plain_command
def shell(ctx: click.Context, /, **_: object) -> None:
    """Bring up the lab of an experiment, with its routes installed and its health measured, and open
    Mininet's prompt in it.

    Takes the options of `run`. Leaving the prompt takes the lab down. Commands may be piped in; the exit code
    is then 1 if one of them fails.
    """
    plan = plan_of(ctx, {} if ctx.params["faults"] else {"fault": "none"})
    for note in plan.notes:
        click.echo(f"note: {note}", err=True)

    from railweave.framework.api import labs

    with raised_signals():
        status = labs.shell(plan, __name__)
    ctx.exit(status)


def task(message: Mapping[str, Any], _emit: Callable[[RunEvent], None]) -> int:
    """The lab's task: what the prompt shows is what `railweave run` would."""
    from railweave.framework.api.labs import hold_prompt
    from railweave.framework.cli._live import describe
    from railweave.framework.cli._summary import report
    from railweave.framework.results.nccl_table import nccl_table

    def reported(result: RunResult) -> str:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        return f"{nccl_table(result, columns)}\n{report(result)}"

    return hold_prompt(message, lambda event: describe(event, None), reported)
