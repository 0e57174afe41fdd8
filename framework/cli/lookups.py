"""Options of the commands that look at routes without a lab: a fabric, a router, faults that have struck."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from railweave.framework.cli.context import registers
from railweave.framework.cli.options import overrides_of

if TYPE_CHECKING:
    from railweave.framework.faults import ResolvedFault
    from railweave.framework.hookspecs import Router
    from railweave.framework.model import Fabric

LOOKED_AT = ("topology", "router", "faults")


def lookup_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --topology, --router, --fault and --set; `looked_up` reads them from `ctx.params`."""
    decorators = [
        click.option("--topology", metavar="NAME", help="Fabric; see `railweave topo list`.  [default: rail-only]"),
        click.option("--router", metavar="NAME", help="Router; see `railweave routers`.  [default: hscore]"),
        click.option(
            "--fault", "faults", metavar="FAULT", multiple=True,
            help="A fault that has struck: VERB OBJECT [key=value], such as 'down rail:1' or 'degrade rail:1 to=20%'; "
            "at= may stand before it and does not matter. May be given several times.",
        ),
        click.option(
            "--set", "assignments", multiple=True, metavar="KEY=VALUE",
            help="Set any option of the fabric or router, such as router.same_rail_detour=false.",
        ),
    ]  # fmt: skip
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def looked_up(ctx: click.Context) -> tuple[Fabric, str, Router, tuple[ResolvedFault, ...]]:
    """The fabric, the router's name, the router, and the faults found in the fabric."""
    from railweave.framework.experiment import build_routed

    values, labels = overrides_of(ctx.params, ctx)
    for key in values:
        if key.split(".")[0] not in LOOKED_AT:
            raise click.BadParameter(f"{key} changes no route.", ctx=ctx, param_hint="--set")
    faults = ctx.params["faults"]
    if faults:
        values["faults"] = [f if f == "none" or f.startswith("at=") else f"at=0s {f}" for f in faults]
    return build_routed(values, labels, registers(ctx))
