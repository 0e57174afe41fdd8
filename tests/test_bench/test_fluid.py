"""`bench fluid` in full: its rows by name, its exponents by hand, and the command."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from railweave.bench.fluid import exponents, fluid
from railweave.bench.fluid_rows import GROWTH, ROWS
from railweave.bench.msccl_rings import ring_file
from railweave.framework.bench.fluid import QUICK, FluidCase, measured
from railweave.framework.cli import main
from railweave.framework.errors import InputError


def test_exponents_are_slopes_between_logarithms() -> None:
    """Four times the GPUs, sixteen times the seconds, twice the memory: exponents 2 and 1/2."""
    runs = [
        {"gpus": g, "cpu_s": s, "memory_mb": m}
        for g, s, m in ((64, 1.0, 50), (128, 3.0, 70), (256, 16.0, 100))
    ]
    grown = exponents(runs)
    assert (grown["cpu_s_exponent"], grown["memory_mb_exponent"]) == pytest.approx((2.0, 0.5))
    assert exponents([*runs, {"error": "killed"}]) == {"error": "killed"}


def test_gpus_double_in_every_family() -> None:
    for members in GROWTH.values():
        assert len({json.dumps(row.keys) for row in members}) == len(members) == 3


def test_rows_by_words_and_a_wrong_word() -> None:
    with pytest.raises(InputError, match="no row has 'toruss' in its name"):
        fluid("torus,toruss", False, False, lambda text: None)
    assert len({row.name for row in (*ROWS, *QUICK)}) == len(ROWS) + len(QUICK)


def test_a_row_of_an_algorithm_runs_it(tmp_path: Path) -> None:
    """A ring of 4 over 2 channels: each GPU sends 2 x 3/4 of 8 MiB in packets of 4096 of 4154 bytes at
    450 GB/s, 28.4 us."""
    keys = {"topology": "rail-only", "domains": 1, "rails": 4, "size": "8M", "iterations": 1}
    row = FluidCase("rings", keys, 2, algorithm=partial(ring_file, 4, 2))
    figures = measured(row, tmp_path, own_caches=False)
    assert figures["declared_us"] == pytest.approx(1.5 * (8 << 20) * 4154 / 4096 / 450e3, rel=1e-3)


def test_two_small_rows_from_the_command() -> None:
    done = CliRunner().invoke(main, ["bench", "fluid", "--quick", "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    for line in document["rows"]:
        assert "error" not in line, line
        assert line["total_s"] > 0 and line["memory_mb"] > 20 and line["declared_us"] > 0
    assert document["cold_s"] is None and document["batch_error"] < 5e-4
