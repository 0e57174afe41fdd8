"""`railweave model fleet`, as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from railweave.framework.cli import main

QUICK = ("--seeds", "4", "--days", "20")


def call(*words: str) -> Result:
    return CliRunner().invoke(main, ["model", "fleet", *words], prog_name="railweave")


def test_three_repair_times_are_three_rows() -> None:
    shown = call(*QUICK)
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert lines[0].startswith("pod of 64 cubes (4096 chips), 4 spare; 20 days, 4 seeds")
    tables = [lines[i + 1 : i + 4] for i, line in enumerate(lines) if line.startswith("repair")]
    assert [[row.split()[0] for row in rows] for rows in tables] == [["4h", "12h", "24h"]] * 4
    sizes = [
        line.split()[0]
        for line in lines[lines.index(next(x for x in lines if x.startswith("chips"))) + 1 :][:7]
    ]
    assert sizes == ["64", "128", "256", "512", "1024", "2048", "4096"]
    assert "60 of 64 cubes up" in shown.output and "figure 12" in shown.output and "assumed" in shown.output
    assert call(*QUICK).output == shown.output, "equal seeds"
    assert call(*QUICK, "--seed", "2").output != shown.output


def test_json_and_rates_from_a_file(tmp_path: Path) -> None:
    """Nothing fails, so everything is up, and every job of 2 cubes sets 96 circuits."""
    rates = tmp_path / "rates.yaml"
    rates.write_text("{hosts: 0, cables: 0, ocs: 0}")
    shown = call(*QUICK, "--rates", str(rates), "--repair", "3d", "--job", "1x1x2:100%:6h", "--json")
    assert shown.exit_code == 0, shown.output
    document: Any = json.loads(shown.output)
    assert document["schema"] == {"name": "railweave.model.fleet", "version": 1}
    assert document["failures_per_component_and_day"] == {"hosts": 0.0, "cables": 0.0, "ocs": 0.0}
    (row,) = document["repair_times"]
    assert row["repair_days"] == 3
    assert row["availability"]["pod_up"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert row["jobs"]["circuits_per_job"]["mean"] == pytest.approx(96)
    assert {x["source"] for x in document["assumptions"]} >= {"given", "assumed"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--cubes", "0"), "a pod of 0 cubes"),
        (("--spares", "64"), "64 spare cubes in a pod of 64"),
        (("--host-rate", "often"), "--host-rate: 'often' is not a share"),
        (("--opt-in", "120%"), "--opt-in: '120%' is not a share"),
        (("--repair", "12"), "--repair: '12' is not a time with its unit"),
        (("--repair", "0h"), "a repair takes 0 days"),
        (("--repair", "1d", "--repair", "24h"), "holds a time twice"),
        (("--job", "1x1x1:50%:1h"), "add up to 50%"),
        (("--job", "4x4x4:100%:1h"), "a job of 4x4x4 needs 64 cubes"),
        (("--jobs-per-day", "0"), "0 jobs a day"),
        (("--days", "0"), "0 days are no period"),
        (("--seeds", "1"), "--seeds"),
        (("--rates", "none.yaml"), "there is no such file"),
        (("--rates", "none.yaml", "--ocs-rate", "0"), "--ocs-rate would have no effect"),
    ],
)
def test_bad_input_exits_with_2(words: tuple[str, ...], says: str) -> None:
    shown = call(*words)
    assert shown.exit_code == 2
    assert says in shown.stderr


def test_a_file_without_all_rates_is_refused(tmp_path: Path) -> None:
    rates = tmp_path / "rates.json"
    rates.write_text('{"hosts": "0.1%", "cables": 0.001, "switches": 0.1}')
    shown = call("--rates", str(rates))
    assert shown.exit_code == 2
    assert "switches: there is no such rate" in shown.stderr and "ocs is missing" in shown.stderr
