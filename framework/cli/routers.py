"""`railweave routers`: what decides paths, and on which fabrics."""

from __future__ import annotations

import click

from railweave.framework.cli.context import example, json_option, print_json, registers, table, verbose_option


@click.command(
    short_help="List the routers and the fabrics they serve.", epilog=example("railweave routers --json")
)
@json_option
@verbose_option
@click.pass_context
def routers(ctx: click.Context, as_json: bool, verbose: bool) -> None:
    """List the routers, the fabrics they serve and their options."""
    offers = registers(ctx)["router"].offers()
    if as_json:
        print_json(
            "routers",
            {
                "routers": [
                    {
                        "name": offer.name,
                        "serves": list(offer.thing.serves) or ["*"],
                        "options": {p.name: p.default for p in offer.thing.parameters},
                        "summary": offer.thing.summary,
                        "plugin": offer.holder,
                    }
                    for offer in offers
                ]
            },
        )
        return
    rows = [
        (
            offer.name,
            "all" if not offer.thing.serves or "*" in offer.thing.serves else ", ".join(offer.thing.serves),
            ", ".join(f"{p.name}={_shown(p.default)}" for p in offer.thing.parameters) or "-",
            offer.thing.summary,
        )
        for offer in offers
    ]
    click.echo(table(("router", "serves", "options", "what it does"), rows))


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
