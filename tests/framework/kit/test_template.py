"""A package written by `plugin new`: loaded through its entry point, installed by pip, its own tests run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from railweave.framework.errors import InputError, PluginError
from railweave.framework.experiment.plan import load_plan
from railweave.framework.kit.plugin_check import check_plugin, kind_of
from railweave.framework.kit.template import USES, class_of, module_of, new_plugin
from railweave.framework.registry import Registers, load_plugins
from railweave.framework.runs import runner
from railweave.topologies import plugin as topologies

BARE = Registers([("topologies", topologies)])


@pytest.fixture(params=USES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def package(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """my-plugin of a kind, written and importable."""
    new_plugin(kind, "my-plugin", tmp_path / "my-plugin", BARE)
    monkeypatch.syspath_prepend(str(tmp_path / "my-plugin"))
    yield tmp_path / "my-plugin"
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_plugin"]:
        del sys.modules[name]


def with_package(package: Path) -> Registers:
    """Everything installed, and the package through its entry point."""
    declared = tomllib.loads((package / "pyproject.toml").read_text())["project"]["entry-points"]["railweave"]
    plugins = [(name, EntryPoint(name, value, "railweave").load()) for name, value in declared.items()]
    assert [name for name, _ in plugins] == ["my-plugin"]
    return Registers([*load_plugins().manager.list_name_plugin(), *plugins])


def test_it_is_found_through_its_entry_point_and_passes(kind: str, package: Path) -> None:
    registers = with_package(package)
    assert kind_of("my-plugin", registers) == kind
    report = check_plugin(kind, "my-plugin", registers)
    assert report.passed and report.outcomes, report.text()


def test_an_experiment_can_be_planned_with_it(kind: str, package: Path) -> None:
    """Everything of a run before the lab."""
    key = {"congestion-control": "control"}.get(kind, kind)
    keys: dict[str, object] = {} if kind in ("observer", "report") else {key: "my-plugin"}
    if kind == "topology":
        keys |= {"router": "shortest", "collective": "ring-all-reduce", "faults": "none"}
    plan = load_plan(None, keys, with_package(package))
    assert plan.fabric.n_gpus == 16 and plan.schedule.n_transfers > 0


@pytest.mark.parametrize("kind", USES)
def test_it_is_installed_by_pip_and_its_tests_pass(kind: str, package: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--disable-pip-version-check",
        "--root-user-action",
        "ignore",
        "--target",
        str(site),
        str(package),
    ]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    own = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=package, env=os.environ | {"PYTHONPATH": str(site)}, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert own.returncode == 0 and "1 passed" in own.stdout, own.stdout + own.stderr


def test_everything_is_filled_in_and_parses(package: Path) -> None:
    for path in package.rglob("*"):
        if path.is_file():
            text = path.read_text()
            assert not re.search("@[A-Z]+@", text), path
            if path.suffix == ".py":
                ast.parse(text)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("My_Router", "cannot name a plugin"), ("my--router", "cannot name a plugin"), ("1st", "cannot name"),
        ("class", "cannot name a plugin"), ("../up", "cannot name a plugin"), ("json", "installed already"),
        ("numpy", "installed already"),
    ],
)  # fmt: skip
def test_names_that_cannot_be(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=words):
        new_plugin("router", name, tmp_path / "new", BARE)
    assert not (tmp_path / "new").exists()


def test_a_taken_name_is_refused_with_its_holder(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"'hscore' is taken by hscore \(railweave\)"):
        new_plugin("router", "hscore", tmp_path / "new", load_plugins())


def test_a_directory_in_use_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(InputError, match="not an empty directory"):
        new_plugin("router", "my-router", tmp_path, BARE)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_names_of_module_and_class() -> None:
    assert (module_of("my-2nd-router"), class_of("my-2nd-router")) == ("my_2nd_router", "My2ndRouter")


@pytest.mark.parametrize("kind", ["estimator"])
def test_the_estimator_sees_the_fault_of_the_main_job_and_nothing_else(kind: str, package: Path) -> None:
    """Rail 1 falls to 20 %: seen, answered, and healthy rails score 1 to the end."""
    registers = with_package(package)
    plan = load_plan(None, {kind: "my-plugin", "engine": "fluid", "iterations": 6}, registers)
    result = runner.run(plan, registers)
    assert result.faults[0].detected_s is not None and result.faults[0].recovered_s is not None
    assert result.accuracy.precision == 1.0
    assert {name for name, score in result.health[-1].elements.items() if score < 0.95} == {"rail:1"}
