"""What `compare` and `chaos` print with --json comes back as it was; anything else is refused by name."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from railweave.framework.errors import InputError
from railweave.framework.results.figures import Accuracy, FaultFigures
from railweave.framework.studies.campaigns import Campaign, ChaosRun, read_campaign
from railweave.framework.studies.comparison import Comparison, Variant
from railweave.framework.studies.shared_rails import SharedRails

FAULT = FaultFigures(
    "at=iter:1 down rail:1", "down", "rail:1", 1.5, 8, detected_s=0.1, link_scores={"a->b": 0.0}
)
ROUTERS = (
    Comparison(Variant("ecmp", "oracle"), 2, 1.5, 3.0, (2.0, 4.0), None, 0, ("pass", "degraded"), (1e-5,)),
)
JOBS = (SharedRails(25, 1, (1.0, None), (1.0, 1.5), None, 0, ("pass",), (1e-5,)),)
CHAOS = (
    ChaosRun(0, ("a", "b"), "completes", (), None, 0, "pass", 2.5, (), (FAULT,), Accuracy(1.0, None), None),
    ChaosRun(1, ("a",), "fails", ("g0.1",), "LabError: x", 0, "", 2.5, ("veth0",), (), None, "left behind"),
)  # fmt: skip


def written(to: Path, name: str, version: int, **content: Any) -> Path:
    to.write_text(json.dumps({"schema": {"name": f"railweave.{name}", "version": version}, **content}))
    return to


@pytest.mark.parametrize(
    ("name", "version", "key", "rows"),
    [("compare", 2, "rows", ROUTERS), ("compare-jobs", 1, "rows", JOBS), ("chaos", 2, "runs", CHAOS)],
)
def test_rows_come_back_equal(
    tmp_path: Path, name: str, version: int, key: str, rows: tuple[Any, ...]
) -> None:
    content = {"experiment": {"size": 4}, key: [asdict(row) for row in rows]}
    assert read_campaign(written(tmp_path / "x", name, version, **content)) == Campaign({"size": 4}, rows)


def test_what_is_no_campaign_is_refused_with_its_reason(tmp_path: Path) -> None:
    rows = [asdict(row) for row in ROUTERS]
    wrong: dict[str, Path] = {
        "cannot be read: No such file": tmp_path / "absent",
        "version 9": written(tmp_path / "later", "compare", 9, experiment={}, rows=rows),
        "'railweave.run'": written(tmp_path / "run", "run", 2),
        "rows: Input should be a valid tuple": written(tmp_path / "none", "compare", 2, experiment={}),
        "holds no rows": written(tmp_path / "empty", "compare", 2, experiment={}, rows=[]),
        "NaN is no number": written(tmp_path / "nan", "compare", 2, experiment={}, rows=[float("nan")]),
        "rows.0.repeats: Input should be a valid int": written(
            tmp_path / "type", "compare", 2, experiment={}, rows=[{**rows[0], "repeats": "many"}]
        ),
    }
    for number, (words, text) in enumerate(
        {"not JSON": "{", "recursion": "[" * 100_000, "None, version": "[]"}.items()
    ):
        wrong[words] = tmp_path / f"text{number}"
        wrong[words].write_text(text)
    for words, path in wrong.items():
        with pytest.raises(InputError, match=words) as error:
            read_campaign(path)
        assert str(path) in str(error.value)
