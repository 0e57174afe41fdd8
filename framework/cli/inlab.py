"""A task in a lab of its own, from the command's side: what happens is shown as it comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from railweave.framework.cli.signals import raised_signals


def done_in_lab(task: str, message: Mapping[str, Any], *, quiet: bool) -> Mapping[str, Any]:
    """The `result` message of the lab task; phases, notes and reroutes go to stderr unless `quiet`.

    Raises what the task raised; the lab is gone by then.
    """
    from railweave.framework.lab.plugin import as_error
    from railweave.framework.lab.sandbox import Sandbox

    result: Mapping[str, Any] = {}
    with raised_signals(), Sandbox(task, dict(message)) as lab:
        for event in lab.messages():
            match event["kind"]:
                case "error":
                    raise as_error(event)
                case "result":
                    result = event
                case "phase" | "note" | "reroute" if not quiet:
                    click.echo(f"{event['kind']:<10} {event.get('text') or event.get('why') or ''}", err=True)
    return result
