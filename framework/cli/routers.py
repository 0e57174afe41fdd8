"""`railweave routers`: what decides paths, and on which fabrics."""

import click

from railweave.framework.cli._context import example, json_option, show_offers, verbose_option


@click.command(epilog=example("railweave routers --json"))
@json_option
@verbose_option
@click.pass_context
def routers(ctx: click.Context, as_json: bool, verbose: bool) -> None:
    """List the routers, the fabrics they serve and their options."""
    show_offers(ctx, "router", serves=True, as_json=as_json)
