"""`bench fluid`: its rows can be planned, its arithmetic by hand, and two small rows from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from railweave.framework.bench.fluid import exponents, fluid, measured, shown
from railweave.framework.bench.fluid_rows import GROWTH, QUICK, ROWS, Row
from railweave.framework.cli import main
from railweave.framework.errors import InputError

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
    line = shown(Row("one", {}, 2, 100), FIGURES)
    assert (line["row"], line["solve_s"], line["passes"], line["goal_mb"]) == ("one", 0.5, 500, 100)
    failed = shown(Row("one", {}, 2), {"error": "no room"})
    assert failed.keys() == line.keys() and (failed["error"], failed["solve_s"]) == ("no room", None)


def test_exponents_are_slopes_between_logarithms() -> None:
    """Four times the GPUs, sixteen times the seconds, twice the memory: exponents 2 and 1/2."""
    runs = [
        {"gpus": g, "cpu_s": s, "memory_mb": m}
        for g, s, m in ((64, 1.0, 50), (128, 3.0, 70), (256, 16.0, 100))
    ]
    grown = exponents(runs)
    assert (grown["cpu_s_exponent"], grown["memory_mb_exponent"]) == pytest.approx((2.0, 0.5))
    assert exponents([*runs, {"error": "killed"}]) == {"error": "killed"}


def test_gpus_double_in_every_family() -> None:
    for members in GROWTH.values():
        assert len({json.dumps(row.keys) for row in members}) == len(members) == 3


def test_rows_by_words_and_a_wrong_word() -> None:
    with pytest.raises(InputError, match="no row has 'toruss' in its name"):
        fluid("torus,toruss", False, False, lambda text: None)
    assert len({row.name for row in (*ROWS, *QUICK)}) == len(ROWS) + len(QUICK)


def test_a_row_that_fails_says_why(tmp_path: Path) -> None:
    wrong = measured(Row("wrong", {"topology": "fat-tree", "k": 5}, 1), tmp_path, own_caches=False)
    assert "half of a switch's ports go up" in wrong["error"]


def test_two_small_rows_from_the_command() -> None:
    done = CliRunner().invoke(main, ["bench", "fluid", "--quick", "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    for line in document["rows"]:
        assert "error" not in line, line
        assert line["total_s"] > 0 and line["memory_mb"] > 20 and line["declared_us"] > 0
    assert document["cold_s"] is None and document["batch_error"] < 5e-4
