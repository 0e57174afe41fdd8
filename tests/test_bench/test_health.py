"""`bench health`: its arithmetic by hand, its file, what an interrupted one goes on with; one row on the
lab."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import grimp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.bench import health as benchmark
from railweave.bench import row_file as row_file_module
from railweave.bench.health import ELSEWHERE, RAIL, SIZES, cases, compared, health
from railweave.bench.health_rows import Case, Row, judged, ratio
from railweave.bench.row_file import RowFile
from railweave.framework.errors import InputError, RunFailedError
from railweave.framework.experiment.faults import SET_CIRCUITS, VERBS
from railweave.framework.experiment.modes import MODES
from railweave.framework.experiment.plan import Plan, load_plan
from railweave.framework.model.findings import Findings, HealthSamples
from railweave.framework.registry import Registers, load_plugins
from railweave.framework.results.result import RunResult
from railweave.framework.runs.fault_timetable import GroundTruth
from tests.fakes.findings import findings

ROUTERS = ("hscore", "spray", "dor")
"""Of all cases: the ones they name, and the torus's own."""
SLOW = Case("4x4", "1M", RAIL[0], "hscore", 18)
FINE = Row(
    **asdict(SLOW), published_s=0.2, score=0.2, truth=0.2, healthy_min=1.0, reroutes=2,
    to_alone=(0.4, 0.38), to_oracle=(1.02, 0.98), fidelity="pass",
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "ok"),
        ({"healthy_min": 0.85}, "something healthy was published with 0.85"),
        ({"published_s": None}, "the fault was never published"),
        ({"published_s": None, "truth": 0.97, "score": 1.0}, "ok"),  # 3 % of loss is less than a step
        ({"score": 0.35}, "published 0.35 at the end, where 0.20 is true"),
        ({"to_alone": (1.2, 1.04)}, "iterations took 1.20 times those without feedback"),
        ({"to_alone": (1.2, 0.99), "to_oracle": (1.3, 1.05)}, "ok"),  # the intervals reach below
        ({"to_oracle": (1.3, 1.15)}, "iterations took 1.30 times those of the oracle"),
        ({"to_oracle": None}, "no iterations to compare with those of the oracle"),
        ({"to_oracle": None, "fault": "", "reroutes": 0}, "ok"),
        ({"to_oracle": None, "to_alone": None, "size": "16M"}, "ok"),
        ({"allowance_s": 0.2}, "ok"),
        ({"allowance_s": 0.15}, "the fault was published after 0.20 s, 0.15 s are allowed"),
        ({"allowance_s": 0.15, "truth": 0.6, "score": 0.6}, "ok"),  # mild faults may take longer
        ({"rules_s": 0.3, "fabric": "16x16"}, "ok"),
        ({"rules_s": 0.3}, "new rules were in use after 0.30 s, 0.25 s are allowed"),
        ({"restored": 9, "answered_s": 0.3}, "what was restored was never used again"),
        ({"restored": 9, "answered_s": 0.3, "back_s": 3.5}, "ok"),
        ({"restored": 9, "answered_s": 0.3, "back_s": 3.6}, "what was restored was used again after 3.60 s"),
        ({"restored": 9}, "ok"),  # nothing had left it
        ({"fault": "", "reroutes": 2}, "2 reroutes of a healthy fabric"),
        ({"fault": "", "reroutes": 0, "fidelity": "degraded"}, "fidelity degraded"),
        ({"fidelity": "degraded"}, "ok"),
        ({"fidelity": "invalid", "healthy_min": 0.5}, "something healthy was published with 0.50; fidelity"),
    ],
)
def test_what_a_row_is_judged_by(changes: dict[str, Any], verdict: str) -> None:
    row = judged(replace(FINE, **changes))
    assert row.verdict.startswith(verdict)
    assert replace(row, verdict="") == replace(FINE, **changes)


def test_the_ratio_of_times_that_do_not_vary_has_no_width() -> None:
    assert ratio([3.0] * 10, [2.0] * 10) == (1.5, 1.5)
    assert ratio([], [1.0]) is None and ratio([1.0], []) is None


def test_the_interval_is_about_that_of_the_normal_approximation() -> None:
    """The second method: the median of n normal times has the standard error 1.2533 s / sqrt(n)."""
    rng, n = np.random.default_rng(5), 400
    ours, theirs = rng.normal(100, 5, n).tolist(), rng.normal(100, 5, n).tolist()
    found = ratio(ours, theirs)
    assert found is not None
    error = 1.2533 * 5 / np.sqrt(n) / 100 * np.sqrt(2)
    assert found[1] == pytest.approx(found[0] - 1.96 * error, abs=0.35 * 1.96 * error)


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=12), st.floats(0.01, 100))
def test_the_ratio_does_not_depend_on_the_unit(times: list[float], unit: float) -> None:
    found, again = ratio(times, times), ratio([t * unit for t in times], [t * unit for t in times])
    assert found is not None and again is not None
    assert found == pytest.approx(again) and found[0] == 1 and found[1] <= 1 + 1e-9


def test_the_matrix_has_every_size_and_every_kind_of_fabric_once() -> None:
    full = cases(quick=False)
    assert len(set(full)) == len(full)
    assert {(c.fabric, c.size) for c in full if c.fault == RAIL[0] and c.router == "hscore"} == {
        (fabric, size) for fabric in ("4x4", "8x4", "8x8") for size in SIZES
    }
    assert {(c.fabric, c.hold) for c in full if c.hold and c.hold_s == 60} == {
        *((fabric, hold) for fabric in benchmark.FABRICS for hold in ("idle", "load", "tcp")),
        *(("4x4", hold) for hold in ("cpu bursts", "two labs", "after a fault")),
    }
    assert {(c.size, c.fault) for c in cases(quick=True)} == {("64K", RAIL[0]), ("1M", RAIL[0]), ("", "")}


@pytest.mark.parametrize("router", ["hscore", "spray"])
def test_the_matrix_has_every_verb_that_leaves_paths_on_every_kind_of_object(router: str) -> None:
    faults = {c.fault for c in cases(quick=False) if (c.fabric, c.size, c.router) == ("4x4", "1M", router)}
    lasting = {name for name, verb in VERBS.items() if not verb.objects} - {"down", "up", "restore"}
    lasting -= {*SET_CIRCUITS}  # these fabrics have none
    kinds = ("rail", "domain", "link")
    assert {tuple(fault.split(":")[0].split()) for fault in faults - {""}} == {
        *((verb, kind) for verb in lasting for kind in kinds),
        *((verb, "nic") for verb in ("degrade", "loss")),
    }
    depths = {(fault.split(":")[0], fault.split("=")[-1]) for fault in faults if " to=" in fault}
    assert depths >= {(f"degrade {kind}", f"{to}%") for kind in kinds for to in (80, 60, 50, 20)}


def test_every_case_of_the_matrix_can_be_planned() -> None:
    registers = load_plugins()
    seen = {(c.fabric, c.fault, c.router, c.restored): c for c in cases(quick=False) if c.iterations}
    for case in seen.values():
        keys = {"router": case.router} if case.router else {}
        faults = [f"at=iter:1 {case.fault}"] if case.fault else []
        faults += [f"at=iter:2 restore {case.fault.split()[1]}"] if case.restored else []
        fabric = benchmark.FABRICS[case.fabric]
        plan = load_plan(None, {**fabric, **keys, "size": "64K", "faults": faults}, registers)
        assert {fault.at_iteration for fault in plan.faults} == set(range(1, len(faults) + 1))


def timed(result: RunResult, seconds: float, **fault: float) -> RunResult:
    """The fixture's run (two iterations of 1 s, the fault at 2 s, one of 2.5 s, one from 4.5 s on) with
    another last iteration."""
    rows = tuple(
        replace(row, declared_time_us=seconds * 1e6 if row.iteration == 3 else row.declared_time_us)
        for row in result.rows
    )
    return replace(result, rows=rows, faults=(replace(result.faults[0], **fault),))


def test_figures_of_three_runs_by_hand(registers: Registers, result: RunResult) -> None:
    fault = f"at=iter:2 {RAIL[0]}"
    plan = load_plan(None, {"iterations": 4, "faults": [fault]}, registers)
    known = GroundTruth(plan.fabric, plan.experiment.health)
    known.inject(plan.faults[0], 2.0)
    links, elements = np.ones((2, plan.fabric.n_links)), np.ones((2, plan.fabric.n_nodes))
    elements[1, plan.fabric.node_ids["r1"]], elements[0, plan.fabric.node_ids["d2"]] = 0.25, 0.95
    links[0, 0] = 0.9
    single = [array.astype(np.float32) for array in (*[links] * 4, elements)]
    found = findings(
        plan.fabric, samples=HealthSamples(np.array([1.0, 3.0]), *single), truth=(known.snapshot,)
    )
    answered = {"detected_s": 0.5, "published_s": 0.25, "recovered_s": 2.5, "allowance_s": 0.75}
    runs = [
        (plan, found, timed(result, 1.5, **answered)),  # the iteration from 4.5 s on
        (plan, found, timed(result, 3.0)),  # 2.5e-5 s and 3 s, after the fault
        (plan, found, timed(result, 1.25, recovered_s=2.4)),
    ]
    row = compared(Row(**asdict(SLOW)), runs)
    assert (row.detected_s, row.published_s, row.answered_s) == (0.5, 0.25, 2.5)
    assert (row.allowance_s, row.rules_s, row.back_s) == (0.75, 2.25, None)
    assert (row.score, row.truth, row.healthy_min) == (0.25, pytest.approx(0.2), pytest.approx(0.9))
    assert (row.healthy_us, row.faulted_us, row.oracle_us) == pytest.approx((10.0, 1.5e6, 1.25e6))
    assert row.alone_us == pytest.approx((25 + 3e6) / 2)
    assert row.to_oracle is not None and row.to_oracle == pytest.approx((1.2, 1.2))
    with pytest.raises(RunFailedError, match="1 elements came out wrong"):
        compared(
            row, [(plan, found, replace(result, rows=(*result.rows[:-1], replace(result.summary, wrong=1))))]
        )


def test_figures_of_a_fault_that_is_undone(registers: Registers, result: RunResult) -> None:
    """Rail 1 at a fifth from 2 s to 4 s: the truth at the end is 1, and rail 1 is not of what was healthy."""
    faults = [f"at=iter:2 {RAIL[0]}", "at=iter:3 restore rail:1"]
    plan = load_plan(None, {"iterations": 4, "faults": faults}, registers)
    known, truth, rail = GroundTruth(plan.fabric, plan.experiment.health), [], plan.fabric.node_ids["r1"]
    for fault, t_s in zip(plan.faults, (2.0, 4.0), strict=True):
        known.inject(fault, t_s)
        truth.append(known.snapshot)
    links, elements = np.ones((3, plan.fabric.n_links)), np.ones((3, plan.fabric.n_nodes))
    links[1, plan.fabric.element_links(rail)], elements[1, rail], elements[2, rail] = 0.2, 0.2, 0.95
    single = [array.astype(np.float32) for array in (*[links] * 4, elements)]
    found = findings(
        plan.fabric, samples=HealthSamples(np.array([1.0, 3.0, 5.0]), *single), truth=tuple(truth)
    )
    slow = timed(result, 1.0, published_s=0.25, recovered_s=0.5)
    repaired = replace(slow.faults[0], verb="restore", t_s=4.0, published_s=0.5, recovered_s=1.5)
    row = compared(
        Row(**asdict(replace(SLOW, restored=3))),
        [(plan, found, replace(slow, faults=(slow.faults[0], repaired)))],
    )
    assert (row.rules_s, row.back_s, row.to_alone, row.to_oracle) == (0.25, 1.5, None, None)
    assert (row.score, row.truth, row.healthy_min) == (pytest.approx(0.95), 1.0, 1.0)
    assert judged(replace(row, fidelity="pass", rules_s=0.05)).verdict == "ok"


def row_file(path: Path) -> RowFile[Row]:
    return RowFile(path, Row, "bench health")


def test_rows_are_kept_and_one_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.jsonl"
    other = Row("8x8", hold="idle", hold_s=60.0, healthy_min=1.0, verdict="ok")
    with row_file(path) as file:
        for row in (judged(FINE), other):
            file.add(row)
    with row_file(path) as file:
        assert file.rows == [judged(FINE), other]
    monkeypatch.setattr(row_file_module, "code_version", lambda *_, elsewhere: "0" * 12)
    with pytest.raises(InputError, match="of the code, this is 000000000000"):
        row_file(path)


def test_what_changes_no_version_of_rows_is_nothing_that_they_depend_on() -> None:
    """By what is imported, however far; the ledger and the version itself measure nothing."""
    graph = grimp.build_graph("railweave", cache_dir=None)
    rooms = "framework.lab", "controllers", "topologies", "traffic", *map("plugins.{}".format, ROUTERS)
    inside = tuple(f"railweave.{room}." for room in rooms)
    runs = {"railweave.bench.health", *(module for module in graph.modules if module.startswith(inside))}
    needed = runs.union(*(graph.find_upstream_modules(module) for module in runs))
    elsewhere = tuple(f"railweave.{folder}.".replace("/", ".") for folder in ELSEWHERE)
    for folder in elsewhere:
        assert graph.find_children(folder.rstrip("."))
    assert {module for module in needed if f"{module}.".startswith(elsewhere)} <= {
        "railweave.framework.studies.ledger",
        "railweave.framework.studies.version",
    }


def test_one_cable_is_judged_by_its_links(registers: Registers) -> None:
    """A tenth of rail 1's links at a fifth of their rate leave it 0.9 by the mean of its links; they have 0.2
    each. Nothing healthy is published with less than 0.95."""
    fault = "at=iter:2 degrade link:g0.1->r1 to=20%"
    plan = load_plan(None, {"iterations": 4, "faults": [fault]}, registers)
    known = GroundTruth(plan.fabric, plan.experiment.health)
    known.inject(plan.faults[0], 2.0)
    links, elements = np.ones((1, plan.fabric.n_links)), np.ones((1, plan.fabric.n_nodes))
    (slow,) = plan.faults[0].links
    links[0, slow], elements[0, plan.fabric.node_ids["r1"]] = 0.25, 0.9
    elements[0, plan.fabric.node_ids["d2"]] = 0.95
    single = [array.astype(np.float32) for array in (*[links] * 4, elements)]
    found = findings(plan.fabric, samples=HealthSamples(np.array([3.0]), *single), truth=(known.snapshot,))
    row = benchmark._scored(Row(**asdict(SLOW)), plan, found)
    assert (row.score, row.truth, row.healthy_min) == (0.25, pytest.approx(0.2), pytest.approx(0.95))


def test_another_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("fabric,size\n")
    with pytest.raises(InputError, match=r"--resume .*notes\.txt holds no rows of a study"):
        row_file(path)
    assert path.read_text() == "fabric,size\n"
    with pytest.raises(InputError, match="cannot be opened: No such file"):
        row_file(tmp_path / "nowhere" / "rows.jsonl")


def test_an_interrupted_benchmark_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registers: Registers
) -> None:
    measured: list[Case] = []

    def once(case: Case, _: object) -> Row:
        measured.append(case)
        if len(measured) == 3:
            raise KeyboardInterrupt
        return Row(**asdict(case), verdict="failed: no switch" if len(measured) == 1 else "ok")

    monkeypatch.setattr(benchmark, "_measured", once)
    path, told, todo = tmp_path / "rows.jsonl", list[str](), cases(quick=True)
    with pytest.raises(KeyboardInterrupt):
        health(registers, True, str(path), told.append)
    assert len(path.read_text().splitlines()) == 1 + 2 and measured == todo[:3]
    figures = health(registers, True, str(path), told.append)
    assert measured[3:] == [todo[0], todo[2], todo[3]]  # the failed one again, and where it was interrupted
    assert (figures["cases"], figures["as_they_should_be"]) == (4, 4)
    assert told[-1] == "4/4 4x4 tcp for 10 s: ok"
    assert json.loads(json.dumps(figures, allow_nan=False))["rows"][0]["fault"] == RAIL[0]
    assert health(registers, True, str(path), told.append) == figures and len(measured) == 6


@pytest.mark.parametrize("low, left", [(0.95, 0), (0.5, 2)])
def test_a_row_that_is_not_ok_leaves_its_runs(
    low: float, left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registers: Registers
) -> None:
    case = Case("4x4", hold="two labs", hold_s=60.0)
    one = findings(load_plan(None, dict(benchmark.FABRICS["4x4"]), registers).fabric)
    lower = replace(one, samples=replace(one.samples, link_score=one.samples.link_score * np.float32(low)))
    monkeypatch.setattr(benchmark, "kept", lambda *_: [one, lower])
    monkeypatch.chdir(tmp_path)
    row = benchmark._measured(case, registers)
    runs = sorted(tmp_path.glob("runs/*-bench-health-4x4-two-labs-for-60-s*"))
    assert (row.verdict == "ok") == (not left) and len(runs) == left
    for run, seen in zip(runs, (one, lower), strict=False):
        with np.load(run / "health.npz") as arrays:
            assert np.array_equal(arrays["link_score"], seen.samples.link_score)
        assert (run / "experiment.yaml").exists()


def test_all_runs_of_a_case_are_at_the_scale_that_the_first_chose(registers: Registers) -> None:
    class Engine:
        def run(self, plan: Plan, *_: object) -> Findings:
            told.append(plan.document())
            return findings(plan.fabric, rate_scale=2e-6)

    told: list[dict[str, Any]] = []
    plan = load_plan(None, {}, registers)
    runs = benchmark._runs(replace(SLOW, iterations=16), registers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark, "run_result", lambda *_: None)
        patch.setattr(type(plan.engine), "run", Engine.run, raising=False)
        list(runs)
    assert [(t["rate_scale"], t["iterations"], t["feedback"], t["oracle"]) for t in told] == [
        ("auto", 16, True, False), (2e-6, 3, False, False), (2e-6, 6, True, True),
    ]  # fmt: skip


@pytest.mark.parametrize("case", [case for case in cases(quick=False) if case.compared])
def test_every_run_has_an_iteration_that_begins_after_the_answer(case: Case) -> None:
    """Without feedback there is no answer; else it comes while the first iteration with the fault runs."""
    for mode in MODES:
        first, many = benchmark._first(case, mode), benchmark._keys(case, mode)["iterations"]
        assert isinstance(many, int) and many - first >= (1 if mode == "no-feedback" else 2)


@pytest.mark.parametrize("case", [case for case in cases(quick=False) if case.compared])
def test_runs_are_of_one_length_where_iterations_are_not_alike(case: Case) -> None:
    """With 20 % of a cable lost an iteration takes 13 to 25 us, so a median of three says little."""
    lengths = {benchmark._keys(case, mode)["iterations"] for mode in MODES}
    before = {benchmark._first(case, mode) for mode in MODES}
    assert (len(lengths) == len(before) == 1) == (case.fault.split()[0] in ("loss", "corrupt", "flap"))


@pytest.mark.quiet
@pytest.mark.lab
def test_a_row_on_the_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"topology": "rail-only", "topology.domains": 2, "topology.rails": 2}
    monkeypatch.setitem(benchmark.FABRICS, "4x4", small)
    row = benchmark._measured(Case("4x4", "256K", RAIL[0], "hscore", 12), load_plugins())
    assert not row.verdict.startswith(benchmark.FAILED), row.verdict
    assert row.truth == pytest.approx(0.2) and row.healthy_min is not None and row.fidelity != "invalid"
    assert row.healthy_us and row.faulted_us and row.oracle_us and row.alone_us
    assert row.published_s is not None and row.allowance_s is not None and row.published_s <= row.allowance_s
    assert row.alone_us > 1.5 * row.oracle_us and row.to_oracle is not None
