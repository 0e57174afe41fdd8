"""What the commands that run a task in a lab of its own share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from railweave.framework.cli._options import plan_of
from railweave.framework.cli._signals import raised_signals
from railweave.framework.model.events import Note, PhaseStarted, RoutesChanged, RunEvent

if TYPE_CHECKING:
    from railweave.framework.experiment.plan import Plan


def plan_without_default_fault(ctx: click.Context) -> Plan:
    """The plan of a command's options, in which no fault occurs unless an option says so."""
    chosen = ctx.params.get("fault") or ctx.params.get("faults")
    return plan_of(ctx, {} if chosen else {"fault": "none"})


def done_in_lab(task: str, message: Mapping[str, Any], *, quiet: bool) -> Any:
    """The result of the lab task; phases, notes and reroutes go to stderr unless `quiet`.

    Raises what the task raised; the lab is gone by then.
    """
    from railweave.framework.lab.plugin import in_lab

    def show(event: RunEvent) -> None:
        match event:
            case PhaseStarted(text=text) | Note(text=text) | RoutesChanged(why=text) if not quiet:
                click.echo(f"{event.kind:<10} {text or ''}", err=True)

    with raised_signals():
        return in_lab(task, message, show)
