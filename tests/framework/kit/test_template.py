"""A package written by `plugin new`: loaded through its entry point, installed by pip, its own tests run."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from railweave.framework.errors import InputError, PluginError
from railweave.framework.experiment import load as load_plan
from railweave.framework.kit.run import check_router as run_checks
from railweave.framework.kit.template import class_of, module_of, new_plugin
from railweave.framework.registry import Registers, load
from railweave.topologies import plugin as topologies

BARE = Registers([("topologies", topologies)])


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """my-router, written and importable."""
    new_plugin("my-router", tmp_path / "my-router", BARE)
    monkeypatch.syspath_prepend(str(tmp_path / "my-router"))
    yield tmp_path / "my-router"
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_router"]:
        del sys.modules[name]


def entry_points_of(package: Path) -> list[EntryPoint]:
    declared = tomllib.loads((package / "pyproject.toml").read_text())["project"]["entry-points"]["railweave"]
    return [EntryPoint(name, value, "railweave") for name, value in declared.items()]


def test_its_router_is_found_through_its_entry_point_and_passes(package: Path) -> None:
    plugins = [(entry.name, entry.load()) for entry in entry_points_of(package)]
    assert [name for name, _ in plugins] == ["my-router"]
    report = run_checks("my-router", Registers([("topologies", topologies), *plugins]))
    assert report.passed, report.text()


def test_an_experiment_can_be_planned_with_it(package: Path) -> None:
    """Everything of a run before the lab, on the default fabric with the installed plugins beside it."""
    installed = load()
    for entry in entry_points_of(package):
        entry.load().register_routers(register=installed["router"].add("my-router"))
    plan = load_plan(None, {"router": "my-router"}, installed)
    assert plan.experiment.router.options == {"detours": True} and plan.fabric.n_gpus == 16


def test_it_is_installed_by_pip_and_listed_and_its_tests_pass(package: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation",
           "--disable-pip-version-check", "--root-user-action", "ignore", "--target", str(site), str(package)]  # fmt: skip
    done = subprocess.run(pip, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    environment = os.environ | {"PYTHONPATH": str(site)}
    command = "from railweave.framework.cli import main; main(prog_name='railweave')"
    for words, expected in (
        (["routers"], "my-router  rail-only"),
        (["plugin", "check", "my-router", "--no-scale"], "router my-router passes"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", command, *words],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0 and expected in done.stdout, done.stdout + done.stderr
    own = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=package, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert own.returncode == 0 and "2 passed" in own.stdout, own.stdout + own.stderr


def test_everything_is_filled_in_and_parses(package: Path) -> None:
    for path in package.rglob("*"):
        if path.is_file():
            text = path.read_text()
            assert "@NAME@" not in text and "@MODULE@" not in text and "@CLASS@" not in text, path
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
        new_plugin(name, tmp_path / "new", BARE)
    assert not (tmp_path / "new").exists()


def test_a_taken_name_is_refused_with_its_holder(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"'hscore' is taken by hscore \(railweave\)"):
        new_plugin("hscore", tmp_path / "new", load())


def test_a_directory_in_use_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(InputError, match="not an empty directory"):
        new_plugin("my-router", tmp_path, BARE)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_names_of_module_and_class() -> None:
    assert (module_of("my-2nd-router"), class_of("my-2nd-router")) == ("my_2nd_router", "My2ndRouter")
