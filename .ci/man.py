"""Writes a manual page for each command: `python .ci/man.py DIR`.

A release writes them to .links/man1 before it is built, and its wheel installs them (`data-files`).
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click


class Roff(click.HelpFormatter):
    """What click writes as help, in the macros of man(7)."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        self.write(f".SH SYNOPSIS\n.B {_escaped(prog)}\n{_escaped(args)}\n.SH DESCRIPTION\n")

    def write_heading(self, heading: str) -> None:
        self.write(f".SH {_escaped(heading.upper())}\n")

    def write_paragraph(self) -> None:
        """Headings and write_text begin paragraphs."""

    def write_text(self, text: str) -> None:
        for paragraph in re.split(r"\n\s*\n", text):
            marker, kept, lines = paragraph.partition("\b\n")  # click's mark of lines to keep
            heading = re.match(r"([A-Z][a-z ]+):\s", lines)
            if heading:
                self.write_heading(heading[1])
                lines = lines[heading.end() :]
            elif not kept:
                self.write(".PP\n")
            self.write(
                f".nf\n{_escaped(lines)}\n.fi\n" if kept else f"{_escaped(' '.join(marker.split()))}\n"
            )

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        for term, text in rows:
            self.write(f".TP\n.B {_escaped(term)}\n{_escaped(text)}\n")


def _escaped(text: str) -> str:
    """Text without requests and escapes of roff; what stands in backquotes is bold."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fP", text)
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def pages() -> Iterator[tuple[str, str]]:
    """Name and text of each page."""
    from railweave.framework.cli import COMMANDS, main

    top = click.Context(main, info_name="railweave", terminal_width=10_000, **main.context_settings)
    commands = {name: main.get_command(top, name) for name in COMMANDS}
    yield _page(main, top, main.get_short_help_str(limit=200), commands)
    for name, command in commands.items():
        assert command is not None
        context, inner = click.Context(command, top, name), getattr(command, "commands", {})
        yield _page(command, context, COMMANDS[name], inner)
        for inner_name, part in inner.items():
            summary = part.get_short_help_str(limit=200)
            yield _page(part, click.Context(part, context, inner_name), summary)


def _page(
    command: click.Command, context: click.Context, summary: str, inner: Iterable[str] = ()
) -> tuple[str, str]:
    import railweave
    from railweave.framework.cli._options import EVERYTHING

    context.formatter_class = Roff
    context.meta.pop("railweave.options", None)  # those of the command before
    context.meta[EVERYTHING] = True
    above = [] if context.parent is None else [context.parent.command_path]
    related = [*above, *(f"{context.command_path} {name}" for name in inner)]
    name = context.command_path.replace(" ", "-")
    others = ", ".join(rf"\fB{_escaped(path.replace(' ', '-'))}\fP(1)" for path in related)
    return name, (
        f'.TH {_escaped(name.upper())} 1 "" "railweave {railweave.__version__}" "railweave"\n'
        f".SH NAME\n{_escaped(name)} \\- {_escaped(summary.removesuffix('.'))}\n"
        f"{command.get_help(context)}\n"
        f".SH SEE ALSO\n{others}\n"
    )


def write(into: Path) -> None:
    """One file each, in a directory that is made."""
    into.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (into / f"{name}.1").write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
