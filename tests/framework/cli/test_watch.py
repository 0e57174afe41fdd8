"""`railweave watch`: an idle fabric, on the lab."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from railweave.framework.cli import main

SMALL = ("--domains", "2", "--rails", "2", "--rate-scale", "1e-5", "--seconds", "3")


@pytest.mark.lab
@pytest.mark.parametrize(("measure", "least"), [("auto", 0.95), ("counters", 0.95), ("probe", 0.85)])
def test_an_idle_healthy_fabric_stays_healthy(measure: str, least: float) -> None:
    words = ["watch", *SMALL, "--measure", measure, "--json"]
    done = CliRunner().invoke(main, words, prog_name="railweave")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["schema"] == {"name": "railweave.watch", "version": 1}
    assert set(found["elements"]) == {"domain:0", "domain:1", "rail:0", "rail:1"}
    assert min(found["link_score"], *found["elements"].values()) >= least
    assert found["reroutes"] == []
    assert found["measured"] == (found["links"] if measure == "probe" else 0)


@pytest.mark.lab
def test_faults_happen_while_it_watches() -> None:
    words = ["watch", *SMALL, "--json", "--fault", "at=1s down rail:1"]
    done = CliRunner().invoke(main, words, prog_name="railweave")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["elements"]["rail:1"] == 0


def test_a_source_that_is_not_there_is_refused() -> None:
    done = CliRunner().invoke(main, ["watch", "--measure", "prob"], prog_name="railweave")
    assert done.exit_code == 2
    assert "did you mean" in done.stderr.lower() and "probe" in done.stderr
