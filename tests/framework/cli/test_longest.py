"""A run on the lab that would take hours, or more memory than there is, is refused before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from railweave.framework.cli import main

Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("railweave.framework.runs.runner.machine_bytes", lambda: 16_000_000_000)
    return lambda *words: CliRunner().invoke(main, ["run", *words])


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--size", "10G"),
            "has 16 GB. Lower the size or the number of GPUs, or use `--engine fluid`.",
        ),
        (("--size", "256M"), "the run would take about"),
        (("--longest", "1s"), "and --longest is 1 s."),
    ],
)
def test_a_run_of_hours_is_refused_with_its_time(
    call: Call, more: tuple[str, ...], options: tuple[str, ...], words: str
) -> None:
    """10 GiB on each of 16 ranks are 172 GB; 256 MiB take 256 times the main job's half minute."""
    refused = call(*options, *more)
    assert refused.exit_code == 2 and words in refused.stderr
    assert not Path("runs").exists()


def test_a_longer_time_is_allowed_by_an_option(call: Call) -> None:
    shown = call("--size", "256M", "--longest", "100h", "--dry-run")
    assert shown.exit_code == 0 and "takes about" in shown.stdout
