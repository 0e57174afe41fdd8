"""Points computed by one worker share what they have in common, and their rows do not show it."""

from __future__ import annotations

from typing import Any

from railweave.bench.sweep import FAULTS
from railweave.framework.analysis import limits
from railweave.framework.analysis.limits import alike
from railweave.framework.experiment.settings import LayeredSettings
from railweave.framework.registry import load_plugins
from railweave.framework.studies.computing import Task, computed
from railweave.framework.studies.sweep_file import sweep_of

SMALL: dict[str, Any] = {
    **FAULTS["experiment"],
    "topology": {"name": "rail-only", "domains": 4, "rails": 4},
    "size": "1M",
    "iterations": 4,
}
DRAWN: dict[str, Any] = {
    **FAULTS["drawn"],
    "rail": {"from": 0, "to": 3, "draw": "whole"},
    "domain": {"from": 0, "to": 3, "draw": "whole"},
}


def forget() -> None:
    """What this process has kept of other points."""
    limits._searched.cache_clear()
    alike._kept_ranks_alike.cache_clear()


def test_rows_are_those_of_points_computed_alone_in_any_order() -> None:
    settings = LayeredSettings("test", {**FAULTS, "experiment": SMALL, "drawn": DRAWN, "seeds": 2})
    study, registers = sweep_of(settings, "faults").study, load_plugins()
    tasks = [Task(point.id, *study.keys(point), study.written) for point in study.points()]

    def row(task: Task) -> dict[str, Any]:
        return {key: value for key, value in computed(task, registers).items() if key != "seconds"}

    alone = {}
    for task in tasks:
        forget()
        alone[task.id] = row(task)
    assert len(alone) == 8 and not any("cause" in row for row in alone.values())
    assert len({str(row) for row in alone.values()}) == 8  # a row of another point would show
    for order in (tasks, tasks[::-1]):
        assert [row(task) for task in order] == [alone[task.id] for task in order]
