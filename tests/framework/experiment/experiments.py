"""What the tests of experiments share: a refusal as text, a file with a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.plan import load_plan
from railweave.framework.registry import Registers


def refused(registers: Registers, overrides: dict[str, object], path: Path | None = None) -> str:
    with pytest.raises(ExperimentError) as caught:
        load_plan(path, overrides, registers)
    return str(caught.value)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "exp.yaml"
    path.write_text(text)
    return path
