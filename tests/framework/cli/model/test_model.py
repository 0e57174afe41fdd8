"""`railweave model optree` against the paper's numbers."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from railweave.framework.cli import main


def call(*words: str) -> Result:
    return CliRunner().invoke(main, ["model", "optree", *words], prog_name="railweave")


def test_every_algorithm_and_every_depth_is_listed() -> None:
    """P-O2 and Table I for 1024 nodes and 64 wavelengths."""
    shown = call("--nodes", "1024", "--wavelengths", "64")
    assert shown.exit_code == 0
    rows = [line.split() for line in shown.output.splitlines()]
    steps = {tuple(row[:2]): int(row[3]) for row in rows if len(row) > 6 and row[3].isdigit()}
    assert steps == {
        ("ring", "-"): 1023,
        ("neighbor-exchange", "-"): 512,
        ("wrht", "-"): 259,
        ("one-stage", "-"): 2048,
    } | {("optree", str(k)): s for k, s in enumerate([2048, 192, 101, 80, 72, 70, 70, 72, 74, 76], 1)}
    assert "best depth by Theorem 2: 6;" in shown.output


def test_json_carries_times() -> None:
    """Equation 3 by hand: 12 x (1 MiB x 8 / 10 Gb/s + 100 us)."""
    shown = call("--nodes", "16", "--wavelengths", "2", "--rate", "10Gb/s", "--step-time", "100us", "--json")
    document = json.loads(shown.output)
    assert document["schema"] == {"name": "railweave.model.optree", "version": 1}
    assert (document["optimal_depth"], document["schedule_depth"]) == (2, 2)
    tree = next(row for row in document["algorithms"] if row["depth"] == 2)
    assert (tree["steps"], tree["schedule_steps"], tree["item_times"]) == (12, 12, 12)
    assert tree["time_s"] == pytest.approx(12 * ((1 << 20) * 8 / 10e9 + 100e-6))
    swap = next(row for row in document["algorithms"] if row["algorithm"] == "neighbor-exchange")
    assert (swap["steps"], swap["item_times"], swap["wavelengths"]) == (8, 15, 1)


def test_odd_rings_have_no_neighbor_exchange() -> None:
    shown = call("--nodes", "15")
    assert shown.exit_code == 0
    assert "neighbor-exchange: needs an even number of nodes" in shown.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--wavelengths", "0"), "16 nodes and 0 wavelengths"),
        (("--nodes", "1"), "1 nodes and 2 wavelengths"),
        (("--rate", "0"), "--rate"),
        (("--item", "1Q"), "--item: '1Q' is not a size"),
        (("--step-time", "-1us"), "--step-time"),
    ],
)
def test_bad_numbers_exit_with_2(words: tuple[str, ...], says: str) -> None:
    shown = call(*words)
    assert shown.exit_code == 2
    assert says in shown.stderr
