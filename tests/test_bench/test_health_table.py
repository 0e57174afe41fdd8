"""The table of docs/health-figures.md, made of rows of `bench health`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from railweave.bench.health_rows import Row
from railweave.bench.health_table import DATA, HEAD, PAGE, page, rows_of, table

ROWS = [
    Row("4x4", "64K", "down rail:1", "hscore", 9, published_s=0.344, allowance_s=1.43, score=0.2,
        truth=0.2, healthy_min=1.0, to_alone=(0.48, 0.47), to_oracle=(1.004, 0.99), verdict="ok"),
    Row("torus", hold="tcp", hold_s=60.0, healthy_min=0.95, fullness=0.987, verdict="ok"),
    Row("8x8", "1M", "degrade rail:1 to=20%", restored=9, back_s=1.4, verdict="ok"),
]  # fmt: skip


def test_a_line_for_each_row_in_the_place_of_the_table(tmp_path: Path) -> None:
    lines = table(ROWS).splitlines()
    assert lines[2:] == [
        "| 4x4 | 64 KiB | `hscore` | `down rail:1` | 0.34 | 1.43 | 0.20 (0.20) | 1.00 | 0.48 | 1.00 |  |",
        "| torus |  |  | tcp (99 % full) |  |  |  | 0.95 |  |  |  |",
        "| 8x8 | 1 MiB |  | `degrade rail:1 to=20%` undone |  |  |  |  |  |  | 1.40 |",
    ]
    text = page(ROWS)
    assert "".join(f"{line}\n" for line in lines) in text and text.count(f"| {' | '.join(HEAD)} |") == 1
    before, after = PAGE.read_text().splitlines(), text.splitlines()
    assert before[:5] == after[:5] and before[-5:] == after[-5:]


def test_rows_come_from_a_data_file_or_from_one_of_resume(tmp_path: Path) -> None:
    plain, kept = tmp_path / "plain.jsonl", tmp_path / "kept.jsonl"
    plain.write_text("".join(json.dumps(asdict(row)) + "\n" for row in ROWS))
    header = json.dumps({"schema": {"name": "railweave.rows", "version": 1}, "study": "bench health"})
    wrapped = (json.dumps({"point": "0" * 32, "ok": True, "row": asdict(row)}) for row in ROWS)
    kept.write_text("\n".join([header, *wrapped]) + "\n")
    assert rows_of(plain) == rows_of(kept) == ROWS


def test_the_page_shows_the_rows_of_the_data_and_all_are_ok() -> None:
    rows = rows_of(DATA)
    assert page(rows) == PAGE.read_text() and {row.verdict for row in rows} == {"ok"}
