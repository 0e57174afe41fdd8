"""`railweave run` around a runner without an engine: events and result are given, and no lab is needed."""

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

from railweave.framework.cli import main
from railweave.framework.cli._options import flag, key_options
from railweave.framework.cli._summary import report
from railweave.framework.cli.run import run as command
from railweave.framework.errors import LabError, RunFailedError
from railweave.framework.experiment.plan import Plan
from railweave.framework.experiment.schema import Experiment
from railweave.framework.model.events import (
    FaultInjected,
    HealthPublished,
    IterationEnded,
    PhaseStarted,
    Progress,
    RoutesChanged,
    RunEvent,
)
from railweave.framework.model.findings import Findings
from railweave.framework.registry import Registers, load_plugins
from railweave.framework.results.directory import RunDirectory
from railweave.framework.results.figures import Bottleneck, Fidelity
from railweave.framework.results.result import RunResult, from_document
from railweave.framework.runs import runner
from tests.fakes.findings import findings

Call = Callable[..., Result]
Emit = Callable[[RunEvent], None]

FILES = ["events.jsonl", "experiment.yaml", "health.npz", "report.html", "result.json"]
EVENTS = (
    PhaseStarted("bring-up", "16 GPUs"),
    Progress(0, 1, 2),
    IterationEnded(0, 1.02, 0),
    FaultInjected(2.0, "at=iter:2 degrade rail:1 to=20%"),
    HealthPublished(2.4, 2, {"rail:1": (1.0, 0.2)}),
    RoutesChanged(2.5, 2, 24, "rail:1 1.00 -> 0.20"),
)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, result: RunResult) -> Iterator[list[Plan]]:
    """The plans that were run; each gives the fixture's result."""
    seen: list[Plan] = []

    def carried_out(plan: Plan, registers: object, directory: object, emit: Emit) -> tuple[Findings, float]:
        seen.append(plan)
        for event in EVENTS:
            emit(event)
        return findings(plan.fabric), 0.5

    monkeypatch.setattr(runner, "_carried_out", carried_out)
    monkeypatch.setattr(runner, "run_result", lambda plan, *_: replace(result, experiment=plan.document()))
    monkeypatch.chdir(tmp_path)
    yield seen


@pytest.fixture
def call(registers: Registers, plans: list[Plan]) -> Call:
    return lambda *words: CliRunner().invoke(main, ["run", *words], obj=registers, prog_name="railweave")


def test_every_key_of_the_experiment_is_an_option_with_its_default() -> None:
    options = {option.name: option for option in key_options(None)}
    assert set(options) == set(Experiment.model_fields) - {"health", "reports"}
    for name, option in options.items():
        assert flag(name) in option.opts and option.help
    assert "[default: 1M]" in (options["size"].help or "")
    assert "[default: at=iter:4 degrade rail:1 to=20%]" in (options["faults"].help or "")
    assert options["feedback"].secondary_opts == ["--no-feedback"] and not options["oracle"].secondary_opts
    assert "One of 256, 512, 1024, 2048, 4096.  [default: 4096]" in (options["path_mtu"].help or "")


@pytest.mark.parametrize(
    ("command", "foreign"),
    [("explain", "--datapath"), ("loads", "--tp"), ("topo", "--tp"), ("verify", "--size"), ("watch", "--tp")],
)
def test_commands_without_an_experiment_list_only_options_that_apply(
    command: str, foreign: str, registers: Registers
) -> None:
    words = [command, "show"] if command == "topo" else [command]
    shown = CliRunner().invoke(main, [*words, "--help-all"], obj=registers)
    assert "--domains" in shown.stdout
    assert foreign not in shown.stdout and "--iterations" not in shown.stdout


@pytest.mark.parametrize(
    ("command", "default", "no_default"),
    [
        ("chaos", "[default: 6]", "--fault"),
        ("what-if", "[default: that of RUN]", "[default: 1M]"),
        ("verify", "[default: none]", "[default: at=iter"),
    ],
)
def test_the_help_names_the_defaults_of_the_command(
    command: str, default: str, no_default: str, registers: Registers
) -> None:
    shown = " ".join(CliRunner().invoke(main, [command, "--help-all"], obj=registers).stdout.split())
    assert default in shown and no_default not in shown


@pytest.mark.parametrize("option", [("--fault", "at=0s down rail:1"), ("--set", "faults=none")])
def test_chaos_takes_no_faults(option: tuple[str, str], registers: Registers) -> None:
    done = CliRunner().invoke(main, ["chaos", *option], obj=registers)
    assert done.exit_code == 2 and "draws its own faults" in done.stderr


@pytest.mark.parametrize(
    ("options", "scale"), [((), 2e-5), (("--topology", "ring"), "auto"), (("--rate-scale", "1e-4"), 1e-4)]
)
def test_chaos_on_another_fabric_has_the_usual_rates(options: tuple[str, ...], scale: float | str) -> None:
    """Those of its own fabric would make an iteration of a ring take ten seconds, and one beyond a slow GPU
    longer than the timeout."""
    words = ["chaos", "--engine", "fluid", "--runs", "1", "--json", *options]
    done = CliRunner().invoke(main, words, obj=load_plugins())
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["experiment"]["rate_scale"] == scale


def test_what_a_run_would_take_is_the_same_document_in_a_file(call: Call, tmp_path: Path) -> None:
    shown = call("--dry-run", "--json", "-")
    done = call("--dry-run", "--json", str(tmp_path / "dry.json"))
    assert done.exit_code == 0, done.output
    assert (tmp_path / "dry.json").read_text() == shown.stdout
    assert json.loads(shown.stdout)["schema"] == {"name": "railweave.dry-run", "version": 1}


def test_the_main_job_needs_no_word(call: Call, plans: list[Plan]) -> None:
    shown = call()
    assert shown.exit_code == 0
    assert len(plans) == 1
    (directory,) = Path("runs").iterdir()
    assert directory.name.endswith("-hscore-rail-only")
    assert sorted(p.name for p in directory.iterdir()) == FILES
    assert yaml.safe_load((directory / "experiment.yaml").read_text())["router"]["name"] == "hscore"
    kinds = [json.loads(line)["kind"] for line in (directory / "events.jsonl").read_text().splitlines()]
    assert kinds == ["phase", "iteration", "fault", "health", "reroute"]
    table, _, rest = shown.stdout.partition("# Collective test concluded")
    assert "algbw" in table
    for words in (
        "before fault 10us declared, busbw 196.61 GB/s (median of 2, 10us to 10us; 1s on the run's clock)",
        "in fault    25us declared, busbw 78.64 GB/s, 2.50 times the healthy time (iteration 2; 2.5s on",
        "after fault 12.5us declared, busbw 157.29 GB/s, 1.25 times the healthy time (iteration 3; 1.25s on",
        "healthy     0.60 of the physical limit, 0.90 of the algorithm's closed form",
        "bottleneck  rail:1 held 61 % of iteration 2, 40 % of all",
        "h rails     0 1.00  1 0.20",
        "reroute     4.50 s: 24 pairs, because rail:1 1.00 -> 0.20",
        "fidelity    pass",
        "up 5.0 s; run 6.0 s; down 0.5 s; 400 MB at most",
        f"written to  {directory}",
    ):
        assert words in rest
    assert "rail:1 1.00 -> 0.20" in shown.stderr


def test_what_packets_would_add_stands_below_the_times(result: RunResult) -> None:
    def line(*shares: float) -> str:
        stated = zip(shares, result.rows, strict=False)
        rows = (replace(row, packet_delay_us=share * row.time_us) for share, row in stated)
        text = report(replace(result, rows=(*rows, *result.rows[len(shares) :])), Path("runs"))
        return next((x for x in text.splitlines() if x.startswith("packets")), "")

    assert line() == ""
    assert line(0.03, 0.03) == "packets     stored and forwarded, would add 3.0 % (docs/fidelity.md)"
    assert line(0.03, 0.006) == "packets     stored and forwarded, would add 0.6 to 3.0 % (docs/fidelity.md)"


def test_the_bottleneck_is_that_of_the_slowest_iteration_that_has_one(result: RunResult) -> None:
    first, slow, overall = result.bottlenecks

    def line(*bottlenecks: Bottleneck) -> str:
        text = report(replace(result, bottlenecks=bottlenecks), Path("runs"))
        return next((x for x in text.splitlines() if x.startswith("bottleneck")), "")

    assert line() == ""
    assert line(first, replace(first, iteration=None)) == (
        "bottleneck  none: no element was measured slow or carried more than its like"
    )
    assert line(slow, overall) == "bottleneck  rail:1 held 61 % of iteration 2"
    alone = replace(slow, element=None, link="g0.1->g0.2")
    assert line(first, alone, overall) == "bottleneck  g0.1->g0.2 held 61 % of iteration 2"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"visible": True}, "links; never seen"),
        ({"visible": False}, "links; no true score left the margin"),
        ({"visible": True, "detected_s": 0.5}, "links; seen after 0.50 s (5us declared), not answered"),
        (
            {"detected_s": 0.5, "recovered_s": 1.25},
            "links; seen after 0.50 s (5us declared), answered after 1.25 s (12.5us declared)",
        ),
    ],
)
def test_a_fault_that_was_never_seen_is_reported(
    changes: dict[str, Any], line: str, result: RunResult
) -> None:
    faulty = replace(result, faults=(replace(result.faults[0], **changes),))
    (shown,) = [x for x in report(faulty, Path("runs")).splitlines() if x.startswith("fault")]
    assert shown == f"fault       2.00 s: degrade rail:1, 32 {line}"


def test_options_reach_the_plan(call: Call, plans: list[Plan]) -> None:
    done = call(
        "--domains",
        "2",
        "--rails",
        "3",
        "--size",
        "96K",
        "--iterations",
        "3",
        "--fault",
        "at=1s down rail:2",
        "--fault",
        "at=iter:2 up rail:2",
        "--rate-scale",
        "1e-5",
        "--no-feedback",
        "--seed",
        "7",
        "--path-mtu",
        "1024",
        "--set",
        "router.same_rail_detour=false",
        "--set",
        "health.dwell=1s",
        "--pcap",
        "g0.0->r0",
    )
    assert done.exit_code == 0, done.stderr
    (plan,) = plans
    asked = plan.experiment
    assert plan.fabric.n_gpus == 6
    assert (asked.size, asked.iterations, asked.rate_scale, asked.seed) == (96 * 1024, 3, 1e-5, 7)
    assert (asked.feedback, asked.path_mtu, asked.health.dwell_s) == (False, 1024, 1.0)
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
    assert plans[0].at_scale(1e-5).document() == plans[1].document()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--domains", "1", "--rails", "1"], "a fabric needs 2 or more"),
        (["--rails", "0"], "--rails: '0' is too small; it takes a whole number, 1 or more."),
        (["--size", "-1"], "--size: '-1' is too small"),
        (["--router", "hscor"], "--router: there is no router 'hscor'"),
        (["--fault", "at=1s down rail:9"], "--fault: 'at=1s down rail:9': there is no rail:9"),
        (["absent.yaml"], "absent.yaml: there is no such file"),
        (["--json", "no/such/dir"], "--json no/such/dir"),
        (["--out", "."], ". is not empty"),
        (["-q", "-v"], "contradict"),
        (["--set", "x"], "is not KEY=VALUE"),
        (["--measure", "queue", "--measure", "probe"], "'--measure': given 2 times: queue, probe. Give one."),
        (["--measure", "queue,probe"], "--measure: 'queue,probe' is not one of"),
        (["--rails", "2", "--rails", "3"], "'--rails': given 2 times: 2, 3. Give one."),
        (["--set", "health.step=1.5"], "--set health.step: '1.5' is not a share"),
        (["--set", "health.step=-5%"], "--set health.step: '-5%' is not a share"),
        (["--fault", "at=1s degrade rail:1 to=120%"], "120%"),
        (["--fault", "at=1s loss rail:1 rate=-0.1"], "-0.1"),
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


@pytest.mark.parametrize(
    ("options", "router", "more"),
    [
        ((), "hscore (chosen; --router hscore or another)", ""),
        (("--router", "hscore"), "hscore", ""),
        (("--oracle",), "hscore (chosen; --router hscore or another)", " · oracle: the router is told"),
        (("--no-feedback",), "hscore (chosen; --router hscore or another)", " · no feedback: measured"),
    ],
)
def test_the_first_line_says_what_runs(call: Call, options: tuple[str, ...], router: str, more: str) -> None:
    first = call(*options).stderr.splitlines()[0]
    head = f"rail-only, 16 GPUs · router {router} · all-reduce of 1M · engine emulation{more}"
    assert first.startswith(head) and bool(more) == ("feedback" in first or "oracle" in first)
    assert call("-q", *options).stderr == ""


def test_an_oracle_run_says_that_the_router_was_told(result: RunResult) -> None:
    told = replace(
        result,
        experiment={**result.experiment, "oracle": True},
        faults=(replace(result.faults[0], detected_s=0.5, recovered_s=0.5),),
    )
    (line,) = [x for x in report(told).splitlines() if x.startswith("fault")]
    assert line.endswith("links; told (oracle), answered after 0.50 s (5us declared)")


def test_notes_of_the_plan_are_told(call: Call) -> None:
    shown = call("--rails", "1")
    assert "no fault in this run; the default does not fit it" in shown.stderr


def test_a_failed_run_exits_with_1_and_writes_no_result(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise LabError("ovs-vswitchd died: last words")

    monkeypatch.setattr(runner, "_carried_out", fails)
    shown = call("--out", "d")
    assert shown.exit_code == 1
    assert shown.stderr.splitlines()[1:] == ["railweave: ovs-vswitchd died: last words"]
    assert [p.name for p in Path("d").iterdir()] == ["experiment.yaml"]
    assert call("-v").stderr.splitlines()[1].startswith("Traceback")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
@pytest.mark.usefixtures("sigint_as_at_a_terminal")
def test_signals_end_the_run_in_order(
    call: Call, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    took_down = []

    def interrupted(*_: object, **__: object) -> None:
        try:
            os.kill(os.getpid(), number)
            signal.sigtimedwait([], 10)
        finally:
            took_down.append(True)
        raise AssertionError("the signal was not raised")

    monkeypatch.setattr(runner, "_carried_out", interrupted)
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
    monkeypatch.setattr(runner, "run_result", lambda *_: invalid)
    shown = call("-q", "--out", "a")
    assert (shown.exit_code, shown.stderr) == (1, "railweave: the run is invalid: faster than physics\n")
    assert Path("a/result.json").exists()
    wrong = replace(result, rows=(*result.rows[:-1], replace(result.summary, wrong=3)))
    monkeypatch.setattr(runner, "run_result", lambda *_: wrong)
    assert call().stderr.endswith("railweave: 3 elements came out wrong; see the rows of the result.\n")


def test_topology_options_are_options_of_the_command(registers: Registers) -> None:
    context = click.Context(command, info_name="run", obj=registers)
    flags = {o for p in command.get_params(context) for o in p.opts}
    assert {"--domains", "--rails", "--rail-rate", "--gpus", "--tp", "--model"} <= flags
    help_text = CliRunner().invoke(main, ["run", "--help-all"], obj=registers).stdout
    assert "Options of topologies:" in help_text and "Options of workloads:" in help_text
    assert help_text.index("--seed") < help_text.index("--rails COUNT")


def test_quiet_does_not_hide_a_degraded_verdict(
    call: Call, monkeypatch: pytest.MonkeyPatch, result: RunResult
) -> None:
    degraded = replace(result, fidelity=Fidelity("degraded", ("the machine was busy",)))
    monkeypatch.setattr(runner, "run_result", lambda *_: degraded)
    shown = call("-q", "--out", "a")
    assert (shown.exit_code, shown.stderr) == (0, "fidelity degraded: the machine was busy\n")


def test_an_interrupted_run_names_the_directory_of_its_events(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", interrupted)
    shown = call("--out", "a")
    assert shown.exit_code == 130
    assert shown.stderr.endswith("railweave: interrupted. The events so far are in a.\n")


def test_a_comparison_calibrates_once_and_prints_its_scale(
    registers: Registers, plans: list[Plan], result: RunResult
) -> None:
    """The first run chooses a rate scale (the fixture's 1e-5), all others are given it."""
    words = ["compare", "--modes", "feedback,no-feedback", "--repeat", "2"]
    shown = CliRunner().invoke(main, words, obj=registers, prog_name="railweave")
    assert shown.exit_code == 0, shown.output
    assert [plan.experiment.rate_scale for plan in plans] == ["auto", 1e-5, 1e-5, 1e-5]
    assert [plan.experiment.feedback for plan in plans] == [True, False] * 2
    assert shown.stdout.splitlines()[-1] == "declared times; rate scale 1e-05 in all runs"
    again = CliRunner().invoke(main, [*words, "--json"], obj=registers, prog_name="railweave")
    assert json.loads(again.stdout)["experiment"]["rate_scale"] == 1e-5
    for directory in Path("runs").glob("*/runs/*"):
        assert yaml.safe_load((directory / "experiment.yaml").read_text())["rate_scale"] == 1e-5


def test_the_number_of_elements_compared_is_printed(result: RunResult) -> None:
    counted = tuple(replace(row, compared=4096, wrong=1) for row in result.rows)
    lines = report(replace(result, rows=counted), Path("runs")).splitlines()
    assert "compared    4096 elements, 1 wrong" in lines


def test_a_full_disk_at_the_end_loses_no_table(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise RunFailedError("cannot write runs/x/result.json: No space left on device.")

    monkeypatch.setattr(RunDirectory, "write_result", full)
    shown = call()
    assert shown.exit_code == 1
    assert "# Collective test concluded" in shown.stdout and "before fault" in shown.stdout
    assert shown.stderr.splitlines()[-1].startswith("railweave: cannot write runs/x/result.json: No space")


def test_links_that_make_up_no_score_are_shown_by_themselves(result: RunResult) -> None:
    """As on a dragonfly from a file, whose links belong to no switch."""
    bare = replace(
        result,
        elements=(),
        health=(replace(result.health[-1], elements={}),),
        links=tuple(replace(link, h_score=0.2 if i == 0 else 1.0) for i, link in enumerate(result.links)),
    )
    (line,) = [x for x in report(bare).splitlines() if x.startswith("h ")]
    assert line == f"h links     {result.links[0].name} 0.20"
