"""What two engines are compared on; the comparison itself runs on stand-ins for a lab."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from click.testing import CliRunner, Result

import railweave as rw
from railweave.bench import engine_table
from railweave.bench.engine_cases import (
    DEGRADED,
    DOWN,
    QUICK,
    SCENARIOS,
    Case,
    cases,
    drawn,
    keys_of,
)
from railweave.framework.cli import main
from railweave.framework.errors import TransportError
from railweave.framework.experiment.plan import load_plan
from railweave.framework.registry import Registers
from railweave.framework.runs import runner
from tests.fakes.stand_in_engines import with_stand_ins

FEW = [
    Case("rail-only", "hscore", DEGRADED),
    Case("rail-only", "hscore", "two jobs"),
    Case("rail-only", "hscore", " and ".join(drawn(2))),
]


@pytest.fixture(scope="module")
def registers() -> Registers:
    return with_stand_ins()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine_table, "cases", lambda registers, quick: FEW[:2] if quick else FEW)
    yield


def called(registers: Registers, *words: str) -> Result:
    words = ("compare", "--engines", "fluid,slower", *words)
    return CliRunner().invoke(main, list(words), obj=registers, prog_name="railweave")


def test_every_fabric_and_router_meets_every_scenario_it_can(registers: Registers) -> None:
    every = list(cases(registers, quick=False))
    assert {case.fabric for case in every} == {"rail-only", "rail-optimised", "ring", "torus", "fat-tree"}
    assert {case.router for case in every} == set(registers["router"])
    pairs = {(case.fabric, case.router) for case in every}
    missing = {
        (*pair, scenario) for pair in pairs for scenario in SCENARIOS if Case(*pair, scenario) not in every
    }
    assert missing == {("torus", "dor", DOWN)}  # fixed paths, which do not leave what is down
    quick = list(cases(registers, quick=True))
    assert len(quick) == 8 and set(quick) <= set(every)


@pytest.mark.parametrize("words", QUICK)
def test_cases_are_experiments_of_16_gpus_for_both_engines(
    registers: Registers, words: tuple[str, str, str]
) -> None:
    keys = keys_of(Case(*words), registers)
    for engine in ("emulation", "fluid"):
        assert load_plan(None, {**keys, "engine": engine}, registers).fabric.n_gpus == 16


def test_the_link_that_goes_down_carries_data(registers: Registers) -> None:
    """On the first routes of every router; those of `ilp` take a solver."""
    down = [case for case in cases(registers, quick=False) if case.scenario == DOWN and case.router != "ilp"]
    for case in down:
        keys = keys_of(case, registers)
        (fault,) = cast(list[str], keys["faults"])
        run = rw.run(registers=registers, **{**keys, "engine": "fluid", "iterations": 1, "faults": []})
        carried = {link.name: link.bytes for link in run.links}
        assert carried[fault.rpartition("link:")[2]] > 0, case.name


@pytest.mark.parametrize("seed", range(1, 11))
def test_drawn_faults_leave_a_healthy_rail_that_is_not_the_lowest(seed: int) -> None:
    *slow, left = [fault.split() for fault in drawn(seed)]
    rails = [fault[2] for fault in slow]
    assert 1 <= len(slow) <= 2 and left[2] not in rails
    lowest = min({f"rail:{i}" for i in range(4)} - {left[2]})
    assert lowest in rails
    rates = [int(fault[3][len("to=") : -1]) for fault in (left, *slow)]
    assert (
        15 <= rates[0] <= 25 and all(55 <= rate < 85 for rate in rates[1:]) and len(set(rates)) == len(rates)
    )
    assert drawn(seed) == drawn(seed)


@pytest.mark.usefixtures("few")
def test_one_line_for_each_pair_and_each_drawn_scenario(registers: Registers) -> None:
    shown = called(registers, "--all")
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["fabric", "router", "degraded", "link", "down", "two", "jobs"]
    assert lines[1].split()[:4] == ["rail-only", "hscore", "+25.0", "%!"]
    assert "the same choice in 1 of 1" in lines


@pytest.mark.usefixtures("few")
def test_a_comparison_goes_on_where_it_was(registers: Registers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that fails is run again; what it has does not count for another size."""
    first = called(registers, "--quick", "--resume", "study", "--json")
    kept = Path("study/rows.jsonl")
    assert len(kept.read_text().splitlines()) == 1 + 4 and len(json.loads(first.stdout)["rows"]) == 2

    def fails(*_: object) -> None:
        raise TransportError("it broke")

    with monkeypatch.context() as broken:
        broken.setattr(runner, "run", fails)
        rows = json.loads(called(registers, "--all", "--resume", "study", "--json").stdout)["rows"]
    assert rows[:2] == json.loads(first.stdout)["rows"]
    assert rows[2]["agreement"] is None and rows[2]["failed"] == "engine fluid: it broke"
    again = called(registers, "--all", "--resume", "study", "--json")
    assert [row["failed"] for row in json.loads(again.stdout)["rows"]] == ["", "", ""]
    assert len(kept.read_text().splitlines()) == 1 + 4 + 2 + 2
    larger = called(registers, "--quick", "--resume", "study", "--size", "4M")
    assert larger.exit_code == 0 and len(kept.read_text().splitlines()) == 1 + 4 + 2 + 2 + 4
    kept.write_text("{}\n")
    wrong = called(registers, "--all", "--resume", "study")
    assert wrong.exit_code == 2 and "study/rows.jsonl holds no rows of a study" in wrong.output


@pytest.mark.usefixtures("few")
def test_three_engines_and_runs_are_shown_by_stage_and_judged(registers: Registers) -> None:
    """`fluid` has the latency of `late` and is as fast; `slower` takes five fourths of that."""
    words = ("compare", "--engines", "late,fluid,slower", "--quick", "--repeat", "2")
    shown = CliRunner().invoke(main, [*words], obj=registers, prog_name="railweave")
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    head = ["case", "stage", "late", "us", "fluid", "us", "apart", "slower", "us", "apart"]
    assert lines[0].split() == head
    assert lines[1].split()[:4] == ["rail-only", "hscore", "degraded", "before"]
    judged = [line for line in lines if "cases that pass on" in line]
    assert judged[0].startswith("fluid: 2 of 2 cases that pass on late agree")
    assert judged[1].startswith("slower: 0 of 2 cases that pass on fluid agree, 0 of ")
    assert "by more than 10 % apart: rail-only hscore degraded before +2" in judged[1]


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--all", "e.yaml"], "brings its own experiments"),
        (["--all", "--router", "spray"], "Invalid value for --router: --all brings its own"),
        (["--quick", "--topology", "torus"], "Invalid value for --topology: --quick brings its own"),
        (["--all", "--domains", "8"], "Invalid value for --domains: --all brings its own"),
        (["--all", "--fault", "none"], "Invalid value for --fault: --all brings its own"),
        (["--all", "--job", "ranks=all/2"], "Invalid value for --job: --all brings its own"),
        (["--all", "--set", "router=spray"], "Invalid value for --set router: --all brings its own"),
    ],
)
def test_what_means_nothing_is_refused(registers: Registers, words: list[str], message: str) -> None:
    shown = called(registers, *words)
    assert shown.exit_code == 2 and message in shown.output
    unknown = CliRunner().invoke(main, ["compare", "--engines", "fluid,nope", "--quick"], obj=registers)
    assert unknown.exit_code == 2 and "--engines: there is no engine 'nope'; known are" in unknown.stderr
    assert "1/8" not in unknown.stderr
    alone = CliRunner().invoke(main, ["compare", "--quick"], obj=registers, prog_name="railweave")
    assert alone.exit_code == 2 and "needs --engines" in alone.output
