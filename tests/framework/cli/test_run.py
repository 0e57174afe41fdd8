"""`railweave run` around the runner, whose place a function takes that gives a ready result: no lab is needed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from railweave.framework import runner
from railweave.framework.cli import main
from railweave.framework.cli.options import SPECS
from railweave.framework.cli.run import run as command
from railweave.framework.errors import LabError
from railweave.framework.experiment import Plan
from railweave.framework.experiment_model import Experiment
from railweave.framework.registry import Registers
from railweave.framework.results import Fidelity, RunResult, from_document

Call = Callable[..., Result]
Emit = Callable[[dict[str, Any]], None]

EVENTS = (
    {"kind": "phase", "name": "bring-up", "text": "16 GPUs"},
    {"kind": "progress", "iteration": 0, "done": 1, "total": 2},
    {"kind": "iteration", "iteration": 0, "seconds": 1.02, "wrong": 0},
    {"kind": "fault", "t_s": 2.0, "text": "at=iter:2 degrade rail:1 to=20%"},
    {"kind": "health", "t_s": 2.4, "version": 2, "changes": {"rail:1": [1.0, 0.2]}},
    {"kind": "reroute", "t_s": 2.5, "version": 2, "pairs_changed": 24, "why": "rail:1 1.00 -> 0.20"},
)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, result: RunResult) -> Iterator[list[Plan]]:
    """The plans that were run; each gives the fixture's result."""
    seen: list[Plan] = []

    def instead(plan: Plan, out: object, emit: Emit) -> RunResult:
        seen.append(plan)
        for event in EVENTS:
            emit(dict(event))
        return replace(result, experiment=plan.document())

    monkeypatch.setattr(runner, "run", instead)
    monkeypatch.chdir(tmp_path)
    yield seen


@pytest.fixture
def call(registers: Registers, plans: list[Plan]) -> Call:
    return lambda *words: CliRunner().invoke(main, ["run", *words], obj=registers, prog_name="railweave")


def test_every_key_of_the_experiment_is_an_option_with_its_default() -> None:
    default = Experiment()
    flags = {o for p in command.params for o in p.opts}
    for key in Experiment.model_fields:
        if key not in ("health", "feedback", "oracle"):
            assert next(s for s in SPECS if s.key == key).flag in flags
    assert {s.key for s in SPECS} == set(Experiment.model_fields) - {"health", "feedback", "oracle"}
    said = {s.key: s.default for s in SPECS if s.default}
    assert Experiment.model_validate({**said, "faults": [said["faults"]]}) == default


def test_the_main_job_needs_no_word(call: Call, plans: list[Plan]) -> None:
    shown = call()
    assert shown.exit_code == 0
    assert len(plans) == 1
    (directory,) = Path("runs").iterdir()
    assert directory.name.endswith("-hscore-rail-only")
    assert sorted(p.name for p in directory.iterdir()) == ["events.jsonl", "experiment.yaml", "result.json"]
    assert yaml.safe_load((directory / "experiment.yaml").read_text())["router"]["name"] == "hscore"
    kinds = [json.loads(line)["kind"] for line in (directory / "events.jsonl").read_text().splitlines()]
    assert kinds == ["phase", "iteration", "fault", "health", "reroute"]
    table, _, rest = shown.stdout.partition("# Collective test concluded")
    assert "algbw" in table
    for words in (
        "before fault 1s median of 2",
        "in fault    2.5s (iteration 2)",
        "after fault 1.25s (iteration 3); 1.25 times the healthy time",
        "healthy     0.60 of the physical limit, 0.90 of the algorithm's closed form",
        "h rails     0 1.00  1 0.20",
        "reroute     4.50 s: 24 pairs, because rail:1 1.00 -> 0.20",
        "fidelity    pass",
        "up 5.0 s; run 6.0 s; down 0.5 s; 400 MB at most",
        f"written to  {directory}",
    ):
        assert words in rest
    assert "rail:1 1.00 -> 0.20" in shown.stderr


def test_options_reach_the_plan(call: Call, plans: list[Plan]) -> None:
    done = call(
        "--domains", "2", "--rails", "3", "--size", "96K", "--iterations", "3", "--fault", "at=1s down rail:2",
        "--fault", "at=iter:2 up rail:2", "--rate-scale", "1e-5", "--no-feedback", "--seed", "7", "--path-mtu", "1024",
        "--set", "router.same_rail_detour=false", "--set", "health.dwell=1s", "--pcap", "g0.0->r0",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    (plan,) = plans
    asked = plan.experiment
    assert plan.fabric.n_gpus == 6
    assert (asked.size, asked.iterations, asked.rate_scale, asked.seed) == (96 * 1024, 3, 1e-5, 7)
    assert (asked.feedback, asked.path_mtu, asked.health.dwell) == (False, 1024, 1.0)
    assert [f.verb for f in plan.faults] == ["down", "up"]
    assert asked.router.options["same_rail_detour"] is False
    assert len(plan.pcap_links) == 1


def test_a_file_is_read_and_options_win(call: Call, plans: list[Plan]) -> None:
    Path("e.yaml").write_text("topology: {domains: 2, rails: 2}\nsize: 64K\nfault: none\n")
    assert call("e.yaml", "--size", "4K").exit_code == 0
    assert (plans[0].fabric.n_gpus, plans[0].experiment.size, plans[0].faults) == (4, 4096, ())


def test_the_written_experiment_gives_the_same_plan(call: Call, plans: list[Plan]) -> None:
    assert call("--rails", "2", "--out", "a").exit_code == 0
    assert call("a/experiment.yaml", "--out", "b").exit_code == 0
    assert plans[0].document() == plans[1].document()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--domains", "1", "--rails", "1"], "a fabric needs 2 or more"),
        (["--rails", "0"], "--rails: expects a whole number, 1 or more (got '0')."),
        (["--size", "-1"], "--size: expects a size"),
        (["--router", "hscor"], "--router: there is no router 'hscor'"),
        (["--fault", "at=1s down rail:9"], "--fault: 'at=1s down rail:9': there is no rail:9"),
        (["absent.yaml"], "absent.yaml: there is no such file"),
        (["--json", "no/such/dir"], "--json no/such/dir"),
        (["--out", "."], ". is not empty"),
        (["-q", "-v"], "contradict"),
        (["--set", "x"], "is not KEY=VALUE"),
    ],
)
def test_bad_input_starts_nothing_and_exits_with_2(
    call: Call, plans: list[Plan], words: list[str], text: str
) -> None:
    Path("something").touch()
    shown = call(*words)
    assert shown.exit_code == 2
    assert text in shown.stderr
    assert "Traceback" not in shown.stderr
    assert shown.stdout == ""
    assert plans == []
    assert not Path("runs").exists()


def test_bad_yaml_is_refused_with_its_line(call: Call) -> None:
    Path("e.yaml").write_text("size: 1M\niterations: [\n")
    shown = call("e.yaml")
    assert shown.exit_code == 2
    assert "e.yaml:3:1: not readable as YAML" in shown.stderr


def test_json_on_stdout_leaves_the_talk_to_stderr(call: Call) -> None:
    shown = call("--json", "-")
    assert from_document(json.loads(shown.stdout)).seed == 1
    assert "# Collective test concluded" in shown.stderr
    assert "written to" in shown.stderr


def test_json_into_a_file(call: Call) -> None:
    shown = call("--json", "r.json", "--out", "d")
    assert Path("r.json").read_text() == Path("d/result.json").read_text()
    assert "# Collective test concluded" in shown.stdout


def test_quiet_prints_the_table_alone(call: Call) -> None:
    shown = call("-q")
    assert shown.stderr == ""
    assert shown.stdout.startswith("# nThread")
    assert shown.stdout.rstrip().splitlines()[-1].startswith("# Collective test concluded")


def test_notes_of_the_plan_are_told(call: Call) -> None:
    shown = call("--rails", "1")
    assert "no fault in this run; the default does not fit it" in shown.stderr


def failing(error: BaseException) -> Callable[..., RunResult]:
    def fails(plan: Plan, out: object, emit: Emit) -> RunResult:
        raise error

    return fails


def test_a_failed_run_exits_with_1_and_writes_no_result(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "run", failing(LabError("ovs-vswitchd died: last words")))
    shown = call("--out", "d")
    assert shown.exit_code == 1
    assert shown.stderr == "railweave: ovs-vswitchd died: last words\n"
    assert [p.name for p in Path("d").iterdir()] == ["experiment.yaml"]
    assert call("-v").stderr.startswith("Traceback")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signals_end_the_run_in_order(
    call: Call, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    took_down = []

    def interrupted(plan: Plan, out: object, emit: Emit) -> RunResult:
        try:
            os.kill(os.getpid(), number)
            signal.sigtimedwait([], 10)
        finally:
            took_down.append(True)
        raise AssertionError("the signal was not raised")

    monkeypatch.setattr(runner, "run", interrupted)
    before = signal.getsignal(number)
    shown = call()
    assert shown.exit_code == code
    assert took_down == [True]
    assert "Traceback" not in shown.stderr
    assert signal.getsignal(number) == before


def test_wrong_elements_and_an_invalid_emulation_fail_the_run(
    call: Call, monkeypatch: pytest.MonkeyPatch, result: RunResult
) -> None:
    invalid = replace(result, fidelity=Fidelity("invalid", ("faster than physics",)))
    monkeypatch.setattr(runner, "run", lambda plan, out, emit: invalid)
    shown = call("--out", "a")
    assert (shown.exit_code, shown.stderr) == (1, "railweave: the run is invalid: faster than physics\n")
    assert Path("a/result.json").exists()
    wrong = replace(result, rows=(*result.rows[:-1], replace(result.summary, wrong=3)))
    monkeypatch.setattr(runner, "run", lambda plan, out, emit: wrong)
    assert call().stderr.endswith("railweave: 3 elements came out wrong; see the rows of the result.\n")


def test_topology_options_are_options_of_the_command(registers: Registers) -> None:
    context = click.Context(command, info_name="run", obj=registers)
    flags = {o for p in command.get_params(context) for o in p.opts}
    assert {"--domains", "--rails", "--rail-rate", "--gpus", "--tp", "--model"} <= flags
    help_text = command.get_help(context)
    assert "Options of topologies:" in help_text and "Options of workloads:" in help_text
    assert help_text.index("--seed") < help_text.index("--rails COUNT")
