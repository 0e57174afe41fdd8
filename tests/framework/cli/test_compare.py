"""`railweave compare` on a model: what its lines and directories say."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from railweave.framework.cli import main
from railweave.framework.errors import MachineError

SMALL = ("--engine", "fluid", "--domains", "2", "--rails", "2", "--iterations", "3", "--repeat", "1")


def test_the_directories_tell_the_modes_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fault = ("--fault", "at=iter:1 degrade rail:1 to=20%")
    shown = CliRunner().invoke(main, ["compare", "--modes", "no-feedback,oracle", *SMALL, *fault])
    assert shown.exit_code == 0, shown.output
    (study,) = Path("runs").iterdir()
    assert study.name.endswith("-compare")
    names = sorted(path.name for path in (study / "runs").iterdir())
    assert names == ["router=hscore,mode=no-feedback", "router=hscore,mode=oracle"]
    assert all((study / "runs" / name / "report.html").is_file() for name in names)


def test_its_directory_is_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which `report` shows, and `sweep` finds complete."""
    monkeypatch.chdir(tmp_path)
    fault = ("--fault", "at=iter:1 degrade rail:1 to=20%")
    shown = CliRunner().invoke(main, ["compare", "--router", "hscore,spray", *SMALL, *fault])
    assert shown.exit_code == 0, shown.output
    (study,) = Path("runs").iterdir()
    again = CliRunner().invoke(main, ["sweep", str(study)])
    assert again.exit_code == 0 and "2 points: 0 computed now, 2 before" in again.stdout, again.output
    report = CliRunner().invoke(main, ["report", str(study)])
    assert report.exit_code == 0 and (study / "figures").is_dir(), report.output


def test_a_run_that_fails_is_told_and_the_others_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a link is down, a run without feedback has no path left."""
    monkeypatch.chdir(tmp_path)
    words = ("--modes", "feedback,no-feedback", "--fault", "at=iter:1 down link:g0.1->r1")
    shown = CliRunner().invoke(main, ["compare", *SMALL, *words])
    assert shown.exit_code == 1 and "1 of 2 failed" in shown.stderr, shown.output
    assert shown.stdout.splitlines()[1].startswith("hscore  ")


def test_nothing_is_left_where_the_machine_lacks_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object, **__: object) -> None:
        raise MachineError("no such thing here. Install it.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("railweave.framework.runs.runner.run", lacking)
    shown = CliRunner().invoke(main, ["compare", *SMALL])
    assert shown.exit_code == 2 and "no such thing here" in shown.output
    assert not [*Path("runs").iterdir()]


@pytest.mark.parametrize("words", [("--modes", "no-feedback"), ("--jobs",)])
def test_off_a_terminal_a_line_a_minute_says_how_far_it_is(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of minutes without length a line for every iteration: three alone, three together, of two jobs."""
    monkeypatch.chdir(tmp_path)
    small = ("--engine", "fluid", "--iterations", "3", "--repeat", "1", "--size", "64K", "--fault", "none")
    quiet = CliRunner().invoke(main, ["compare", *words, *small])
    assert quiet.exit_code == 0 and "iteration 3" not in quiet.output, quiet.output
    monkeypatch.setattr("railweave.framework.cli._context.MINUTE_S", 0.0)
    shown = CliRunner().invoke(main, ["compare", *words, *small])
    assert "    iteration 1\n" in shown.stderr and "    iteration 3\n" in shown.stderr


def test_a_model_says_that_its_jobs_run_in_lockstep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two equal jobs on the same rails each take twice as long there; on a lab it was 1.45 times."""
    monkeypatch.chdir(tmp_path)
    words = ("--engine", "fluid", "--repeat", "1", "--iterations", "3", "--size", "64K")
    shown = CliRunner().invoke(main, ["compare", "--jobs", *words])
    assert shown.exit_code == 0, shown.output
    assert "a model runs equal jobs in lockstep, which is the worst case" in shown.stdout


def test_a_figure_of_the_iterations_shows_routers_and_the_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--router", "hscore,spray", "--fault", "at=iter:1 degrade rail:1 to=20%", "--plot", "a.svg")
    shown = CliRunner().invoke(main, ["compare", *SMALL, *words])
    assert shown.exit_code == 0, shown.output
    text = Path("a.svg").read_text()
    assert text.startswith("<svg") and all(word in text for word in (">hscore<", ">spray<", ">fault<"))
    for wrong in ("a.png", "none/a.svg"):
        refused = CliRunner().invoke(main, ["compare", *SMALL, "--plot", wrong])
        assert refused.exit_code == 2 and "expects a file that ends in .svg" in refused.output
