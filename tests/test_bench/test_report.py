"""The benchmark of reports measures what a run leaves."""

from __future__ import annotations

from railweave.bench.report import report_times
from railweave.framework.registry import load_plugins


def test_a_row_has_the_time_and_the_size_of_a_report() -> None:
    told: list[str] = []
    (row,) = report_times(load_plugins(), True, told.append)["rows"]
    assert row["gpus"] == 16 and row["seconds"] > 0 and 50_000 < row["bytes"] < 1.5e6
    assert told == ["16 GPUs"]
