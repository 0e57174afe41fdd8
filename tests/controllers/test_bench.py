"""The bench, at a size that says nothing about speed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from railweave.controllers.bench import bench_rules

NAMESPACES = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def test_the_rules_are_all_different_and_spread_evenly() -> None:
    rules = bench_rules(5000, 24)
    assert len({(rule.switch, rule.match) for rule in rules}) == 5000
    assert {rule.switch for rule in rules} == set(range(24))


@pytest.mark.lab
def test_both_libraries_and_ovs_ofctl_are_measured() -> None:
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    options = ["--rules", "60", "--bridges", "2", "--repeat", "1", "--json", "-"]
    command = [*NAMESPACES, *user, sys.executable, "-m", "railweave.controllers.bench", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["schema"] == "railweave.bench.install/1"
    assert [row["how"] for row in result["rows"]] == ["ovs-ofctl --bundle", "ryu", "os-ken"]
    for row in result["rows"]:
        assert row["rules"] == 60
        assert row["rules_per_s"] == pytest.approx(60 / row["seconds"])
        assert row["ratio"] == pytest.approx(result["rows"][0]["seconds"] / row["seconds"])
    assert set(result["start_s"]) == {"ryu", "os-ken"}
