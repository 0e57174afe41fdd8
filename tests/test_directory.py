"""The directory of plugins: its page is made of it, all examples are listed, bad entries are named."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from railweave.framework.registry import PROTOCOLS

ROOT = Path(__file__).parents[1]
GOOD = {
    "name": "mine",
    "kind": "router",
    "file": "examples/plugins/rails.py",
    "source": "a paper",
    "about": "Does something.",
}


@pytest.fixture(scope="module")
def directory() -> ModuleType:
    spec = importlib.util.spec_from_file_location("directory_of_plugins", ROOT / ".ci" / "directory.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_of_the_list(directory: ModuleType) -> None:
    assert directory.PAGE.read_text() == directory.page(directory.entries())


def test_every_example_is_listed(directory: ModuleType) -> None:
    listed = {entry.file for entry in directory.entries()}
    examples = {path.relative_to(ROOT).as_posix() for path in (ROOT / "examples" / "plugins").glob("*.py")}
    assert examples and examples <= listed


def test_its_kinds_are_those_of_the_registers(directory: ModuleType) -> None:
    unchecked = {"benchmark", "controller", "transport"}  # `plugin check` has no checks of these
    assert {*directory.KINDS} == {*PROTOCOLS, "observer"} - unchecked


def test_the_kit_runs_on_the_entries_and_names_what_fails(
    directory: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The command itself: one entry that passes, and one whose file registers no such router."""
    (good,) = (entry for entry in directory.entries() if entry.name == "spray-check")
    bad = directory.Entry(**{**GOOD, "name": "not-there"})
    assert directory.check([good, bad], Path(sys.executable).with_name("railweave")) == [bad]
    shown = capfd.readouterr()
    assert "estimator spray-check passes" in shown.out and "not-there" in shown.err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Mine!"}, "name is 'Mine!'. Use small letters"),
        ({"name": "--help"}, "name is '--help'"),
        ({"kind": "routr"}, "kind is 'routr'. The kinds are router,"),
        ({"about": None}, "about is None. Write one line"),
        ({"about": "No full stop"}, "Write one sentence"),
        ({"source": "a | b"}, "source is 'a | b'"),
        ({"package": "mine>=1"}, "it needs either file or package"),
        ({"file": "none.py"}, "file is 'none.py'. Name a Python file"),
        ({"file": "../other.py"}, "file is '../other.py'"),
        ({"fabrics": "torus"}, "fabrics is 'torus'. Write a list"),
        ({"fabrics": ["file:none.yaml"]}, "fabrics has 'file:none.yaml'"),
        ({"url": "x"}, "there is no key 'url'. The keys are name,"),
    ],
)
def test_a_bad_entry_is_named(
    directory: ModuleType, change: dict[str, object], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "directory.yaml"
    path.write_text(yaml.safe_dump({"plugins": [GOOD, {**GOOD, "name": "second", **change}]}))
    with pytest.raises(directory.DirectoryError) as refused:
        directory.entries(path)
    assert f"{path}: entry 2 (" in str(refused.value) and message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plugins: [", "directory.yaml: "),
        ("- a\n", "needs one key, plugins"),
        ("plugins: {}\n", "plugins is {}. It needs a list"),
        ("plugins: [7]\n", "entry 1: 7 is no mapping"),
        ("plugins: [{name: a}]\n", "entry 1 (a): kind is missing"),
        (yaml.safe_dump({"plugins": [GOOD, dict(GOOD)]}), "entry 2 (mine): entry 1 has this kind and name"),
        (
            yaml.safe_dump(
                {"plugins": [{k: v for k, v in GOOD.items() if k != "file"} | {"package": "-r x"}]}
            ),
            "package is '-r x'. Write a requirement",
        ),
    ],
)
def test_a_bad_file_is_named(directory: ModuleType, text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "directory.yaml"
    path.write_text(text)
    with pytest.raises(directory.DirectoryError) as refused:
        directory.entries(path)
    assert message in str(refused.value)
