"""`railweave plugins`: everything that was registered, and by whom."""

import click

from railweave.framework.cli._context import example, json_command, print_json, print_text, registers, table


@click.command(epilog=example("railweave plugins --kind collective"))
@click.option("--kind", metavar="KIND", help="Only this kind, such as topology or router.")
@json_command
def plugins(ctx: click.Context, kind: str | None, as_json: bool) -> None:
    """List everything that plugins offer: kind, name, the plugin that holds it, what it is."""
    offered = registers(ctx)
    kinds = [register.kind for register in offered]
    if kind is not None and kind not in kinds:
        raise click.BadParameter(
            f"{kind!r} is not a kind; they are: {', '.join(kinds)}.", ctx=ctx, param_hint="--kind"
        )
    rows = [
        (register.kind, name, register.holders[name], plugin.summary)
        for register in offered
        if kind in (None, register.kind)
        for name, plugin in register.items()
    ]
    if as_json:
        names = ("kind", "name", "plugin", "summary")
        print_json("plugins", plugins=[dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_text(table(("kind", "name", "plugin", "what it is"), rows))
