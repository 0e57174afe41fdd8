"""`bench fluid`: the arithmetic of a row by hand, and two small rows from end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from railweave.framework.bench.fluid import FluidCase, fluid, measured, shown
from railweave.framework.errors import NotInstalledError

STAGES = {
    "start_up": 0.4,
    "fabric": 0.1,
    "schedule": 0.2,
    "routes": 0.3,
    "solve": 0.5,
    "write": 0.1,
    "plan": 0.6,
}
FIGURES = {
    "gpus": 16, "stages": STAGES, "one_pass_s": 1e-3, "counts": {"events": 7}, "declared_us": 9.0,
    "total_s": 1.9, "cpu_s": 1.7, "memory_mb": 90.0, "verdict": "pass", "written_mb": 0.1,
}  # fmt: skip


def test_a_line_has_the_stages_and_the_distance_to_one_pass() -> None:
    line = shown(FluidCase("one", {}, 2, 100), FIGURES)
    assert (line["row"], line["solve_s"], line["passes"], line["goal_mb"]) == ("one", 0.5, 500, 100)
    failed = shown(FluidCase("one", {}, 2), {"error": "no room"})
    assert failed.keys() == line.keys() and (failed["error"], failed["solve_s"]) == ("no room", None)


def test_a_row_that_fails_says_why(tmp_path: Path) -> None:
    wrong = measured(FluidCase("wrong", {"topology": "fat-tree", "k": 5}, 1), tmp_path, own_caches=False)
    assert "half of a switch's ports go up" in wrong["error"]


def test_two_small_rows_as_a_wheel_has_them() -> None:
    told: list[str] = []
    figures = fluid("", True, True, told.append)
    for line in figures["rows"]:
        assert "error" not in line, line
        assert line["total_s"] > 0 and line["memory_mb"] > 20 and line["declared_us"] > 0
    assert figures["cold_s"] is None and figures["batch_error"] < 5e-4
    assert told == ["permutation 128 fat-tree", "all-reduce 16x16", "error of batches"]


def test_all_rows_are_in_a_checkout() -> None:
    with pytest.raises(NotInstalledError, match=r"bench fluid without --quick.*tests/bench/ of a checkout"):
        fluid("", True, False, lambda text: None)
