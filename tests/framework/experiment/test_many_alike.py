"""Errors that are all alike are counted, not listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.plan import load_plan
from railweave.framework.registry import Registers


def message(registers: Registers, tmp_path: Path, text: str) -> str:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(ExperimentError) as refused:
        load_plan(file, {}, registers)
    return str(refused.value)


def test_aliases_are_one_error(registers: Registers, tmp_path: Path) -> None:
    """Nine aliases a line on ten lines, as in a billion laughs."""
    lines = [f"  r{i}: {{x: [{', '.join(['*a'] * 9)}]}}" for i in range(10)]
    text = message(registers, tmp_path, "reports:\n  a: &a {x: y}\n" + "\n".join(lines) + "\n")
    assert text.count("an alias (`*name`) is not read here") == 1


def test_the_first_of_many_alike_are_listed_and_the_rest_counted(
    registers: Registers, tmp_path: Path
) -> None:
    text = message(registers, tmp_path, "faults:\n" + 9 * "  - 5\n")
    assert text.count("expects a word (got 5)") == 3 and text.endswith("And 6 more like it.")
