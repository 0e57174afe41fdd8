"""The row of a run: figures of its result, and where among its iterations faults fell."""

from __future__ import annotations

import json

import pytest

import railweave as rw
from railweave.framework.studies.figures import MEANINGS, figures_of


def test_a_row_has_the_figures_of_the_result() -> None:
    """Every step of a ring waits for its slowest link, so one at a fifth makes it five times as long."""
    result = rw.run(
        engine="fluid", topology="ring", nodes=8, size="1M", collective="ring-all-reduce",
        feedback=False, iterations=6, faults=["at=iter:2 degrade link:g0->g1 to=20%"],
    )  # fmt: skip
    row = figures_of(result)
    assert row["faults_at"] == [1.5] and len(row["iterations_us"]) == 6
    assert row["before_us"] == pytest.approx(row["iterations_us"][0], rel=1e-5)
    assert row["settled_us"] == pytest.approx(row["iterations_us"][-1], rel=1e-5)
    assert row["slowdown"] == pytest.approx(5.0, rel=0.01) and row["answered_s"] is None
    assert row["reroutes"] == 0 and row["router"] == "shortest" and row["gpus"] == 8
    assert {*row} >= {*MEANINGS} - {"seconds"}


def test_a_row_without_a_fault_and_one_of_jobs() -> None:
    healthy = figures_of(rw.run(engine="fluid", domains=2, rails=2, size="64K", iterations=3))
    assert healthy["faults_at"] == [] and healthy["after_us"] is None and healthy["interference"] is None
    assert healthy["settled_us"] == pytest.approx(healthy["iteration_us"], rel=1e-9)
    jobs = ["name=a ranks=all share=true", "name=b ranks=all share=true"]
    both = figures_of(rw.run(engine="fluid", domains=2, rails=2, size="64K", iterations=3, jobs=jobs))
    assert both["interference"] == pytest.approx(2.0, rel=0.05) and both["fairness"] == pytest.approx(1.0)


def test_a_row_of_many_iterations_stays_below_two_kilobytes() -> None:
    result = rw.run(engine="fluid", domains=2, rails=2, size="64K", iterations=500)
    text = json.dumps(figures_of(result), default=float)
    assert len(text) < 2000 and len(figures_of(result)["iterations_us"]) == 100
