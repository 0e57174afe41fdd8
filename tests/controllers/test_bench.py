"""The benchmark, at a size that says nothing about speed."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from railweave.controllers.bench import BRIDGES, bench_rules
from railweave.controllers.packages import PACKAGES, is_installed
from railweave.framework.cli import main


def test_the_rules_are_all_different_and_spread_evenly() -> None:
    rules = bench_rules(5000, 24)
    assert len({(rule.switch, rule.match) for rule in rules}) == 5000
    assert {rule.switch for rule in rules} == set(range(24))


@pytest.mark.lab
def test_all_libraries_and_ovs_ofctl_are_measured() -> None:
    done = CliRunner().invoke(main, ["bench", "install", "--rules", "60", "--repeat", "1", "--json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["schema"] == {"name": "railweave.bench.install", "version": 1}
    libraries = [name for name in PACKAGES if is_installed(name)]
    ways = ["ovs-ofctl --bundle", *libraries]
    assert [(row["bridges"], row["how"]) for row in result["rows"]] == [
        (n, way) for n in BRIDGES for way in ways
    ]
    for row in result["rows"]:
        plain = next(other for other in result["rows"] if other["bridges"] == row["bridges"])
        assert row["rules"] == 60
        assert row["rules_per_s"] == pytest.approx(60 / row["seconds"])
        assert row["ratio"] == pytest.approx(plain["seconds"] / row["seconds"])
    assert set(result["start_s"]) == set(libraries)
    assert "60 rules on 24 bridges: ryu" in done.stderr  # progress
