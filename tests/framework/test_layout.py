"""Where things lie: what import-linter cannot see."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

from railweave.framework.registry import load_plugins

FRAMEWORK = Path(__file__).parents[2] / "framework"
MOST_ROOMS, MOST_OF_CLI = 27, 10
PICTURE = ("model", "drawing")
"""A notebook asks a fabric for its picture, and then only is drawing imported: the one arrow upward."""
ELSEWHERE = ("bench/", "lab/plugin.py")
"""Benchmarks of one engine, and where the lab registers itself."""
ALSO_WORDS = ('"packet"',)
"""Names of engines that are words of the field, too: what choosers choose for."""
EXAMPLE = re.compile(r"^ +(>>>|\.\.\.) .*$", re.MULTILINE)
"""A line of an example in a docstring."""
PRODUCT = ("framework", "topologies", "plugins", "controllers", "traffic")
LONGEST = 55
"""Lines of a function, without its decorators; a longer one has a second idea."""


def test_no_engine_is_named_outside_its_folder_but_the_default() -> None:
    """Commands, studies and pages take engines from the register, by what these say of themselves."""
    names = "|".join(map(re.escape, load_plugins()["engine"]))
    named = re.compile(rf"""["']({names})["']|--engine ({names})\b""")
    found = [
        (path.relative_to(FRAMEWORK).as_posix(), match[0])
        for path in sorted(FRAMEWORK.rglob("*.py"))
        if not path.relative_to(FRAMEWORK).as_posix().startswith(ELSEWHERE)
        for match in named.finditer(EXAMPLE.sub("", path.read_text()))
        if match[0] not in ALSO_WORDS
    ]
    assert found == [("experiment/schema.py", '"emulation"')]


def rooms() -> list[str]:
    """The folders and modules directly below framework/."""
    modules = {path.stem for path in FRAMEWORK.glob("*.py")} - {"__init__"}
    return sorted(modules | {path.parent.name for path in FRAMEWORK.glob("*/__init__.py")})


def imported(path: Path) -> Iterator[str]:
    """The dotted names that a module imports, wherever in it, or names in a string, as `-m` and import_module
    take them."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Constant(value=str(text)) if re.fullmatch(r"railweave\.framework(\.\w+)+\.?", text):
                yield text


def arrows() -> set[tuple[str, str]]:
    """(from, to): rooms of which one imports the other."""
    found = set()
    for path in FRAMEWORK.rglob("*.py"):
        room = path.relative_to(FRAMEWORK).parts[0].removesuffix(".py")
        for name in imported(path):
            if name.startswith("railweave.framework.") and room != "__init__":
                found.add((room, name.split(".")[2]))
    return {(one, other) for one, other in found if one != other and other in rooms()}


def test_the_command_reaches_ten_rooms() -> None:
    """It calls api, page, kit and papers, and the nouns that these take and return; the rest is theirs."""
    reached = {other for one, other in arrows() if one == "cli"}
    assert len(reached) <= MOST_OF_CLI, sorted(reached)
    assert len(rooms()) <= MOST_ROOMS


def test_no_arrow_points_upward_and_none_closes_a_cycle() -> None:
    """Strings that start modules count, which import-linter does not see; the order is its contract's."""
    project = tomllib.loads((FRAMEWORK.parent / "pyproject.toml").read_text())
    (contract,) = (
        contract
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract.get("containers") == ["railweave.framework"]
    )
    floor = {
        room: number for number, line in enumerate(contract["layers"]) for room in re.findall(r"\w+", line)
    }
    assert [arrow for arrow in arrows() if floor[arrow[0]] >= floor[arrow[1]]] == [PICTURE]
    below: dict[str, set[str]] = {room: set() for room in rooms()}
    for one, other in arrows() - {PICTURE}:
        below[one].add(other)
    TopologicalSorter(below).prepare()  # raises CycleError


def test_modules_named_in_strings_are_seen(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Of railweave.framework.page."""\nM = ["-m", "railweave.framework.lab.placed"]\nimport a.b\n'
    )
    assert [*imported(module)] == ["a.b", "railweave.framework.lab.placed"]


def test_no_function_is_longer_than_its_idea() -> None:
    long = {
        f"{path.relative_to(FRAMEWORK.parent).as_posix()} {function.name}"
        for folder in PRODUCT
        for path in (FRAMEWORK.parent / folder).rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and (function.end_lineno or 0) - function.lineno + 1 > LONGEST
    }
    assert not long


def is_number(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=number):
            return isinstance(number, int | float) and not isinstance(number, bool)
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
        case ast.Tuple(elts=elements):
            return bool(elements) and all(map(is_number, elements))
    return False


def unexplained(source: str) -> list[str]:
    """Constants of a module that are numbers and have no docstring; one serves for lines that adjoin."""
    body, found = ast.parse(source).body, []
    for node, after in zip(body, [*body[1:], ast.Pass()], strict=False):
        if not isinstance(node, ast.Assign) or not is_number(node.value):
            continue
        match after:
            case ast.Expr(value=ast.Constant(value=str())):
                continue
            case ast.Assign(value=value) if is_number(value) and after.lineno == node.lineno + 1:
                continue
        found.append(ast.unparse(node))
    return found


def test_every_number_says_what_it_is() -> None:
    assert unexplained('A = 1\nB = -2\n"""Of both."""\nC = 1 << 3\n\nD = "text"\nE = 4, 5\n') == [
        "C = 1 << 3",
        "E = (4, 5)",
    ]
    wanting = {
        f"{path.relative_to(FRAMEWORK.parent).as_posix()}: {constant}"
        for folder in PRODUCT
        for path in (FRAMEWORK.parent / folder).rglob("*.py")
        for constant in unexplained(path.read_text())
    }
    assert not wanting


def test_files_that_a_readme_names_are_there() -> None:
    named = re.compile(r"`([\w./]+\.py)`")
    gone = {
        f"{path.relative_to(FRAMEWORK.parent).as_posix()}: {name}"
        for folder in (*PRODUCT, "tests")
        for path in (FRAMEWORK.parent / folder).rglob("README.md")
        for name in named.findall(path.read_text())
        if not any((*path.parent.rglob(name), *FRAMEWORK.parent.glob(name), *FRAMEWORK.glob(name)))
    }
    assert not gone


def test_no_class_name_has_two_meanings() -> None:
    """A leading underscore makes no other word of it."""
    places: dict[str, list[str]] = {}
    for folder in PRODUCT:
        for path in (FRAMEWORK.parent / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    place = f"{path.relative_to(FRAMEWORK.parent).as_posix()}:{node.lineno}"
                    places.setdefault(node.name.strip("_"), []).append(place)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_results_go_through_print_text() -> None:
    """While a command runs, sys.stdout is standard error, for what plugins print."""
    echoed = re.compile(r"click\.echo\((?!.*\berr=True)")
    printing = {path.name for path in (FRAMEWORK / "cli").rglob("*.py") if echoed.search(path.read_text())}
    assert printing == {"__init__.py", "_context.py", "_options.py", "completion.py"}
