"""The notebook's cells run in their order, as they stand; its own assertions hold."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "first-look.ipynb"


def test_every_cell_of_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    (tmp_path / "cells.py").write_text("\n\n".join(code))
    names = runpy.run_path("cells.py")
    assert "<svg" in names["result"]._repr_html_()
    assert all(cell.get("outputs", []) == [] for cell in cells), "outputs are not kept: they would grow old"
