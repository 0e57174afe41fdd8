"""`health.control_delay`: what the control plane takes from a decision to its rules, in declared time."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

import railweave as rw
from railweave.framework.cli import main
from railweave.framework.results.result import RunResult

KEYS = {
    "engine": "fluid", "domains": 4, "rails": 4, "size": "4M", "iterations": 8, "rate_scale": 6e-6,
    "faults": ["at=iter:1 degrade rail:1 to=20%"],
}  # fmt: skip


@cache
def delayed(delay: str) -> RunResult:
    return rw.run(**KEYS, health={"control_delay": delay})


@pytest.mark.parametrize("delay_us", [10, 100])
def test_the_answer_comes_later_by_exactly_the_delay(delay_us: int) -> None:
    (at_once,), (later,) = (result.faults for result in (delayed("0s"), delayed(f"{delay_us}us")))
    assert later.detected_s == at_once.detected_s
    assert at_once.recovered_s is not None and later.recovered_s is not None
    waited_s = later.recovered_s - at_once.recovered_s
    assert waited_s == pytest.approx(delay_us * 1e-6 / 6e-6, rel=1e-9)


def test_until_then_iterations_take_what_the_fault_makes_them_take() -> None:
    alone = rw.run(**KEYS, feedback=False)
    result = delayed("10ms")
    (fault,) = result.faults
    until_s = float("inf") if fault.recovered_s is None else (fault.t_s or 0.0) + fault.recovered_s
    timed = [row for row in result.rows if row.iteration is not None]
    before = [row for row in timed if row.t_s + row.time_us * 1e-6 < until_s]
    assert len(before) > 2  # two healthy ones at most
    for ours, theirs in zip(before, alone.rows, strict=False):
        assert ours.time_us == pytest.approx(theirs.time_us, rel=1e-9)


def test_the_summary_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--engine", "fluid", "--iterations", "8", "--fault", "at=iter:1 degrade rail:1 to=20%"]
    shown = CliRunner().invoke(main, ["run", *words, "--set", "health.control_delay=1us"])
    assert shown.exit_code == 0, shown.output
    assert "with a control delay of 1us" in shown.stdout
