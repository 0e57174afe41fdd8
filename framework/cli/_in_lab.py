"""What the commands that run a task in a lab of its own share."""

from collections.abc import Mapping
from typing import Any

import click

from railweave.framework.api import labs
from railweave.framework.cli._options import ExperimentCommand, plan_of
from railweave.framework.cli._signals import raised_signals
from railweave.framework.experiment.plan import Plan
from railweave.framework.model.events import Note, PhaseStarted, RoutesChanged, RunEvent

LAB: Mapping[str, Any] = {
    "cls": ExperimentCommand,
    "keys": (
        "topology", "router", "collective", "faults", "feedback", "oracle", "estimator", "measure",
        "controller", "engine", "rate_scale", "seed",
    ),
    "kinds": ("topology", "engine"),
    "defaults": {"faults": "none"},
}  # fmt: skip
"""What makes a command one about a lab in which no experiment runs."""


def done_in_lab(ctx: click.Context, task: str, *, quiet: bool, **message: object) -> tuple[Plan, Any]:
    """The plan of a command's options, in which no fault occurs unless an option says so, and the result of
    the lab task on it; phases, notes and reroutes go to stderr unless `quiet`.

    Raises what the task raised; the lab is gone by then.
    """
    plan = plan_of(ctx, {} if ctx.params["faults"] else {"fault": "none"})
    plan.check_lab()

    def show(event: RunEvent) -> None:
        match event:
            case PhaseStarted(text=text) | Note(text=text) | RoutesChanged(why=text) if not quiet:
                click.echo(f"{event.kind:<10} {text or ''}", err=True)

    with raised_signals():
        return plan, labs.done(task, plan, show, **message)
