"""Options of the commands that answer without a lab: fabric, router, faults that have already happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from railweave.framework.cli._context import registers
from railweave.framework.cli._options import overrides_of

if TYPE_CHECKING:
    from railweave.framework.experiment.plan import Routed


def lookup_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --fault and --set for `looked_up`; with `cls=RouteCommand` --topology and --router follow."""
    decorators = [
        click.option(
            "--fault",
            "faults",
            metavar="FAULT",
            multiple=True,
            help="A fault that has already happened: VERB OBJECT [key=value], such as 'down rail:1' or "
            "'degrade rail:1 to=20%'. A leading at= is ignored. May be given several times.",
        ),
        click.option(
            "--set",
            "assignments",
            multiple=True,
            metavar="KEY=VALUE",
            help="Set any option of the fabric or router, such as router.same_rail_detour=false.",
        ),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def looked_up(ctx: click.Context) -> Routed:
    """The fabric, the router and its name, and the faults resolved in the fabric."""
    from railweave.framework.experiment.plan import build_routed

    values, labels = overrides_of(ctx.params, ctx)
    return build_routed(values, labels, registers(ctx))
