"""Scenarios from a seed, and what they should end in: by the fabric that their faults leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.cli import main
from railweave.framework.experiment.faults import parse, resolve, steps
from railweave.framework.experiment.plan import Plan, load_plan
from railweave.framework.registry import load_plugins as registers
from railweave.framework.studies.campaigns import ChaosRun, Scenario
from railweave.framework.studies.chaos import (
    COMPLETES,
    FAILS,
    cut_for_good,
    judge,
    scenarios,
)
from railweave.framework.studies.leftovers import MARK, footprint

REGISTERS = registers()


def plan(**overrides: object) -> Plan:
    small = {"topology.domains": 2, "topology.rails": 4, "faults": [], "size": "64K"}
    return load_plan(None, {**small, **overrides}, REGISTERS)


PLAN = plan()


def cut(*faults: str, at: Plan = PLAN) -> tuple[str, ...]:
    return cut_for_good(at.fabric, at.router, at.schedule, faults)


def draw(of: Plan = PLAN, **numbers: int) -> list[Scenario]:
    return scenarios(of.fabric, of.router, of.schedule, of.engine, **numbers)


@given(st.integers(0, 10**9), st.integers(2, 9))
@settings(max_examples=30)
def test_the_same_seed_gives_the_same_and_every_fault_fits(seed: int, iterations: int) -> None:
    drawn = draw(runs=4, seed=seed, iterations=iterations)
    again = draw(runs=2, seed=seed, iterations=iterations)
    assert drawn[:2] == again
    for scenario in drawn:
        assert 1 <= len(scenario.faults) <= 3
        assert (scenario.expected == FAILS) == bool(scenario.cut)
        for text in scenario.faults:
            assert 1 <= (parse(text).at_iteration or 0) < iterations
            assert all(resolve(step, PLAN.fabric) for step in steps(parse(text)))


def test_what_an_engine_cannot_do_is_not_drawn_for_it() -> None:
    on_lab, on_model = (draw(of, runs=60, seed=1, iterations=6) for of in (PLAN, plan(engine="fluid")))
    impossible = ("reorder", "duplicate", "kill controller")  # docs/fluid.md, "What it refuses"
    able = [not any(f" {name}" in text for name in impossible for text in s.faults) for s in on_lab]
    assert 10 < sum(able) < 50
    assert [one == other for one, other in zip(on_lab, on_model, strict=True)] == able
    assert not any(f" {name}" in text for name in impossible for s in on_model for text in s.faults)


def test_a_campaign_on_the_model_runs_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["chaos", "--engine", "fluid", "--runs", "6", "--seed", "20261123", "--json"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith(
        "engine fluid cannot, so chaos does not draw: reorder, duplicate, kill controller\n"
    )
    assert json.loads(result.stdout)["as_expected"] == 6


def test_one_iteration_leaves_no_time_for_a_fault() -> None:
    result = CliRunner().invoke(main, ["chaos", "--engine", "fluid", "--iterations", "1"])
    assert result.exit_code == 2 and "--iterations: 1: faults fire before" in result.output


@pytest.mark.parametrize(
    ("faults", "names"),
    [
        (["at=iter:1 down gpu:0.1"], "g0.1"),
        (["at=iter:1 down nic:0.1", "at=iter:2 down link:g0.1->d0"], "g0.1"),
        (["at=iter:1 down domain:0", "at=iter:2 down domain:1"], "g0.0"),
    ],
)
def test_a_gpu_without_a_cable_is_cut_for_good(faults: list[str], names: str) -> None:
    assert names in cut(*faults)


@pytest.mark.parametrize(
    "faults",
    [
        ["at=iter:1 down rail:2"],
        ["at=iter:1 down domain:0"],
        ["at=iter:1 down nic:0.1"],
        ["at=iter:1 flap gpu:0.1 period=500ms times=3"],  # up again by the clock
        ["at=iter:1 kill switch:d0 back=1s", "at=iter:2 kill controller"],
        ["at=iter:1 loss rail:0 rate=5%", "at=iter:1 reorder rail:1 rate=5%"],
    ],
)
def test_where_a_path_is_left_nobody_is_cut(faults: list[str]) -> None:
    assert cut(*faults) == ()


def test_a_repair_that_waits_for_an_iteration_never_comes() -> None:
    assert cut("at=iter:1 down gpu:0.1", "at=iter:3 up gpu:0.1")


def test_a_torus_loses_optical_switches() -> None:
    asked = {
        "topology": "torus",
        "router": "wfr",
        "collective": "ring-all-reduce",
        "faults": [],
        "size": "64K",
    }
    torus = load_plan(None, asked, REGISTERS)
    drawn = draw(torus, runs=40, seed=3, iterations=3)
    assert any("ocs:" in text for scenario in drawn for text in scenario.faults)
    assert not any("rail:" in text or "nic:" in text for scenario in drawn for text in scenario.faults)


HOLDS = ChaosRun(0, (), COMPLETES, (), None, 0, "pass", 1.0, (), (), None, None)
BREAKS = replace(HOLDS, expected=FAILS, cut=("g0.1", "g1.1"))


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (HOLDS, None),
        (replace(HOLDS, verdict="degraded"), None),
        (replace(HOLDS, verdict="invalid"), "physical limit"),
        (replace(HOLDS, wrong=3), "3 elements came out wrong"),
        (replace(HOLDS, error="LabError: x"), "failed: LabError: x"),
        (replace(HOLDS, leftovers=("process 1",)), "left behind: process 1"),
        (replace(BREAKS, error="the cut ranks: g1.1"), None),
        (replace(BREAKS, error="something else"), "did not name the cut ranks"),
        (BREAKS, "no path was left"),
    ],
)
def test_an_end_is_judged(run: ChaosRun, why: str | None) -> None:
    found = judge(run)
    assert found is None if why is None else why in (found or "")


def test_what_is_left_running_is_found_by_its_mark() -> None:
    before = footprint("here")
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["cat"], env={**os.environ, MARK: "here"}, bufsize=0, **ends) as child:
        child.stdin.write(b"x")
        assert (
            child.stdout.read(1) == b"x"
        )  # it runs: /proc shows no environment of a process that just began
        left = footprint("here") - before
        child.kill()
    assert left == {f"process {child.pid} (cat)"}


@pytest.mark.lab
def test_a_short_campaign_ends_as_it_should(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("railweave")), "chaos", "--runs", "4", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "ended as expected       4" in done.stdout
