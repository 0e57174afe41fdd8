"""`railweave schema`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from railweave.framework.cli import main
from railweave.framework.experiment.reference import markdown
from railweave.framework.registry import Registers


@pytest.mark.parametrize(("document", "key"), [("experiment", "rate_scale"), ("result", "fidelity")])
def test_schemas_are_json(document: str, key: str, registers: Registers) -> None:
    shown = CliRunner().invoke(main, ["schema", document], obj=registers)
    assert shown.exit_code == 0
    schema = json.loads(shown.stdout)
    assert key in schema["properties"] and schema["$schema"].endswith("2020-12/schema")


def test_the_page_of_the_keys_is_printed(registers: Registers) -> None:
    shown = CliRunner().invoke(main, ["schema", "experiment", "--format", "markdown"], obj=registers)
    assert shown.stdout == markdown()
