"""docs/plugins.md holds the whole contract, exactly, and its example passes the checks."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from railweave.framework import hookspecs
from railweave.framework.kit.run import check_router as run_checks
from railweave.framework.kit.subject import PROMISES
from railweave.framework.kit.template import rendered
from railweave.framework.registry import Registers
from railweave.topologies import plugin as topologies

PAGE = Path(__file__).parents[3] / "docs" / "plugins.md"
TEXT = PAGE.read_text()
SOURCE = Path(hookspecs.__file__).read_text()
VALUES = ("Event", "LinkState", "Explanation")
"""Classes of hookspecs that are no Protocols and are spoken of all the same."""


def contract() -> dict[str, list[str]]:
    """Signatures by class: `serves: tuple[str, ...]`, `def routes(self, ...) -> RouteTable`."""
    return {
        node.name: [
            signature(item) for item in node.body if isinstance(item, ast.FunctionDef | ast.AnnAssign)
        ]
        for node in ast.parse(SOURCE).body
        if isinstance(node, ast.ClassDef) and (is_protocol(node) or node.name in ("Hooks", *VALUES))
    }


def is_protocol(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)


def signature(item: ast.FunctionDef | ast.AnnAssign) -> str:
    if isinstance(item, ast.AnnAssign):
        return ast.unparse(item)
    returns = "" if item.returns is None else f" -> {ast.unparse(item.returns)}"
    return f"def {item.name}({ast.unparse(item.args)}){returns}"


def section(title: str) -> str:
    """What stands below a heading, to the next of its level or above."""
    found = re.search(rf"^(#+) {title}\n(.*?)(?=^#{{1,3}} |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/plugins.md has no heading {title!r}"
    return found[2]


CONTRACT = contract()


def test_there_are_hooks_and_protocols_to_look_for() -> None:
    assert len(CONTRACT["Hooks"]) >= 14 and {"Topology", "Router", "Engine"} <= CONTRACT.keys()


@pytest.mark.parametrize("line", CONTRACT["Hooks"])
def test_every_hook_stands_in_the_page(line: str) -> None:
    assert line in section("Hooks").splitlines()


@pytest.mark.parametrize("name", [name for name in CONTRACT if name not in ("Hooks", *VALUES)])
def test_every_protocol_has_its_section_with_exact_signatures(name: str) -> None:
    lines = section(name).splitlines()
    assert not [line for line in CONTRACT[name] if line not in lines]


@pytest.mark.parametrize("name", VALUES)
def test_what_they_exchange_stands_there_too(name: str) -> None:
    assert not [line for line in CONTRACT[name] if line not in TEXT.splitlines()]


def test_nothing_stands_there_that_is_gone() -> None:
    known = {line for lines in CONTRACT.values() for line in lines}
    known.add("def promises(self, fabric: Fabric) -> tuple[str, ...]")
    shown = {line for line in TEXT.splitlines() if line.startswith("def ") and not line.endswith(":")}
    assert shown <= known


def test_every_promise_is_explained() -> None:
    for word, meaning in PROMISES.items():
        assert f"| `{word}` | {meaning} |" in TEXT


def files_of_the_example() -> dict[str, str]:
    """The code blocks of the complete example, by the file name above each."""
    found = re.findall(
        r"^`([\w./]+)`\n\n```\w+\n(.*?)^```$", section("A complete example"), re.MULTILINE | re.DOTALL
    )
    return dict(found)


def test_the_example_passes_the_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_of_the_example()
    assert set(files) == {"first_live/router.py", "first_live/plugin.py", "pyproject.toml"}
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "first_live" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    declared = tomllib.loads(files["pyproject.toml"])["project"]["entry-points"]["railweave"]
    try:
        __import__(declared["first-live"])
        module = sys.modules[declared["first-live"]]
        report = run_checks("first-live", Registers([("topologies", topologies), ("first-live", module)]))
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "first_live"]:
            del sys.modules[name]
    assert report.passed, report.text()
    assert sum(outcome.status == "passed" for outcome in report.outcomes) >= 7


@pytest.mark.parametrize("source", ["router.py", "plugin.py", "pyproject.toml"])
def test_the_example_is_what_plugin_new_writes(source: str) -> None:
    """One example to keep right, not two."""
    (text,) = [text for name, text in files_of_the_example().items() if name.endswith(source)]
    assert text == rendered(source, "first-live")
