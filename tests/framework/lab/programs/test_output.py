"""What a rank prints: kept up to a limit, its end remembered, whole lines shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from railweave.framework.lab.programs import output
from railweave.framework.lab.programs.output import Fifo, RankOutput, ShowBudget


@pytest.fixture
def fifo(tmp_path: Path) -> Fifo:
    return Fifo(tmp_path / "out")


def printed(fifo: Fifo, text: bytes) -> None:
    fd = fifo.opened()
    os.write(fd, text)
    os.close(fd)


def test_lines_are_shown_whole_and_the_rest_at_the_end(fifo: Fifo, tmp_path: Path) -> None:
    kept = RankOutput(fifo, tmp_path / "file", ShowBudget())
    printed(fifo, b"one\ntw")
    assert kept.take() == "one"
    printed(fifo, b"o\nthree")
    assert kept.take() == "two"
    assert kept.finish() == "three"
    assert (tmp_path / "file").read_text() == "one\ntwo\nthree"
    assert (kept.printed, kept.last_lines(2)) == (13, ["two", "three"])


def test_the_file_is_cut_where_the_limit_is_and_says_so(
    fifo: Fifo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "MOST_BYTES", 10)
    kept = RankOutput(fifo, tmp_path / "file", ShowBudget())
    for _ in range(4):
        printed(fifo, b"1234\n")
        kept.take()
    kept.finish()
    assert (tmp_path / "file").read_text() == "1234\n1234\n\n[railweave: cut here, after 0 MiB]\n"
    assert kept.printed == 20


def test_without_a_file_the_end_is_kept(fifo: Fifo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "TAIL_BYTES", 10)
    kept = RankOutput(fifo, None, ShowBudget())
    for digit in range(5):
        printed(fifo, b"%d2345" % digit)
        kept.take()
    assert kept.tail == "[15 bytes left out]\n3234542345"


def test_a_line_without_end_is_shown_in_parts(fifo: Fifo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_READ_BYTES", 8)
    kept = RankOutput(fifo, None, ShowBudget())
    printed(fifo, b"x" * 9)
    assert kept.take() == "x" * 9


def test_what_is_shown_is_limited(fifo: Fifo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "SHOWN_BYTES_A_SECOND", 4)
    monkeypatch.setattr(output.time, "monotonic", lambda: 7.0)
    kept = RankOutput(fifo, None, ShowBudget())
    printed(fifo, b"123\n")
    assert kept.take() == "123"
    printed(fifo, b"456\n")
    assert kept.take() == ""
