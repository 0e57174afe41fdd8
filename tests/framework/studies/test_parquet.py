"""Rows as Parquet: what pyarrow reads back, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from railweave.framework.errors import InputError
from railweave.framework.studies.parquet import read_parquet, write_parquet

parquet = pytest.importorskip("pyarrow.parquet")

ROWS: list[dict[str, Any]] = [
    {"point": "0" * 32, "version": "1" * 12, "ok": True, "settings": {"depth": "20%", "rails": 4}, "seed": 1,
     "repeat": 0, "drawn": {"nic": 3}, "after_us": 1.5, "verdict": "pass", "iterations_us": [1.0, 2.0]},
    {"point": "1" * 32, "version": "1" * 12, "ok": False, "settings": {"depth": 0.2, "rails": 8}, "seed": 2,
     "repeat": 0, "drawn": {"nic": 5}, "cause": "LabError", "error": "it broke."},
]  # fmt: skip


def test_rows_come_back_and_every_setting_is_a_column(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    write_parquet(path, "study", ROWS)
    assert read_parquet(path) == ("study", ROWS)
    columns = parquet.read_table(path).to_pydict()
    assert columns["set.rails"] == [4, 8] and columns["set.depth"] == ["20%", "0.2"]
    assert columns["drawn.nic"] == [3, 5] and columns["after_us"] == [1.5, None]
    assert columns["cause"] == [None, "LabError"] and columns["iterations_us"] == [[1.0, 2.0], None]


def test_what_no_study_wrote_is_refused(tmp_path: Path) -> None:
    import pyarrow

    path = tmp_path / "rows.parquet"
    path.write_text("PAR1 but not really")
    with pytest.raises(InputError, match="is no Parquet file of a study"):
        read_parquet(path)
    parquet.write_table(pyarrow.table({"row": ["{}"]}), path)
    with pytest.raises(InputError, match="Write one by `railweave report --parquet`"):
        read_parquet(path)
    with pytest.raises(InputError, match="is no Parquet file"):
        read_parquet(tmp_path / "none.parquet")
