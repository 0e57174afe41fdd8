"""docs/plugins.md holds the whole contract, exactly, and links an example of every kind."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from railweave.framework import hookspecs
from railweave.framework.kit.subject import PROMISES
from railweave.framework.kit.template import USES

PAGE = Path(__file__).parents[3] / "docs" / "plugins.md"
TEXT = PAGE.read_text()
SOURCE = "\n".join(file.read_text() for file in sorted(Path(hookspecs.__file__).parent.glob("*.py")))
VALUES = ("LinkState", "Explanation")
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
    shown = {line for line in TEXT.splitlines() if line.startswith("def ") and not line.endswith(":")}
    assert shown <= known


def test_every_promise_is_explained() -> None:
    for word, meaning in PROMISES.items():
        assert f"| `{word}` | {meaning} |" in TEXT


@pytest.mark.parametrize("kind", USES)
def test_the_example_of_every_kind_is_linked(kind: str) -> None:
    """test_template.py checks them; tests/test_pages.py, that links lead to files."""
    assert f"| [{kind}](../framework/kit/template/{kind.replace('-', '_')}.py.in) |" in section("Examples")


SNIPPET = re.compile(r"`railweave\.[a-z_.]+`")


@pytest.mark.parametrize("name", sorted(set(SNIPPET.findall(TEXT))))
def test_every_module_that_is_named_exists(name: str) -> None:
    """`railweave.framework.model.health`, or something in it."""
    dotted = name.strip("`")
    try:
        importlib.import_module(dotted)
    except ModuleNotFoundError:
        module, _, attribute = dotted.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute)
