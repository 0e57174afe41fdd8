"""Where things lie: what import-linter cannot see."""

from __future__ import annotations

import re
from pathlib import Path

from railweave.framework.registry import load_plugins

FRAMEWORK = Path(__file__).parents[2] / "framework"
ELSEWHERE = ("bench/", "lab/plugin.py")
"""Benchmarks of one engine, and where the lab registers itself."""


def test_no_engine_is_named_outside_its_folder_but_the_default() -> None:
    """Commands, studies and pages take engines from the register, by what these say of themselves."""
    names = "|".join(map(re.escape, load_plugins()["engine"]))
    quoted, option = re.compile(rf"""["']({names})["']"""), re.compile(rf"--engine ({names})\b")
    found = [
        (path.relative_to(FRAMEWORK).as_posix(), match[0])
        for path in sorted(FRAMEWORK.rglob("*.py"))
        if not path.relative_to(FRAMEWORK).as_posix().startswith(ELSEWHERE)
        for match in (*quoted.finditer(path.read_text()), *option.finditer(path.read_text()))
    ]
    assert found == [("experiment/schema.py", '"emulation"')]
