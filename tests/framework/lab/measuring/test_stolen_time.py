"""Steal time, from lines as proc(5) describes them."""

from pathlib import Path

import pytest

from railweave.framework.lab.measuring.stolen_time import StolenTime

LINES = """cpu  100 0 50 900 10 0 5 {0} 0 0
cpu0 60 0 20 450 5 0 3 {1} 0 0
cpu1 40 0 30 450 5 0 2 {2} 0 0
intr 4321 0 9 8 7 6 5 4 3 2
"""


def test_what_the_processor_lost_that_lost_most(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_text(LINES.format(90, 50, 40))
    stolen = StolenTime(path)
    assert stolen.since_last() == 0.0
    path.write_text(LINES.format(98, 52, 46))
    assert stolen.since_last() == pytest.approx(0.06)  # USER_HZ is 100
    assert stolen.since_last() == 0.0


def test_kernels_that_do_not_count_it(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_text("cpu 1 2 3 4\ncpu0 1 2 3 4\nintr 0\n")
    assert StolenTime(path).since_last() == 0.0
