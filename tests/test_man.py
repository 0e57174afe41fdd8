"""Manual pages: one for each command, all its options in it, and nothing that man complains of."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import click
import pytest

from railweave.framework.cli import COMMANDS, main
from railweave.framework.cli._options import ExperimentCommand

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def man() -> ModuleType:
    spec = importlib.util.spec_from_file_location("manual_pages", ROOT / ".ci" / "man.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(man: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prefix") / "share" / "man"
    man.write(path / "man1")
    return path


def rendered(pages: Path, name: str, columns: int = 300) -> subprocess.CompletedProcess[str]:
    """What `man` shows of a page, which it finds by name."""
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("needs man and groff")
    environment = {**os.environ, "MANPATH": str(pages), "MANWIDTH": str(columns), "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        ["man", "--warnings", name], env=environment, capture_output=True, text=True, check=False
    )


def test_every_command_has_a_page(pages: Path) -> None:
    expected = {"railweave"}
    for name in COMMANDS:
        command = main.get_command(click.Context(main, **main.context_settings), name)
        inner = command.commands if isinstance(command, click.Group) else ()
        expected |= {f"railweave-{name}", *(f"railweave-{name}-{part}" for part in inner)}
    assert {page.stem for page in (pages / "man1").iterdir()} == expected


def test_man_shows_every_page_without_a_warning(pages: Path) -> None:
    for page in sorted((pages / "man1").iterdir()):
        shown = rendered(pages, page.stem, columns=80)
        assert (shown.returncode, shown.stderr) == (0, ""), page.name
        headings = re.findall(r"^[A-Z ]+$", shown.stdout, re.MULTILINE)
        assert headings[:4] == ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"], page.name
        assert "SEE ALSO" in headings and "{engine}" not in shown.stdout


@pytest.mark.parametrize("name", ["compare", "topo-cost", "verify"])
def test_a_page_has_all_options_with_the_words_of_their_help(pages: Path, name: str) -> None:
    text = rendered(pages, f"railweave-{name}").stdout
    command: click.Command = main
    context = click.Context(main, info_name="railweave", **main.context_settings)
    for word in name.split("-"):
        assert isinstance(command, click.Group)
        inner = command.get_command(context, word)
        assert inner is not None
        command, context = inner, click.Context(inner, context, word)
    assert isinstance(command, ExperimentCommand)
    words = " ".join(text.split())
    for option in command.get_params(context):
        if record := option.get_help_record(context):
            assert f"{record[0]} {' '.join(record[1].replace('`', '').split())}" in words


def test_what_roff_would_read_as_its_own_is_escaped(man: ModuleType, tmp_path: Path) -> None:
    awkward = ".so /etc/passwd\n'br\nC:\\temp --x\n"
    (tmp_path / "man1").mkdir()
    (tmp_path / "man1" / "awkward.1").write_text(f".TH AWKWARD 1\n.SH NAME\n.nf\n{man._escaped(awkward)}")
    shown = rendered(tmp_path, "awkward")
    assert [line.strip() for line in shown.stdout.splitlines()[3:6]] == awkward.splitlines()
