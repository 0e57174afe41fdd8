"""Somebody else's package works with every command; see ladder.py."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner, Result

from railweave.framework.cli import main
from railweave.framework.kit.plugin_check import check_plugin, kind_of
from railweave.framework.registry import Registers, load_plugins
from tests.strangers import by_path, every_path, ladder, last_in_line, steady, talker

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
KINDS = {
    "topology": "ladder",
    "router": "climber",
    "collective": "handover",
    "workload": "relay",
    "estimator": "coin",
    "report": "tally",
    "engine": "steady",
    "benchmark": "blinks",
    "observer": "strange",
}


@pytest.fixture(scope="module")
def registers() -> Registers:
    ours = load_plugins().manager.list_name_plugin()
    strange = ("strange (strange)", ladder.diary), ("steady (steady)", steady), ("talker (talker)", talker)
    return Registers(
        [
            *ours,
            *strange,
            ("last (last)", last_in_line),
            ("paths (paths)", by_path),
            ("every (every)", every_path),
        ]
    )


@pytest.fixture
def call(registers: Registers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(main, list(words), obj=registers, prog_name="railweave")


@pytest.mark.parametrize("module", [ladder, every_path, last_in_line, steady, by_path])
def test_it_is_written_from_the_page_alone(module: ModuleType) -> None:
    """Whatever it imports of railweave stands in docs/plugins.md; no class inherits anything of ours."""
    tree = ast.parse(Path(str(module.__file__)).read_text())
    names = [
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("railweave")
        for alias in node.names
    ]
    assert names and all(module in PAGE and name in PAGE for module, name in names)
    ours = {name for _, name in names}
    bases = [ast.unparse(b) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for b in node.bases]
    assert not ours & set(bases)


def test_one_that_wants_health_is_checked_with_a_slow_rank(registers: Registers) -> None:
    report = check_plugin("collective", "last-in-line", registers)
    assert report.passed, report.text()


def test_one_that_wants_paths_is_checked_with_their_losses(registers: Registers) -> None:
    report = check_plugin("estimator", "by-path", registers)
    assert report.passed, report.text()
    assert {(outcome.check, outcome.detail) for outcome in report.outcomes} >= {("needs", "paths")}


@pytest.mark.parametrize("kind", KINDS)
def test_plugin_check_passes(kind: str, registers: Registers) -> None:
    assert kind_of(KINDS[kind], registers) == kind
    report = check_plugin(kind, KINDS[kind], registers)
    assert report.passed and report.outcomes, report.text()


def test_the_observer_is_checked_hook_by_hook(registers: Registers) -> None:
    checks = {outcome.check for outcome in check_plugin("observer", "strange", registers).outcomes}
    hooks = {"on_run_start", "on_fabric_up", "on_health", "on_reroute", "on_iteration", "on_run_end"}
    assert checks == hooks


ON_THE_LADDER = ("--topology", "ladder", "--router", "climber")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("plugins",), "ladder    "),
        (("plugins", "--kind", "report"), "tally"),
        (("topo", "list"), "two rows of GPUs, joined like a ladder"),
        (("topo", "show", "ladder", "--rungs", "3"), "6"),
        (("topo", "show", "ladder", "--format", "svg"), "<svg"),
        (("routers",), "climber"),
        (("explain", "0,0", "1,3", *ON_THE_LADDER), "4 hops"),
        (("explain", "g0.0", "g1.1", *ON_THE_LADDER, "--fault", "down link:g0.0->g1.0"), "g0.1"),
        (("loads", *ON_THE_LADDER), "g0.0->"),
        (("plugin", "check", "climber"), "router climber passes"),
        (("bench", "blinks", "--times", "5"), "5"),
        (("plugin", "check", "steady"), "engine steady passes"),
        (("run", *ON_THE_LADDER, "--engine", "steady", "--fault", "none"), "healthy "),
        (("run", "--engine", "steady", "--fault", "at=iter:1 down rail:1"), "reroute"),
        (("verify", "--help"), "--topology"),
    ],
)
def test_commands_know_it(words: tuple[str, ...], shown: str, call: Callable[..., Result]) -> None:
    done = call(*words)
    assert done.exit_code == 0, done.output
    assert shown in done.output


SMALL = ("--domains", "2", "--rails", "2")
TALKING = ("--router", "talker", *SMALL)
COMPUTED = (*TALKING, "--engine", "fluid", "--iterations", "3", "--fault", "at=iter:1 down rail:1")


@pytest.mark.parametrize(
    ("words", "method"),
    [
        (("run", *COMPUTED, "--json", "-"), "routes"),
        (("run", *COMPUTED, "--json", "-", "--dry-run"), "routes"),
        (("compare", *COMPUTED, "--repeat", "1", "--json"), "routes"),
        (("explain", "0,0", "1,1", *TALKING, "--json"), "explain"),
        (("loads", *TALKING, "--json"), "routes"),
    ],
)
def test_what_it_prints_is_no_part_of_a_result(
    words: tuple[str, ...], method: str, call: Callable[..., Result]
) -> None:
    """Standard output has the JSON alone, which programs read."""
    done = call(*words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["schema"]["name"].startswith("railweave.")
    assert f"talker: {method}\n" in done.stderr


def test_what_it_prints_is_no_part_of_a_text_either(call: Callable[..., Result]) -> None:
    with_prints, without = (call("loads", *SMALL, "--router", name) for name in ("talker", "every-path"))
    assert "talker:" in with_prints.stderr and with_prints.exit_code == without.exit_code == 0
    assert with_prints.stdout == without.stdout.replace("every-path", "talker")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "topology.rungs=13"), "a ladder of 13 rungs brings bad luck"),
        (("--set", "topology.rungs=1"), "rungs: '1' is too small; it takes a whole number, 2 or more"),
        (("--collective", "handover", "--set", "collective.step=8"), "goes to itself"),
        (("--set", "reports.tally.colour=red"), "report tally has no option 'colour'"),
        (("--set", "reports.tallly.file=x"), "Did you mean tally?"),
        (("--fault", "at=iter:1 down link:g0.0->g1.3"), "link"),
        (
            ("--engine", "steady", "--fault", "at=iter:1 loss link:g0.0->g1.0 rate=1%"),
            "engine steady cannot, because it knows when transfers end, and no packets. Engines that do it:",
        ),
    ],
)
def test_mistakes_of_users_are_refused_by_name(
    words: tuple[str, ...], message: str, call: Callable[..., Result], tmp_path: Path
) -> None:
    done = call("run", *ON_THE_LADDER, *words)
    assert done.exit_code == 2 and message in done.output, done.output
    assert not list(tmp_path.iterdir())


def installed(module: ModuleType, plugin: str, folder: Path) -> dict[str, str]:
    """The environment of a command for which the module is installed in `folder`, as a package of its own."""
    info = folder / "strange-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(str(module.__file__), folder / "strange.py")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[railweave]\nstrange = {plugin}\n")
    return os.environ | {"PYTHONPATH": str(folder)}


def run_on_the_lab(words: list[str], environment: dict[str, str]) -> None:
    command = "from railweave.framework.cli import main; main(prog_name='railweave')"
    done = subprocess.run(
        [sys.executable, "-P", "-c", command, "run", *words],
        env=environment, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.lab
@pytest.mark.untimed
@pytest.mark.parametrize("traffic", [("--collective", "handover"), ("--workload", "relay")])
def test_it_runs_on_the_lab(traffic: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [
        *ON_THE_LADDER,
        *traffic,
        "--estimator",
        "coin",
        "--set",
        "reports.tally.file=rows.txt",
        "--fault",
        "at=iter:1 down link:g0.0->g1.0",
        "--iterations",
        "3",
        "--size",
        "64K",
        "--out",
        str(out),
    ]
    run_on_the_lab(words, installed(ladder, "strange:diary", tmp_path / "site"))
    rows = json.loads((out / "result.json").read_text())["rows"]
    assert rows and (out / "rows.txt").read_text() == f"{len(rows)} rows\n"
    diary = [json.loads(line) for line in (out / "diary.jsonl").read_text().splitlines()]
    hooks = [entry["hook"] for entry in diary]
    assert hooks[:2] == ["on_run_start", "on_fabric_up"] and hooks[-1] == "on_run_end"
    assert hooks.count("on_iteration") == 3 and "on_health" in hooks
    (reroute, *_) = [entry for entry in diary if entry["hook"] == "on_reroute"]
    assert [0, 4] in reroute["pairs"] and reroute["t_s"] > 0
    assert diary[1]["endpoints"] == diary[1]["gpus"] == 8
    assert "the ladder stands" in (out / "events.jsonl").read_text()


@pytest.mark.quiet
@pytest.mark.lab
def test_paths_that_merge_are_judged_by_what_they_can(tmp_path: Path) -> None:
    """All shortest paths in equal shares, on a healthy fat tree: packets of one pair meet others in an order
    of their own, and the run takes no longer than that has to."""
    out = tmp_path / "out"
    words = ["--topology", "fat-tree", "--router", "every-path", "--fault", "none", "--iterations", "3"]
    run_on_the_lab([*words, "--out", str(out)], installed(every_path, "strange", tmp_path / "site"))
    result = json.loads((out / "result.json").read_text())
    assert result["rows"][-1]["wrong"] == 0 and result["fidelity"]["verdict"] == "pass", result["fidelity"]
