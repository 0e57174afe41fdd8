"""`railweave plugin`: write a new plugin, and check one."""

import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from railweave.framework.cli import _context
from railweave.framework.cli._context import (
    example,
    json_command,
    plain_command,
    print_json,
    print_text,
    registers,
)

if TYPE_CHECKING:
    from railweave.framework.kit.check_report import Outcome

KINDS_TO_WRITE = (
    *("router", "topology", "collective", "workload", "estimator", "chooser", "congestion-control"),
    *("report", "observer"),
)


@click.group(epilog=example("railweave plugin new my-router", "railweave plugin check my-router"))
def plugin() -> None:
    """Write a new plugin, or check one. The contract of plugins is docs/plugins.md."""


@plugin.command(
    short_help="Write an installable package with a plugin that works.",
    epilog=example("railweave plugin new my-router", "railweave plugin new my-fabric --kind topology"),
)
@click.argument("name")
@click.option(
    "--kind", type=click.Choice(KINDS_TO_WRITE), default="router", help="What to write.  [default: router]"
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to; new or empty.  [default: ./NAME]",
)
@plain_command
def new(ctx: click.Context, name: str, kind: str, directory: Path | None) -> None:
    """Write an installable package with a plugin NAME that works: change it from there."""
    from railweave.framework.kit.template import USES, filled, new_plugin

    target = Path(name) if directory is None else directory
    for path in new_plugin(kind, name, target, registers(ctx)):
        print_text(path)
    install = shlex.join([sys.executable, "-m", "pip", "install", "-e", str(target)])
    print_text(f"\nNext:\n  {install}\n  railweave plugin check {name}\n  {filled(USES[kind], kind, name)}")


@plugin.command(
    epilog=example("railweave plugin check hscore", "railweave plugin check spray --set window=blog")
)
@click.argument("name")
@click.option(
    "--kind", metavar="KIND", help="What NAME is, where several kinds have it; see `railweave plugins`."
)
@click.option(
    "--lab",
    is_flag=True,
    help="Routers: then run it on the lab, on a small fabric of each kind. Engines: run one that brings up "
    "labs.",
)
@click.option(
    "--topology",
    "fabrics",
    multiple=True,
    metavar="NAME",
    help="Check on this fabric, such as file:FABRIC.yaml, in place of every topology's examples. May be "
    "given several times.",
)
@click.option("--scale/--no-scale", default=True, help="Routers: ask for 1,024 GPUs.  [default: scale]")
@click.option(
    "--run", type=click.Path(path_type=Path), metavar="DIR", help="Reports: the finished run to write from."
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="OPTION=VALUE",
    help="Set an option of the plugin. May be given several times.",
)
@json_command
def check(
    ctx: click.Context,
    name: str,
    kind: str | None,
    lab: bool,
    fabrics: tuple[str, ...],
    scale: bool,
    run: Path | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check the plugin NAME on fabrics of every kind it serves. Exit code 1 if it fails.

    A router: every pair reached, no loop, live links only, each single failure, deadlock, determinism,
    purity, equal split, time and memory. A topology: its examples. A collective or workload: schedules,
    inputs, and every element after the transfers ran in memory. An estimator: scores of 0..1. A report: what
    it writes. An observer: its hooks. An engine: refusals, one transfer at line rate, bytes, faults, Ctrl-C.
    """
    from railweave.framework.kit.plugin_check import check_plugin, kind_of

    options: dict[str, object] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise click.BadParameter(
                f"{assignment!r} is not OPTION=VALUE, such as window=blog.", ctx=ctx, param_hint="--set"
            )
        options[key.strip().replace("-", "_")] = value.strip()
    plugins = registers(ctx)
    kinds = [*(register.kind for register in plugins), "observer"]
    if kind is not None and kind not in kinds:
        raise click.BadParameter(
            f"{kind!r} is not a kind; they are: {', '.join(kinds)}.", ctx=ctx, param_hint="--kind"
        )
    kind = kind or kind_of(name, plugins)
    show_outcome, progress = _lines(quiet=as_json)
    report = check_plugin(
        kind, name, plugins, options=options, scale=scale, lab=lab, run=run, fabrics=fabrics,
        told=show_outcome, progress=progress,
    )  # fmt: skip
    if as_json:
        print_json("plugin.check", **report.document())
    else:
        print_text(report.verdict)
    if not report.passed:
        ctx.exit(1)


def _lines(*, quiet: bool) -> tuple[Callable[["Outcome"], None], Callable[[str], None]]:
    """Print each outcome as it comes, and what is being checked: on a terminal in a line that the next one
    replaces, elsewhere once a minute."""
    terminal, said_s = sys.stderr.isatty(), time.monotonic()
    clear = "\r\033[K" if terminal else ""

    def show_outcome(outcome: "Outcome") -> None:
        click.echo(clear, nl=False, err=True)
        if not quiet:
            print_text(outcome.text())

    def progress(text: str) -> None:
        nonlocal said_s
        if terminal or time.monotonic() - said_s >= _context.MINUTE_S:
            said_s = time.monotonic()
            click.echo(f"{clear}{text} ...", nl=not terminal, err=True)

    return show_outcome, progress
