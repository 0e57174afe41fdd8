"""The tutorial and the how-to pages: their commands do what stands below them, numbers apart."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from railweave.framework.api import installed
from railweave.framework.cli import main
from railweave.framework.cli._options import plan_of
from railweave.framework.cli.run import run
from tests.pages import PAGES, ROOT, Shown, carried_out, indented, lay_out, masked, missing, read

REGISTERS = installed()
BY_NAME = {path.stem: read(path) for path in PAGES}


def hold(shown: list[Shown], directory: Path) -> None:
    for command in shown:
        printed = carried_out(command.command, directory)
        line = missing(command.lines, printed)
        assert line is None, f"$ {command.command}\nis to print {line!r}, and prints\n" + "\n".join(printed)


@pytest.mark.parametrize("name", [name for name, page in BY_NAME.items() if page.everywhere])
def test_commands_that_need_no_lab_print_what_stands_there(name: str, tmp_path: Path) -> None:
    lay_out(BY_NAME[name], tmp_path)
    hold(BY_NAME[name].everywhere, tmp_path)


@pytest.mark.lab
@pytest.mark.untimed
@pytest.mark.parametrize("name", [name for name, page in BY_NAME.items() if page.lab])
def test_commands_that_bring_up_a_lab_do_too(name: str, tmp_path: Path) -> None:
    lay_out(BY_NAME[name], tmp_path)
    hold(BY_NAME[name].lab, tmp_path)


THE_READERS = ("--plugin", "my-router", "allreduce.xml", "chakra:DIR", "./solver", "experiment.yaml")
"""Ends of words in commands that need a file of the reader's, or load one."""


@pytest.mark.parametrize(
    "words",
    [
        words
        for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
        for words in indented(path, "run")
        if not any(word.endswith(THE_READERS) for word in words)
    ],
    ids=" ".join,
)
def test_runs_that_pages_only_show_are_experiments(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Options, faults, fabrics, all that is checked before anything starts."""
    monkeypatch.chdir(ROOT)
    with run.make_context(
        "run", words, parent=click.Context(main, obj=REGISTERS, **main.context_settings)
    ) as context:
        assert plan_of(context).fabric.n_gpus > 0


def test_the_comparison_masks_numbers_and_nothing_else() -> None:
    printed = ["a  1.50 us", "b 2", "c", "d"]
    assert masked("rail:1   0.22 ->  1e-05") == "rail:# # -> #"
    assert masked("about 3 min, in 1 h") == masked("about 20 s, in 2 min") == "about # s, in # s"
    assert missing(["a 7 us", "...", "c", "d"], printed) is None
    assert missing(["a 7 us", "..."], printed) is None
    assert missing(["a ...", "b 3", "c", "d"], printed) is None
    assert missing(["a 7 ms", "..."], printed) == "a 7 ms"
    assert missing(["a 7 us", "c", "d"], printed) == "c"
    assert missing(["...", "c"], printed) == "the end, before 'd'"
    assert missing(["...", "c", "...", "b 2"], printed) == "b 2"


def test_every_page_is_reached_from_the_tutorial() -> None:
    tutorial = PAGES[0].read_text()
    assert [path.name for path in PAGES[1:] if f"how-to/{path.name}" not in tutorial] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = [path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md"]
    assert [name for name in pages if f"({name})" not in index] == []


LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_that_are_there(path: Path) -> None:
    assert [link for link in LINK.findall(path.read_text()) if not (path.parent / link).exists()] == []


def test_health_is_told_in_2500_words() -> None:
    """Figures are in docs/health-figures.md, which a script makes."""
    assert len((ROOT / "docs" / "health.md").read_text().split()) <= 2500


def test_the_changelog_has_a_line_an_entry() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    assert [line for line in lines if len(line) > 120 or line.startswith(" ")] == []
    releases = [line for line in lines if line.startswith("## ")]
    assert releases[0] == "## Unreleased" and releases[1].startswith("## 0.1.0")
