"""`railweave plugin`: write a new plugin, and check a router."""

from __future__ import annotations

from pathlib import Path

import click

from railweave.framework.cli.context import example, json_option, print_json, registers, verbose_option


@click.group(
    short_help="Write a new plugin, or check a router.",
    epilog=example("railweave plugin new my-router", "railweave plugin check my-router"),
)
def plugin() -> None:
    """Write a new plugin, or check a router. The contract of plugins is docs/plugins.md."""


@plugin.command(epilog=example("railweave plugin new my-router", "pip install -e ./my-router"))
@click.argument("name")
@click.option(
    "--dir", "directory", type=click.Path(path_type=Path), metavar="DIR",
    help="Where to; new or empty.  [default: ./NAME]",
)  # fmt: skip
@verbose_option
@click.pass_context
def new(ctx: click.Context, name: str, directory: Path | None, verbose: bool) -> None:
    """Write an installable package with a router NAME that works: change it from there."""
    from railweave.framework.kit.template import new_plugin

    target = Path(name) if directory is None else directory
    for path in new_plugin(name, target, registers(ctx)):
        click.echo(path)
    click.echo(f"\nNext:\n  pip install -e '{target}'\n  railweave plugin check {name}\n"
               f"  railweave run --router {name}")  # fmt: skip


@plugin.command(
    epilog=example("railweave plugin check hscore", "railweave plugin check spray --set window=blog")
)
@click.argument("name")
@click.option("--lab", is_flag=True, help="Then run it on the lab, on a small fabric of each kind.")
@click.option("--scale/--no-scale", default=True, help="Ask for 1,024 GPUs.  [default: scale]")
@click.option(
    "--set", "assignments", multiple=True, metavar="OPTION=VALUE",
    help="Set an option of the router. May be given several times.",
)  # fmt: skip
@json_option
@verbose_option
@click.pass_context
def check(
    ctx: click.Context, name: str, lab: bool, scale: bool, assignments: tuple[str, ...], as_json: bool, verbose: bool
) -> None:  # fmt: skip
    """Check the router NAME on fabrics of every kind it serves: every pair reached, no loop, live links only, each
    single failure, deadlock, determinism, purity, equal split, time and memory. Exit code 1 if it fails."""
    from railweave.framework.kit.run import check_router

    options: dict[str, object] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise click.BadParameter(
                f"{assignment!r} is not OPTION=VALUE, such as window=blog.", ctx=ctx, param_hint="--set"
            )
        options[key.strip().replace("-", "_")] = value.strip()
    report = check_router(name, registers(ctx), options=options, scale=scale, lab=lab)
    if as_json:
        print_json("plugin.check", report.document())
    else:
        click.echo(report.text())
    if not report.passed:
        ctx.exit(1)
