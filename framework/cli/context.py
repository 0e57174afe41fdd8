"""What the commands share: the registers, `-v`, `--json`, plain tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import click

from railweave.framework.cli import VERBOSE
from railweave.framework.registry import Registers, load

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def registers(ctx: click.Context) -> Registers:
    """The registers of everything installed, loaded once per command; a test hands its own over as `obj`."""
    root = ctx.find_root()
    if not isinstance(root.obj, Registers):
        root.obj = load()
    return root.obj


def _verbose(ctx: click.Context, _: click.Parameter, wanted: bool) -> bool:
    if wanted:
        ctx.meta[VERBOSE] = True
    return wanted


verbose_option: Decorator = click.option(
    "-v", "--verbose", is_flag=True, is_eager=True, callback=_verbose, help="Say more; show tracebacks."
)
json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def example(*lines: str) -> str:
    """An epilog that click does not re-wrap."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def print_json(name: str, content: dict[str, object]) -> None:
    """JSON on stdout, with schema name and version as in results."""
    document = {"schema": {"name": f"railweave.{name}", "version": 1}, **content}
    click.echo(json.dumps(document, indent=1, allow_nan=False))


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns aligned left, numbers right; the last column as long as it likes."""
    cells = [[str(c) for c in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    numeric = [bool(rows) and all(isinstance(row[i], int | float) for row in rows) for i in range(len(head))]
    lines = (
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    )
    return "\n".join(lines)
