"""What the commands share: the registers, `-v`, `--json`, plain tables."""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import wraps
from typing import Any, TextIO

import click

from railweave.framework.cli import VERBOSE
from railweave.framework.registry import PLURALS, Registers, load_plugins

RESULTS = "railweave.results"
"""Key of click's `ctx.meta`: the standard output of a command while it runs."""
MINUTE_S = 60.0
"""Off a terminal, where no bar moves, there is a line of progress so often."""


def registers(ctx: click.Context) -> Registers:
    """The installed plugins, loaded once per command; tests pass their own as `obj`."""
    root = ctx.find_root()
    if not isinstance(root.obj, Registers):
        with redirect_stdout(sys.stderr):
            root.obj = load_plugins()
    return root.obj


def _verbose(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    ctx.meta[VERBOSE] = wanted


def plain_command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds -v, which `ctx.meta[VERBOSE]` holds; the function receives the context. Meanwhile standard output
    is for results (`print_text`), which programs read: what plugins print goes to standard error."""

    @wraps(function)
    def command(ctx: click.Context, /, *args: Any, **kwargs: Any) -> Any:
        ctx.meta.setdefault(RESULTS, sys.stdout)
        with redirect_stdout(sys.stderr):
            return function(ctx, *args, **kwargs)

    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_verbose,
        help="Say more; show tracebacks.",
    )(click.pass_context(command))


def json_command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --json, in `as_json`, to what `plain_command` adds."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(plain_command(function))


def example(*lines: str) -> str:
    """An epilog that click does not re-wrap."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def sentence(text: str) -> str:
    """A help text of the words with which a plugin describes something."""
    return f"{text[:1].upper()}{text[1:]}."


def results_stream() -> TextIO:
    """Where the results of the command go."""
    ctx = click.get_current_context(silent=True)
    if ctx is None or RESULTS not in ctx.meta:
        return sys.stdout
    stream: TextIO = ctx.meta[RESULTS]
    return stream


def print_text(text: object, *, nl: bool = True, err: bool = False) -> None:
    """A result on stdout, or on stderr where stdout has JSON."""
    click.echo(text, sys.stderr if err else results_stream(), nl)


def json_text(name: str, version: int = 1, /, **content: object) -> str:
    """JSON with schema name and version as in results."""
    document = {"schema": {"name": f"railweave.{name}", "version": version}, **content}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def print_json(name: str, version: int = 1, /, **content: object) -> None:
    """The same on stdout."""
    print_text(json_text(name, version, **content), nl=False)


def show_offers(ctx: click.Context, kind: str, *, as_json: bool) -> None:
    """List every object of a kind with its options and their defaults; of routers, the fabrics they serve
    too."""
    serves = kind == "router"
    rows, entries, register = [], [], registers(ctx)[kind]
    for name, plugin in register.items():
        options = ", ".join(f"{p.name}={_yaml(p.written(p.default))}" for p in plugin.parameters) or "-"
        entry = {"options": {p.name: p.default for p in plugin.parameters}, "summary": plugin.summary}
        cells = [options, plugin.summary]
        if serves:
            served, requires = list(plugin.serves) or ["*"], list(plugin.requires)
            entry = {"serves": served, "requires": requires, **entry}
            cells.insert(0, ", ".join(requires if requires and "*" in served else served).replace("*", "all"))
        entries.append({"name": name, **entry, "plugin": register.holders[name]})
        rows.append((name, *cells))
    if as_json:
        print_json(PLURALS[kind], **{PLURALS[kind]: entries})
    else:
        print_text(table((kind, *["fabrics"] * serves, "options", "summary"), rows))


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns of text to the left, of numbers to the right; on a terminal long cells wrap inside their
    column."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for i, title in enumerate(head):
        numeric = bool(rows) and all(isinstance(row[i], int | float) for row in rows)
        grid.add_column(title, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(Text(str(cell)) for cell in row))
    stream = results_stream()
    console = Console(
        file=stream, width=None if stream.isatty() else 10_000, color_system=None, highlight=False
    )
    with console.capture() as captured:
        console.print(grid)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
