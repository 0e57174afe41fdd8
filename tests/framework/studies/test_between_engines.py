"""`railweave compare --engines` without a lab: the model against itself, once with all its rates lowered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import railweave as rw
from railweave.framework.cli import main
from railweave.framework.cli._engines import shown
from railweave.framework.errors import InputError, MachineError
from railweave.framework.experiment.plan import Plan
from railweave.framework.hookspecs import hookimpl
from railweave.framework.model import IterationResult
from railweave.framework.registry import Registers
from railweave.framework.runs import runner
from railweave.framework.studies.between_engines import (
    EngineRuns,
    cases_on_engines,
    keys_by_engine,
    run_on_all,
)
from tests.fakes.stand_in_engines import with_stand_ins


@pytest.fixture(scope="module")
def registers() -> Registers:
    return with_stand_ins()


def called(registers: Registers, *words: str) -> Result:
    return CliRunner().invoke(main, ["compare", *words], obj=registers, prog_name="railweave")


def test_links_with_four_fifths_of_their_rates_take_five_fourths_of_the_time(registers: Registers) -> None:
    fault = "at=iter:3 degrade rail:1 to=20%"
    keys = {"registers": registers, "iterations": 8, "faults": fault}
    compared = rw.compare_engines(engines=("fluid", "slower"), **keys)
    before, _, after = compared.stages
    assert before.difference == pytest.approx(0.25) and after.difference == pytest.approx(0.25)
    assert (before.within, after.within, compared.within) == (False, False, False)
    assert compared.score_difference == 0 and compared.chosen[0] == compared.chosen[1]
    same = rw.compare_engines(engines=("slower", "fluid"), **keys)
    assert same.stages[0].difference == pytest.approx(-0.2)  # at the scale of the slower one


def test_the_command_prints_a_table_and_json(
    registers: Registers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = called(registers, "--engines", "fluid,slower", "--iterations", "6")
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["iterations", "fluid:", "slower:", "fluid", "slower", "apart", "within"]
    assert [line.split()[0] for line in lines[1:4]] == ["before", "fault", "after"]
    assert "+25.0 %  NO" in lines[1]
    (study,) = Path("runs").iterdir()
    runs = sorted(path.name for path in (study / "runs").iterdir())
    assert runs == ["engine=fluid", "engine=slower"]
    again = called(registers, "--engines", "fluid,slower", "--iterations", "6", "--resume", str(study))
    assert again.stdout == shown.stdout and again.stderr == ""  # nothing ran
    three = called(registers, "--engines", "late,fluid,slower", "--iterations", "6", "--fault", "none")
    assert three.exit_code == 0, three.output
    heads = [line.split()[1:3] for line in three.stdout.splitlines() if line.startswith("iterations")]
    assert heads == [["late:", "fluid:"], ["fluid:", "slower:"]]
    asked = called(registers, "--engines", "fluid,slower", "--iterations", "6", "--json")
    document = json.loads(asked.stdout)
    assert document["schema"]["name"] == "railweave.compare-engines"
    assert document["agreement"]["within"] is False
    assert document["experiment"]["rate_scale"] == document["agreement"]["rate_scale"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--engines", "fluid"], "expects two or more different ones, such as emulation,fluid (got fluid)"),
        (["--engines", "fluid,fluid"], "(got fluid, fluid)"),
        (["--engines", "fluid,flood"], "flood"),
        (["--engines", "fluid,slower", "--modes", "oracle"], "means nothing with --engines"),
        (["--engines", "fluid,slower", "--size", "1M:4M:x2"], "at one size"),
        (["--engines", "fluid,slower", "--engine", "fluid"], "means nothing with --engines"),
        (["--engines", "fluid,slower", "--program", "true"], "no hosts"),
    ],
)
def test_what_means_nothing_is_refused_before_anything_runs(
    registers: Registers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = called(registers, *words)
    assert shown.exit_code == 2 and message in shown.output
    assert not list(tmp_path.glob("runs/*"))


# -- predictions -----------------------------------------------------------------------------------------
def test_every_iteration_has_its_prediction_and_the_verdict_names_the_element(
    registers: Registers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run takes 5/4 of what is predicted, at the scale that it chose itself."""
    monkeypatch.chdir(tmp_path)
    words = ["run", "--engine", "lab", "--predict", "--iterations", "3", "--fault", "none"]
    shown = CliRunner().invoke(main, words, obj=registers, prog_name="railweave")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.count("1s        800ms      +25.0 %") == 3, shown.stdout
    assert (
        "iteration 0 took 1.25 times what was predicted: rail:0 held 69 % of it, and 2 more by over 15 %"
        in shown.stdout
    )
    (directory,) = Path("runs").iterdir()
    result = rw.read(directory).result
    assert result.fidelity.verdict == "degraded"
    assert [row.predicted_us for row in result.rows] == pytest.approx([8e5] * 4)


def test_means_of_sizes_have_their_own_predictions_and_the_verdict_names_the_job(
    registers: Registers,
) -> None:
    """Everything takes 5/4 of what is predicted."""
    keys = {"engine": "lab", "domains": 2, "rails": 2, "iterations": 2, "predict": True}
    sweep = rw.run(registers=registers, **keys, size="64K:128K:x2")
    jobs = ["name=a ranks=all share=yes", "name=b ranks=all share=yes collective=ring-all-reduce"]
    several = rw.run(registers=registers, **keys, jobs=jobs)
    for result in (sweep, several):
        assert [row.time_us for row in result.rows] == pytest.approx(
            [1.25 * (row.predicted_us or 0) for row in result.rows]
        )
        assert len([row for row in result.rows if row.iteration is None]) == 2
    assert sweep.fidelity.reasons[-1].startswith("iteration 0 took 1.25 times what was predicted")
    assert re.match(r"job [ab]: iteration \d took 1\.25 times what was pred", several.fidelity.reasons[-1])


class Observer:
    """Keeps which hooks were called."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @hookimpl
    def on_run_start(self, experiment: Mapping[str, Any]) -> None:
        self.seen.append("start")

    @hookimpl
    def on_iteration(self, result: IterationResult) -> None:
        self.seen.append("iteration")

    @hookimpl
    def on_run_end(self, result: Mapping[str, Any]) -> None:
        self.seen.append("end")


def test_observers_see_nothing_of_the_prediction() -> None:
    registers, observer = with_stand_ins(), Observer()
    registers.manager.register(observer, "observer")
    result = rw.run(engine="lab", iterations=1, predict=True, registers=registers)
    assert result.rows[0].predicted_us is not None and observer.seen == ["start", "iteration", "end"]


def test_without_a_prediction_the_run_keeps_its_result(
    registers: Registers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(plan: Plan, registers: Registers) -> None:
        if plan.experiment.engine.name == "fluid" and plan.experiment.rate_scale != "auto":
            raise MachineError("too little memory")

    monkeypatch.setattr(runner, "check_memory", full)
    result = rw.run(engine="lab", iterations=1, predict=True, registers=registers)
    assert result.rows[0].predicted_us is None and result.fidelity.verdict == "degraded"
    assert result.notes == ("there is no prediction: too little memory",)


def test_a_refused_prediction_leaves_nothing(registers: Registers, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="computes the run itself"):
        rw.run(engine="fluid", predict=True, registers=registers, out=tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_the_model_takes_the_latency_that_was_measured(registers: Registers) -> None:
    """It is the model itself that stands for the lab, so with its latency the two are equal."""
    keys: dict[str, Any] = {"registers": registers, "iterations": 5, "faults": "at=iter:2 down link:g0.1->r1"}
    compared = rw.compare_engines(engines=("late", "fluid"), **keys)
    assert [stage.difference for stage in compared.stages] == pytest.approx([0, 0, 0], abs=1e-9)
    predicted = rw.run(engine="late", predict=True, **keys)
    assert predicted.fabric.packet_latency_us == pytest.approx(2000)
    assert [row.predicted_us for row in predicted.rows] == pytest.approx([r.time_us for r in predicted.rows])
    without = rw.run(engine="fluid", rate_scale=1e-5, **keys)
    assert without.rows[0].time_us < 0.99 * predicted.rows[0].time_us


def test_every_repeat_of_a_model_draws_anew(registers: Registers, tmp_path: Path) -> None:
    """Packets take the 2 ms of the first engine on average, each as long as it draws: with the same seed two
    runs were one."""
    keys: dict[str, Any] = {"topology": "ring", "nodes": 4, "faults": "none", "iterations": 2, "size": "64K"}
    most = 10**9
    plans = {
        name: rw.load(**keys, registers=registers, engine=name, seed=most) for name in ("late", "packet")
    }
    run_on_all(plans, 3, registers, tmp_path)
    results = [rw.read(path).result for path in sorted((tmp_path / "runs").iterdir())]
    seeds = {name: [r.seed for r in results if r.experiment["engine"]["name"] == name] for name in plans}
    assert {name: sorted(of_one) for name, of_one in seeds.items()} == {
        "late": [most, most, most],
        "packet": [0, 1, most],
    }
    times = {result.rows[0].time_us for result in results if result.experiment["engine"]["name"] == "packet"}
    assert len(times) == 3


def test_congestion_is_printed_as_far_as_engines_know_it(registers: Registers, tmp_path: Path) -> None:
    """Three GPUs send to a fourth at once: `packet` pauses the three links and marks packets, `fluid` has no
    notion of either. Equal flows, so that ranks are served alike on both."""
    keys: dict[str, Any] = {
        "topology": "rail-only", "domains": 4, "rails": 1, "collective": "incast", "size": "4M",
        "iterations": 2, "faults": "none", "registers": registers,
    }  # fmt: skip
    options = {"name": "packet", "pfc": True, "marks": "on", "xoff": "64K"}
    plans = {
        name: rw.load(**keys, engine=engine) for name, engine in (("packet", options), ("fluid", "fluid"))
    }
    (compared,) = run_on_all(plans, 1, registers, tmp_path)
    ours, theirs = compared.congestion
    assert ours.pauses is not None and ours.pauses.links == 3 and 0 < (ours.marked or 0) < 1
    assert (theirs.pauses, theirs.marked, theirs.cnps) == (None, None, None)
    assert ours.fairness == pytest.approx(1, abs=0.01) and theirs.fairness == pytest.approx(1)
    lines = shown(compared).splitlines()
    assert f"pauses: {ours.pauses} and not known" in lines
    assert f"marked: {100 * (ours.marked or 0):.3g} % of packets and not known" in lines
    assert not [line for line in lines if line.startswith("CNPs")]


def test_options_of_an_engine_are_for_those_that_have_them(registers: Registers, tmp_path: Path) -> None:
    """`queue` is one of `packet`, `symmetry` one of `fluid`; both have `packet_latency`."""
    options = {"engine.queue": "fair", "engine.symmetry": "off", "engine.packet_latency": "1ms"}
    keys = {"size": "64K", "iterations": 1, "faults": []}
    with_all = keys_by_engine({**keys, **options}, ("packet", "fluid"), registers)
    assert with_all["packet"] == {**keys, "engine.queue": "fair", "engine.packet_latency": "1ms"}
    assert with_all["fluid"] == {**keys, "engine.symmetry": "off", "engine.packet_latency": "1ms"}
    sweep = cases_on_engines({"small": keys}, ("packet", "fluid"), options, registers)
    runs = EngineRuns(sweep, ("packet", "fluid"), tmp_path, registers)
    runs.carry_out()
    used = [rw.read(path).result.experiment["engine"] for path in sorted((tmp_path / "runs").iterdir())]
    assert [(engine["name"], engine.get("queue"), engine.get("symmetry")) for engine in used] == [
        ("fluid", None, False),
        ("packet", "fair", None),
    ]


def test_an_option_that_no_engine_has_is_refused(registers: Registers) -> None:
    refused = called(registers, "--engines", "packet,fluid", "--set", "engine.tea=green")
    assert refused.exit_code == 2
    assert "--set engine.tea: none of the engines packet, fluid has such an option." in refused.stderr
