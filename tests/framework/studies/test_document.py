"""docs/studies.md says what is so, and the ready studies are ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from railweave.framework.experiment import yaml_reader
from railweave.framework.experiment.plan import plan_from_keys
from railweave.framework.registry import load_plugins
from railweave.framework.studies.figures import MEANINGS
from railweave.framework.studies.sweep_file import COUNTS, OTHERS, read_sweep, sweep_of

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "studies.md").read_text()
READY = sorted((ROOT / "examples" / "studies").glob("*.yaml"))


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_its_file_is_a_sweep_and_its_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (text,) = blocks("yaml")
    assert sweep_of(yaml_reader.parse(text, "the page"), "page").study.count == 2 * 5 * 2 * 5
    for example in blocks("python"):
        exec(compile(example, "docs/studies.md", "exec"), {})  # noqa: S102 - the page is ours


def test_it_lists_every_key_and_every_figure() -> None:
    listed = re.findall(r"^\| `(\w+)`", PAGE, re.MULTILINE)
    assert {*COUNTS, *OTHERS} == {*listed[: len({*COUNTS, *OTHERS})]}
    for name, meaning in MEANINGS.items():
        assert f"| `{name}` | {meaning} |" in PAGE


@pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)
def test_a_ready_study_asks_something_and_its_points_can_be_planned(path: Path) -> None:
    sweep, registers = read_sweep(path), load_plugins()
    assert sweep.question and sweep.judge is not None
    assert f"railweave sweep examples/studies/{path.name}" in path.read_text().splitlines()[0]
    plans = {}
    for point in sweep.study.points():
        key = tuple(map(str, point.settings.values()))
        if key not in plans:
            base, over = sweep.study.keys(point)
            plans[key] = plan_from_keys(over, registers, base=base, written=True)
    assert len(plans) == sweep.study.combinations and all(not p.engine.packets for p in plans.values())


def test_there_are_eight() -> None:
    assert len(READY) == 8
