"""Procedures of the BMWG draft on computed fabrics: figures by closed forms, and against runs by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import railweave as rw
from railweave.framework.api import installed
from railweave.framework.api.studies import bmwg, bmwg_procedures
from railweave.framework.cli import main
from railweave.framework.studies.bmwg import NOT_EMULATED, failing_link, failure

RAILS = ("--engine", "fluid", "--domains", "2", "--rails", "8", "--size", "256K", "--quick")


@pytest.fixture
def railweave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.chdir(tmp_path)
    return CliRunner().invoke(main, ["bmwg", *RAILS, "--json"], prog_name="railweave")


def test_every_procedure_has_its_figures(railweave: Result) -> None:
    """The same experiments by hand: 6 all-reduces, and a link down after 4 of 8."""
    assert railweave.exit_code == 0, railweave.output
    found = json.loads(railweave.stdout)
    assert found["schema"] == {"name": "railweave.bmwg", "version": 1} and found["quick"] is True
    rows = {(row["section"], row["name"]): row for row in found["procedures"]}
    assert [row["section"] for row in found["procedures"]] == [
        "9.1", "9.2", "9.3", "11.2", "11.2", "7.2", "10.3", "10.3", "10.3", "10.3",
    ]  # fmt: skip
    keys = {"engine": "fluid", "domains": 2, "rails": 8, "size": "256K"}
    healthy = rw.run(iterations=6, faults=[], **keys).summary
    steady = rows["9.1", "all-reduce, BusBW and JCT ratio (10.1)"]["figures"]
    assert steady["jct_us"] == pytest.approx(healthy.declared_time_us)
    assert steady["jct_ratio"] == pytest.approx(1 / healthy.ratio_to_bound)
    assert (steady["iterations"], steady["busbw_p99_gbs"]) == (6, None)
    broken = rw.run(iterations=8, faults=["at=iter:4 down link:g0.0->r0"], **keys)
    failed = rows["11.2", "g0.0->r0 fails (11.3), hscore, feedback"]["figures"]
    times = [row.declared_time_us for row in broken.rows if row.iteration is not None]
    assert failed["steady_us"] == pytest.approx(times[0])
    assert failed["failure_iteration_us"] == pytest.approx(times[4])
    assert failed["redistribution_s"] == broken.faults[0].recovered_s
    assert failed["zero_impact"] is (times[4] <= times[0]) and failed["of_longest"] is True
    shared = [row["figures"]["interference"] for row in found["procedures"] if row["section"] == "10.3"]
    assert shared[0] == pytest.approx(1) and shared[1:] == [pytest.approx(2)] * 3
    assert NOT_EMULATED.items() <= found["not_emulated"].items()


def test_an_incast_takes_the_time_of_the_receivers_link(tmp_path: Path) -> None:
    """On a fat tree with 16 hosts 15 messages of 1 MiB arrive over one link of 400 Gb/s, in shares that are
    equal, so that all land together: 15 x 256 packets of 4,154 bytes and 15 headers of 16."""
    plan = rw.load(engine="fluid", topology="fat-tree", k=4, size="1M", faults=[])
    chosen, left_out = bmwg_procedures(plan, [plan.experiment.router.name], quick=True)
    assert "10.3 interference of jobs" in left_out
    (incast,) = (procedure for procedure in chosen if procedure.section == "7.2")
    (outcome,) = bmwg(plan, [incast], tmp_path)
    wire_bits = 15 * (256 * 4154 + 16) * 8
    assert outcome.figures["fct_p50_us"] == pytest.approx(wire_bits / 400e9 * 1e6, rel=1e-3)
    assert outcome.figures["fct_max_us"] == pytest.approx(wire_bits / 400e9 * 1e6, rel=1e-3)
    assert outcome.figures["messages"] == 4 * 15


@pytest.mark.parametrize("topology", ["fat-tree", "ring", "torus"])
def test_other_fabrics_take_the_collectives_that_serve_them(topology: str) -> None:
    options = {"fat-tree": {"k": 4}, "ring": {}, "torus": {"shape": "4x4"}}[topology]
    plan = rw.load(engine="fluid", topology=topology, size="64K", faults=[], **options)
    chosen, _ = bmwg_procedures(plan, [plan.experiment.router.name], quick=True)
    for procedure in chosen:
        if procedure.section.startswith("9."):
            rw.load(engine="fluid", topology=topology, size="64K", **options, **procedure.keys)


def test_the_link_that_fails_is_one_between_switches_if_there_is_one() -> None:
    tree, rails = rw.topology("fat-tree", k=4), rw.topology("rail-only", domains=2, rails=2)
    assert failing_link(rails) == "g0.0->r0"
    source, _, target = failing_link(tree).partition("->")
    assert not source.startswith("g") and not target.startswith("g")


def test_a_failure_that_is_no_longer_than_one_in_a_hundred_has_no_impact() -> None:
    """100 iterations of 1 to 1.99 s, then one of 1.98 s, P99 by nearest rank, or of 1.99 s."""

    result = rw.run(
        engine="fluid", domains=2, rails=2, size="64K", iterations=2, faults=["at=iter:1 down link:g0.0->r0"]
    )
    row, fault, at_s = result.rows[0], result.faults[0], 0.0
    rows = []
    for i in range(101):
        seconds = 1 + i / 100 if i < 100 else 1.98
        rows.append(replace(row, iteration=i, t_s=at_s, time_us=seconds * 1e6, declared_time_us=seconds))
        at_s += seconds
    begin_s = rows[-1].t_s
    for seconds, none in ((1.98, True), (1.99, False)):
        last = replace(rows[-1], time_us=seconds * 1e6, declared_time_us=seconds)
        found = failure(replace(result, rows=(*rows[:-1], last), faults=(replace(fault, t_s=begin_s),)))
        assert (found["zero_impact"], found["of_longest"]) == (none, False)


def test_a_procedure_that_fails_has_its_error_and_the_others_go_on(tmp_path: Path) -> None:
    """Without feedback hscore keeps to the rail that is down, and the iteration never ends."""
    plan = rw.load(engine="fluid", domains=2, rails=2, size="64K", faults=[])
    chosen, _ = bmwg_procedures(plan, ["hscore"], installed(), quick=True)
    failures = [procedure for procedure in chosen if procedure.section == "11.2"]
    with_feedback, without = bmwg(plan, failures, tmp_path)
    assert with_feedback.error is None and with_feedback.verdict == "pass"
    assert without.error is not None and without.figures == {}


def test_it_claims_nothing(railweave: Result) -> None:
    help_ = CliRunner().invoke(main, ["bmwg", "--help"], prog_name="railweave").output
    manual = (Path(__file__).parents[3] / "docs" / "bmwg.md").read_text()
    assert "conform" not in (railweave.output + help_ + manual).lower()
