"""The commands that pages of docs/ show, and what they print: ```console blocks with `$ ` before a command.

A block whose fence names a file (```yaml title="mine.yaml") is written to that file first. The HTML comment
`<!-- lab -->` above a block of commands says that they bring up a lab.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
_BLOCK = re.compile(
    r'(?:^<!-- (?P<where>lab) -->\n)?^```(?P<kind>console|\w+ title="(?P<file>[\w.-]+)")\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
_NUMBER = re.compile(r"\d[\d.,]*(?:e-?\d+)?")
ANY = "..."
"""A line that stands for any lines; at the end of one, for any rest of it."""


@dataclass(frozen=True)
class Shown:
    """A command of a page and the lines below it."""

    command: str
    lines: list[str]


@dataclass
class Page:
    """Commands in their order, and the files that they need."""

    everywhere: list[Shown] = field(default_factory=list)
    lab: list[Shown] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)


def read(path: Path) -> Page:
    page = Page()
    for block in _BLOCK.finditer(path.read_text()):
        if block["file"]:
            page.files[block["file"]] = block["text"]
            continue
        lines = block["text"].splitlines()
        begins = [i for i, line in enumerate(lines) if line.startswith("$ ")]
        assert begins and begins[0] == 0, f"{path.name}: a block of commands begins with `$ `: {lines[:1]}"
        for a, b in pairwise([*begins, len(lines)]):
            after = next(i for i in range(a, b) if not lines[i].endswith("\\")) + 1
            command = "\n".join(lines[a:after])[2:]
            (page.lab if block["where"] else page.everywhere).append(Shown(command, lines[after:b]))
    return page


def indented(path: Path, command: str) -> list[list[str]]:
    """The arguments of each `railweave COMMAND` that a page shows in an indented block, which is not run."""
    text = re.sub(r"\\\n\s*", " ", path.read_text())
    lines = re.findall(rf"^    (?:\.venv/bin/)?railweave {command}\b(.*)$", text, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def carried_out(command: str, directory: Path) -> list[str]:
    """The lines that a command prints in `directory`, on both streams. AssertionError if it fails."""
    path = (
        f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the environment's commands first
    )
    ran = subprocess.run(
        command, shell=True, cwd=directory, env={**os.environ, "PATH": path}, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert ran.returncode == 0, f"$ {command}\n{ran.stdout}"
    return ran.stdout.splitlines()


def masked(line: str) -> str:
    """Without what differs between machines: numbers, whether they are seconds, minutes or hours of its time,
    the width of columns and rules below headings."""
    numbers = _NUMBER.sub("#", re.sub(r"-{3,}", "---", line))
    return " ".join(re.sub(r"# (?:s|min|h)\b", "# s", numbers).split())


def missing(expected: list[str], printed: list[str]) -> str | None:
    """The first line of `expected` that is not among `printed` where it should be; None if all are. Between
    two lines with `...` between them there may be others, and after the last one where it is `...`."""
    lines = [masked(line) for line in printed]
    at, skips = 0, False
    for text in expected:
        if text == ANY:
            skips = True
            continue
        wanted = masked(text)
        found = next((i for i in range(at, len(lines)) if _agrees(wanted, lines[i])), None)
        if found is None or (not skips and found != at):
            return text
        at, skips = found + 1, False
    return None if skips or at == len(lines) else f"the end, before {printed[at]!r}"


def _agrees(wanted: str, line: str) -> bool:
    return line.startswith(wanted.removesuffix(ANY)) if wanted.endswith(ANY) else line == wanted


def lay_out(page: Page, directory: Path) -> None:
    """What commands find in their directory: the files of the page, and the examples of the project."""
    for name, text in page.files.items():
        (directory / name).write_text(text)
    (directory / "examples").symlink_to(ROOT / "examples")
