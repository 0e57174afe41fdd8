"""Programs in an experiment: how they are written, and what is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.plan import from_document, load_plan, plan_from_keys
from railweave.framework.experiment.rank_programs import words_of
from railweave.framework.registry import Registers


@pytest.mark.parametrize("value", ["sh -c 'echo two words' x", ["sh", "-c", "echo two words", "x"]])
def test_a_command_is_a_text_or_its_words(value: object) -> None:
    assert words_of(value) == ("sh", "-c", "echo two words", "x")


@pytest.mark.parametrize("value", ["", [], "  ", "sh 'open", 7, {"sh": 1}, [["sh"]], [""], ["a\0b"]])
def test_what_is_no_command_is_refused(value: object) -> None:
    with pytest.raises(ExperimentError):
        words_of(value)


@pytest.mark.parametrize("word", [True, False, 0.5, 1e3])
def test_words_that_can_be_written_in_several_ways_are_refused(word: object) -> None:
    with pytest.raises(ExperimentError, match=f"{word} can be written in several ways. Put that word in"):
        words_of(["sleep", word])
    assert words_of(["sleep", 1, str(word)]) == ("sleep", "1", str(word))


def test_a_plan_with_a_program_schedules_nothing_and_travels(registers: Registers) -> None:
    plan = plan_from_keys(
        {"program": "sh -c true", "ranks": 3, "environment": ["A=b=c"], "domains": 2, "rails": 2}, registers
    )
    assert plan.iterations is None
    assert (plan.schedule.n_ranks, plan.schedule.n_transfers) == (3, 0)
    document = plan.document()
    assert document["program"] == ["sh", "-c", "true"]
    assert not document.keys() & {"collective", "workload", "size", "iterations"}
    again = from_document(document, registers)
    assert again.document() == document and again.experiment.environment == ("A=b=c",)
    assert "program:\n- sh" in plan.yaml()


def test_without_a_program_its_keys_are_not_in_the_document(registers: Registers) -> None:
    document = plan_from_keys({"domains": 2, "rails": 2}, registers).document()
    assert not document.keys() & {"program", "launcher", "ranks", "directory", "environment"}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"program": "no-such-program"}, "program: no-such-program is not a program on PATH"),
        ({"program": "./nothing.py"}, "program: ./nothing.py: there is no such file"),
        ({"program": "./plain.txt"}, "program: ./plain.txt is not executable. Make it so"),
        ({"program": "./folder"}, "program: ./folder is a directory"),
        ({"program": "tool"}, "There is one in .*: give it as ./tool"),
        ({"program": "true", "directory": "nowhere"}, "directory: nowhere is not a directory"),
        ({"program": "true", "ranks": 17}, "ranks: 17 ranks do not fit on 16 GPUs"),
        ({"program": "true", "ranks": 0}, "ranks: .*too small"),
        ({"program": "true", "environment": "WORDS"}, "environment: 'WORDS' is not NAME=VALUE"),
        ({"program": "true", "environment": "RANK=3"}, "environment: RANK is what railweave tells"),
        ({"program": "true", "size": "1M"}, "size: means nothing with a program"),
        ({"program": "true", "collective": "all-reduce"}, "collective: means nothing with a program"),
        ({"program": "true", "launcher": "slurm"}, "launcher: .*direct, mpi"),
        ({"launcher": "mpi"}, "launcher: means nothing without a program"),
        ({"program": "'"}, "program: .*cannot be split into words"),
    ],
)
def test_every_mistake_is_refused_with_its_key(
    keys: dict[str, object],
    message: str,
    registers: Registers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plain.txt").write_text("print()")
    Path("tool").touch(mode=0o755)
    Path("folder").mkdir()
    with pytest.raises(ExperimentError, match=message):
        plan_from_keys(keys, registers)


def test_mpi_without_mpirun_names_the_package(registers: Registers, tmp_path: Path) -> None:
    (tmp_path / "true").touch(mode=0o755)
    keys = {"program": str(tmp_path / "true"), "launcher": "mpi", "environment": f"PATH={tmp_path}"}
    with pytest.raises(ExperimentError, match="openmpi-bin"):
        plan_from_keys(keys, registers)


def test_a_mistake_in_a_file_has_its_line(registers: Registers, tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text("router: hscore\nprogram: [no-such-program, 3]\nranks: 40\n")
    with pytest.raises(ExperimentError) as refused:
        load_plan(file, None, registers)
    assert f"{file}:2:" in str(refused.value) and f"{file}:3:" in str(refused.value)
