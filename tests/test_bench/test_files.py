"""The benchmark of fabric files reads right files and has wrong ones refused."""

from __future__ import annotations

from railweave.bench.files import file_times


def test_each_format_has_a_file_that_loads_and_one_that_is_refused() -> None:
    told: list[str] = []
    rows = file_times(True, told.append)["rows"]
    assert [(row["ends"], row["parser"]) for row in rows] == [
        (ends, parser) for parser in ("csv", "expat", "libyaml", "json") for ends in ("right", "wrong")
    ]
    assert all(row["cables"] >= 500 and row["seconds"] > 0 and row["parser_seconds"] > 0 for row in rows)
    assert told[0] == "railweave's own, 500 cables" and len(told) == 8
