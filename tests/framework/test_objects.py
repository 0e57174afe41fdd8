"""Plugins as objects in place of their names: `rw.run(router=MyRouter())`."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import railweave as rw
from railweave.framework.api.objects import named, offer_to_labs
from railweave.framework.errors import InputError, PluginError
from railweave.framework.registry import FILES, load_plugins

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "oblivious.py"
TEXT = (
    EXAMPLE.read_text().replace("Oblivious", "AllShortest")
    + """
from railweave.framework.parameters import Parameter

AllShortest.parameters = (Parameter("unused", 1, "count", "nothing"),)


class Told(AllShortest):
    def __init__(self, what):
        self.what = what
"""
)
SMALL = {"domains": 2, "rails": 2, "size": "64K", "iterations": 2}


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module of a script's folder."""
    monkeypatch.setenv(FILES, "")
    path = tmp_path / "mine.py"
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location("mine", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules["mine"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["mine"]


def test_an_object_runs_as_its_name_would(mine: ModuleType) -> None:
    """All shortest paths of four GPUs on rails are those of `shortest` and `spray`."""
    ours = rw.run(engine="fluid", router=mine.AllShortest(), **SMALL)
    theirs = rw.run(engine="fluid", router="spray", **SMALL)
    assert ours.experiment["router"]["name"] == "all-shortest"
    assert ours.summary.declared_time_us == theirs.summary.declared_time_us
    assert os.environ[FILES] == ""  # nobody else needs it
    mapped = rw.load(engine="fluid", router={"name": mine.AllShortest(), "unused": 2}, **SMALL)
    assert mapped.experiment.router.options == {"unused": 2}
    assert rw.load(
        engine="fluid", router=mine.AllShortest(), unused=3, **SMALL
    ).experiment.router.options == {"unused": 3}


def test_labs_load_its_class_by_its_file(mine: ModuleType) -> None:
    rw.load(router=mine.AllShortest(), **SMALL)
    assert os.environ[FILES] == f"{mine.__file__}#router=AllShortest"
    assert "all-shortest" in load_plugins()["router"]


def test_an_object_that_a_lab_cannot_make_is_refused(mine: ModuleType) -> None:
    class Within(mine.AllShortest):  # type: ignore[name-defined, misc]
        pass

    changed = mine.AllShortest()
    changed.more = 1
    for plugin, why in (
        (Within(), "in no file"),
        (mine.Told(1), "not as Told"),
        (changed, "not as AllShort"),
    ):
        with pytest.raises(InputError, match=why):
            offer_to_labs([("router", plugin)])
        assert rw.run(engine="fluid", router=plugin, **SMALL).fidelity.verdict == "pass"
    assert os.environ[FILES] == ""


def test_an_object_with_other_values_than_the_registered_one_is_not_taken_for_it(mine: ModuleType) -> None:
    registers = load_plugins().offering("router", "told", mine.Told(1))
    assert named({"router": mine.Told(1)}, registers)[0] == {"router": "told"}
    with pytest.raises(PluginError, match="'told' is offered by"):
        named({"router": mine.Told(2)}, registers)


def test_an_object_in_a_mapping_runs_too(mine: ModuleType) -> None:
    keys = {"engine": "fluid", "router": mine.AllShortest(), **SMALL}
    assert rw.run(keys).experiment["router"]["name"] == "all-shortest"


def test_a_file_may_have_a_hash_in_its_name(
    mine: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a#b.py"
    path.write_text(EXAMPLE.read_text())
    monkeypatch.setenv(FILES, f"{path}")
    assert "oblivious" in load_plugins()["router"]
    monkeypatch.setenv(FILES, f"{path}#router=Oblivious")
    assert "oblivious" in load_plugins()["router"]


def test_a_script_that_runs_something_when_it_is_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "script.py"
    path.write_text("from railweave.framework.registry import load_plugins\nload_plugins()\n")
    monkeypatch.setenv(FILES, f"{path}#router=Any")
    with pytest.raises(PluginError, match="uses railweave while it is imported"):
        load_plugins()


def test_a_class_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "empty.py"
    path.write_text("")
    monkeypatch.setenv(FILES, f"{path}#router=Any")
    with pytest.raises(PluginError, match="no KIND=CLASS"):
        load_plugins()
