"""docs/plugins.md holds the whole contract, exactly, and its example passes the checks."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from pathlib import Path

import pytest

from railweave.framework import hookspecs
from railweave.framework.kit.plugin_check import check_plugin
from railweave.framework.kit.subject import PROMISES
from railweave.framework.kit.template import USES, files_of, module_of, rendered
from railweave.framework.registry import Registers
from railweave.topologies import plugin as topologies

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


EXAMPLES = {
    "router": "first-live",
    "topology": "leaf-spine",
    "collective": "direct-gather",
    "workload": "stages",
    "estimator": "served",
    "congestion-control": "marked-down",
    "report": "rows",
    "observer": "changes",
}
BLOCKS = dict(
    re.findall(
        r"^`([\w./]+)`\n\n```\w+\n(.*?)^```$",
        TEXT.partition("\n## Examples\n")[2].partition("\n## ")[0],
        re.MULTILINE | re.DOTALL,
    )
)
"""The code of the examples by file name."""


def test_there_is_an_example_of_every_kind_that_plugin_new_writes() -> None:
    assert EXAMPLES.keys() == USES.keys() and len(BLOCKS) == len(EXAMPLES) + 3


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_example_passes_the_checks(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = EXAMPLES[kind]
    module = module_of(name)
    (tmp_path / module).mkdir()
    (tmp_path / module / "__init__.py").touch()
    for target, source in files_of(kind).items():
        if target.startswith("@MODULE@/"):
            path = target.replace("@MODULE@", module)
            (tmp_path / path).write_text(BLOCKS.get(path, rendered(source, kind, name)))
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        loaded = importlib.import_module(f"{module}.plugin")
        plugin = loaded.plugin if kind == "observer" else loaded
        report = check_plugin(kind, name, Registers([("topologies", topologies), (name, plugin)]))
    finally:
        for loaded_name in [n for n in sys.modules if n.partition(".")[0] == module]:
            del sys.modules[loaded_name]
    assert report.passed and report.outcomes, report.text()


@pytest.mark.parametrize("path", BLOCKS)
def test_the_examples_are_what_plugin_new_writes(path: str) -> None:
    """One example to keep right, not two."""
    module, _, source = path.rpartition("/")
    kind = next((k for k, name in EXAMPLES.items() if module_of(name) == module), "router")
    if path == "changes/plugin.py":
        source = "observer_plugin.py"
    assert BLOCKS[path] == rendered(source, kind, EXAMPLES[kind])


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
