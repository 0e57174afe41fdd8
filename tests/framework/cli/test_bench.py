"""`railweave bench`: benchmarks are found through their hook, a stranger's too, and their parameters are
options."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from railweave.framework.cli import main
from railweave.framework.hookspecs import Benchmark, hookimpl
from railweave.framework.parameters import Parameter, Value
from railweave.framework.registry import Registers, load_plugins

Call = Callable[..., Result]
PAGE = Path(__file__).parents[3] / "docs" / "plugins.md"


@pytest.fixture
def example_of_the_docs(tmp_path: Path) -> ModuleType:
    section = PAGE.read_text().split("### Benchmark\n")[1]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    path = tmp_path / "my_benchmark.py"
    path.write_text(next(block for block in blocks if "hookimpl" in block))
    spec = spec_from_file_location("my_benchmark", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Ports(Benchmark):
    """What the display has to cope with."""

    summary = "ports of two switches"
    parameters: tuple[Parameter, ...] = ()
    in_lab = False

    def run(self, options: Mapping[str, Value], progress: Callable[[str], None]) -> Mapping[str, Any]:
        rows = [{"switch": "r0", "ports": 4, "gbps": 0.25}, {"switch": "r1", "ports": 12, "gbps": 1e3}]
        return {"kind": "rail", "of": {"rails": 2}, "rows": tuple(rows)}


class Plugin:
    @hookimpl
    def register_benchmarks(self, register: Callable[[str, Any], None]) -> None:
        register("ports", Ports())


@pytest.fixture
def call(example_of_the_docs: ModuleType) -> Call:
    registers = Registers([("page", example_of_the_docs), ("stranger", Plugin())])
    return lambda *words: CliRunner().invoke(main, ["bench", *words], obj=registers, prog_name="railweave")


def test_all_registered_ones_are_listed(call: Call) -> None:
    listing = call("--help").stdout
    assert re.search(r"copies +Gigabytes per second that one core copies\.", listing)
    assert re.search(r"ports +Ports of two switches\.", listing)


def test_the_example_of_the_docs_runs_and_shows_progress(call: Call) -> None:
    done = call("copies", "--megabytes", "1", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["schema"] == {"name": "railweave.bench.copies", "version": 1}
    assert document["gb_per_s"] > 0
    assert done.stderr == "copying\n"


def test_figures_are_lines_and_lists_of_them_tables(call: Call) -> None:
    assert [line.split() for line in call("ports").stdout.splitlines()] == [
        ["kind", "rail"], ["of.rails", "2"],
        ["switch", "ports", "gbps"], ["r0", "4", "0.25"], ["r1", "12", "1000"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("copies", "--megabytes", "0"), "megabytes: '0' is too small; it takes a whole number, 1 or more."),
        (("copie",), "there is no benchmark 'copie'; known are: copies, ports. Did you mean copies?"),
    ],
)
def test_a_mistake_exits_with_2_and_names_it(call: Call, words: tuple[str, ...], error: str) -> None:
    refused = call(*words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert error in refused.stderr


def test_the_built_in_ones_use_the_same_hook() -> None:
    registered = load_plugins()["benchmark"]
    assert list(registered) == [
        "bring-up",
        "datapaths",
        "files",
        "flows",
        "fluid",
        "health",
        "install",
        "live",
        "packet",
        "report",
        "routes",
        "sweep",
        "throughput",
        "transport",
    ]
    assert [name for name in registered if registered[name].in_lab] == ["install", "transport"]
    assert registered.holders["install"].startswith("controllers")
    assert registered.holders["transport"].startswith("traffic")


@pytest.mark.lab
def test_one_that_asks_for_it_runs_in_a_lab_of_its_own() -> None:
    done = CliRunner().invoke(main, ["bench", "transport", "--seconds", "0.5", "--json"])
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    assert figures["transport_pps"] > 0 and figures["payload_bytes"] == 4096
    assert figures["transport_to_bare"] == pytest.approx(figures["transport_pps"] / figures["bare_pps"])
    assert done.stderr.splitlines()[-1].startswith("5/5 packets per second: transport ")


def test_every_help_ends_with_an_example(call: Call) -> None:
    for name in ("ports", "copies"):
        assert call(name, "--help").output.rstrip().endswith(f"railweave bench {name} --json")
