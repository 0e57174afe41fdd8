"""The examples in the docstrings of what scripts and plugins call: every function has one, and it holds."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import importlib
from pathlib import Path

import numpy as np
import pytest

import railweave as rw

FRAMEWORK = Path(__file__).parents[2] / "framework"
NEED_A_LAB = FRAMEWORK / "api" / "labs.py"
"""What commands ask of a lab of their own; nothing of it can be shown without one."""
FILES = [
    path
    for folder in ("api", "model", "hookspecs")
    for path in sorted((FRAMEWORK / folder).glob("*.py"))
    if path != NEED_A_LAB
]
NAMES = {"rw": rw, "np": np, "dataclasses": dataclasses}
"""What examples need not import."""


def functions_without_example(path: Path) -> list[str]:
    return [
        function.name
        for function in ast.parse(path.read_text()).body
        if isinstance(function, ast.FunctionDef)
        and not function.name.startswith("_")
        and ">>> " not in (ast.get_docstring(function) or "")
    ]


def module_name(path: Path) -> str:
    parts = path.relative_to(FRAMEWORK.parent).with_suffix("").parts
    return ".".join(("railweave", *parts)).removesuffix(".__init__")


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_every_public_function_has_an_example(path: Path) -> None:
    assert functions_without_example(path) == []


EXAMPLES = [
    example
    for path in FILES
    for example in doctest.DocTestFinder().find(importlib.import_module(module_name(path)), extraglobs=NAMES)
    if example.examples
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_examples_hold(example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=report.append, clear_globs=False)
    assert not report, "".join(report)
