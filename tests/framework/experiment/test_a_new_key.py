"""A key of experiments is declared once: one edit brings option, messages, schemas and files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import railweave

BEFORE = "    seed: Annotated["
DECLARATION = """    patience: Annotated[
        float, Key("How long to wait for nothing.", "time", minimum=0, maximum=60, metavar="TIME")
    ] = 1.5
"""
COMMAND = "import sys; from railweave.framework.cli import main; sys.argv[0] = 'railweave'; main()"
Railweave = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def with_the_key(tmp_path_factory: pytest.TempPathFactory) -> Railweave:
    """The command of a copy of railweave in which one more key is declared."""
    home = tmp_path_factory.mktemp("copy")
    shutil.copytree(
        Path(railweave.__file__).parent, home / "railweave", ignore=shutil.ignore_patterns("__pycache__")
    )
    schema = home / "railweave" / "framework" / "experiment" / "schema.py"
    text = schema.read_text()
    assert text.count(BEFORE) == 1
    schema.write_text(text.replace(BEFORE, DECLARATION + BEFORE))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", COMMAND, *words],
            env=os.environ | {"PYTHONPATH": str(home)}, cwd=home, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


def test_it_is_an_option_and_in_both_schemas(with_the_key: Railweave) -> None:
    assert "--patience TIME" in with_the_key("run", "--help-all").stdout
    declared = json.loads(with_the_key("schema", "experiment").stdout)["properties"]["patience"]
    assert declared["description"].startswith("How long to wait for nothing.")
    page = with_the_key("schema", "experiment", "--format", "markdown").stdout
    assert any("`patience`" in line and "1.5" in line for line in page.splitlines())


def test_it_is_checked_and_kept(with_the_key: Railweave, tmp_path: Path) -> None:
    words = ("run", "--engine", "fluid", "--domains", "2", "--rails", "2", "--iterations", "1")
    refused = with_the_key(*words, "--patience", "99s")
    assert refused.returncode == 2 and "patience" in refused.stderr and "60" in refused.stderr
    done = with_the_key(*words, "--patience", "2500ms", "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    kept = (tmp_path / "run" / "experiment.yaml").read_text()
    assert "patience: 2500ms" in kept or "patience: 2.5s" in kept
    again = with_the_key("run", str(tmp_path / "run" / "experiment.yaml"), "--dry-run")
    assert again.returncode == 0, again.stderr


def test_a_mistake_in_its_name_is_corrected(with_the_key: Railweave, tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text("engine: fluid\npatienc: 2s\n")
    refused = with_the_key("run", str(file), "--dry-run")
    assert refused.returncode == 2 and "patience" in refused.stderr and ":2:1:" in refused.stderr
