"""`railweave routers`: what decides paths, and on which fabrics."""

import click

from railweave.framework.cli._context import example, json_command, show_offers


@click.command(epilog=example("railweave routers --json"))
@json_command
def routers(ctx: click.Context, as_json: bool) -> None:
    """List the routers, the fabrics they serve and their options."""
    show_offers(ctx, "router", as_json=as_json)
