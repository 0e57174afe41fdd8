"""docs/experiment.md and the JSON schema against the declarations and against what the reader takes."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.plan import load_plan
from railweave.framework.experiment.reference import json_schema, markdown, parameter_schema
from railweave.framework.experiment.schema import KEYS
from railweave.framework.parameters import Parameter, Unit
from railweave.framework.registry import Registers, load_plugins

PAGE = Path(__file__).parents[3] / "docs" / "experiment.md"


def test_the_page_is_what_is_declared() -> None:
    command = "railweave schema experiment --format markdown > docs/experiment.md"
    assert PAGE.read_text() == markdown(), f"run: {command}"
    assert command in markdown()


def test_every_key_and_every_plugin_is_in_the_schema(registers: Registers) -> None:
    properties: Any = json_schema(registers)["properties"]
    assert set(properties) == {*KEYS, "fault", "job"}
    assert all(entry["description"] for entry in properties.values())
    text, *objects = properties["topology"]["anyOf"]
    assert text == {"type": "string"}
    by_name = {o["properties"]["name"]["const"]: o for o in objects}
    assert by_name["loop"]["properties"]["gpus"] == {
        "description": "GPUs", "type": "integer", "minimum": 2, "maximum": 99,
    }  # fmt: skip
    assert by_name["loop"]["required"] == ["name"] and "required" not in by_name["rail-only"]
    assert properties["rate_scale"]["anyOf"][-1] == {"const": "auto"}


@pytest.mark.parametrize(
    ("unit", "takes", "refuses"),
    [
        ("bytes", ["64K", "1 M", "12"], ["1KB", "1.5M", "x"]),
        ("rate", ["400Gb/s", "50GB/s", "10mbit", "0"], ["1e9", "400G", "fast"]),
        ("time", ["25us", "1.5 s", "2min", "0"], ["3", "25 years", "s"]),
        ("ratio", ["20%", "0.2"], ["20 percent"]),
        ("factor", ["1e-5", "3"], ["3x"]),
    ],
)
def test_patterns_take_what_the_reader_takes(unit: Unit, takes: list[str], refuses: list[str]) -> None:
    parameter = Parameter("x", 0, unit, "")
    shapes: Any = parameter_schema(parameter)["anyOf"]
    (pattern,) = (shape["pattern"] for shape in shapes if "pattern" in shape)
    for text in takes:
        assert re.search(pattern, text)
        parameter.parse(text)
    for text in refuses:
        assert not re.search(pattern, text)
        with pytest.raises(ExperimentError):
            parameter.parse(text)


def test_the_example_of_the_page_is_an_experiment(tmp_path: Path) -> None:
    block = re.search(r"\n\n((?:    .*\n)+)", PAGE.read_text())
    assert block is not None
    path = tmp_path / "experiment.yaml"
    path.write_text(textwrap.dedent(block[1]))
    plan = load_plan(path, None, load_plugins())
    assert (plan.fabric.kind, plan.experiment.router.name, len(plan.schedules)) == ("torus", "dor", 5)
    assert [fault.verb for fault in plan.faults] == ["degrade", "restore"]
