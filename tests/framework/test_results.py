"""Results, figures and the nccl-tests table.

Rows and headers of the table are compared with real nccl-tests output, published by its users (all_gather_perf
of 2.18.3 on two GB10; all_reduce_perf on 64 A100: 1 GiB in 79531 us, algbw 13.50, busbw 26.58).
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.errors import RunFailedError
from railweave.framework.figures import Lap, health_point, iteration_groups, iteration_rows, link_figures
from railweave.framework.model import Fabric, HealthSnapshot, IterationResult, Schedule
from railweave.framework.nccl_table import fitted, nccl_table
from railweave.framework.results import FaultFigures, RerouteFigures, Row, RunResult, from_document
from railweave.framework.rundir import result_json


def schedule(size: int, dtype: str = "float32", ranks: int = 64) -> Schedule:
    none = np.zeros(0, np.int64)
    return Schedule(
        "all-reduce", ranks, size, dtype, "sum", size,
        none, none, none, none, none, none, none, np.zeros(1, np.int64), none,
    )  # fmt: skip


def iteration(number: int, seconds: float, wrong: int = 0) -> IterationResult:
    return IterationResult(number, seconds, wrong, 10, 1, 2, 4096, (seconds / 4, seconds * 3 / 4), 0.1, 0.0)


def rows_of(
    seconds: list[float], *, wrong: int = 0, scale: float = 1.0, size: int = 1 << 30
) -> tuple[Row, ...]:
    starts = np.cumsum([0.0, *seconds])[: len(seconds)]
    laps = [
        Lap(iteration(i, s, wrong), schedule(size), float(starts[i]), 0.5 * s, 0.01, 3 * size)
        for i, s in enumerate(seconds)
    ]
    return iteration_rows(laps, rate_scale=scale, busbw_factor=2 * 63 / 64)


def test_bandwidths_are_those_of_nccl_tests() -> None:
    (row, summary) = rows_of([79531e-6])
    assert (row.size_bytes, row.count, row.type, row.redop) == (1073741824, 268435456, "float", "sum")
    assert round(row.algbw_gbs, 2) == 13.50
    assert round(row.busbw_gbs, 2) == 26.58
    assert (summary.iteration, summary.algbw_gbs) == (None, row.algbw_gbs)


def test_declared_figures_are_those_of_the_unscaled_machine() -> None:
    real, emulated = rows_of([79531e-6])[0], rows_of([7953.1], scale=1e-5)[0]
    assert emulated.declared_time_us == pytest.approx(real.declared_time_us)
    assert emulated.busbw_gbs == pytest.approx(real.busbw_gbs)
    assert emulated.time_us == pytest.approx(real.time_us * 1e5)


def test_the_summary_is_the_mean_time_and_the_sum_of_counts() -> None:
    *_, summary = rows_of([1.0, 2.0, 6.0], wrong=2)
    assert summary.time_us == pytest.approx(3e6)
    assert summary.wrong == 6
    assert (summary.packets, summary.retransmitted, summary.duplicates) == (30, 3, 6)
    assert summary.bound_us == pytest.approx(1.5e6)
    assert summary.ratio_to_bound == pytest.approx(0.5)
    assert summary.ratio_to_model == pytest.approx(0.01 / 3)
    assert summary.phase_us == pytest.approx((0.75e6, 2.25e6))


def test_a_sweep_has_a_summary_for_each_size_and_times_of_no_mixture() -> None:
    laps = [Lap(iteration(i, 1.0 + i), schedule(1024 << i // 2), float(i), None, None, 0.0) for i in range(4)]
    rows = iteration_rows(laps, rate_scale=1.0, busbw_factor=1.0)
    assert [(row.size_bytes, row.time_us) for row in rows if row.iteration is None] == [
        (1024, pytest.approx(1.5e6)),
        (2048, pytest.approx(3.5e6)),
    ]
    groups = iteration_groups(rows, [], [])
    assert (groups.before.iterations, groups.before.median_us) == ((0, 1, 2, 3), None)


def test_what_the_links_carried_is_over_declared_time() -> None:
    row, _ = rows_of([2.0], size=1 << 20, scale=1e-3)
    assert row.netbw_gbs == pytest.approx(3 * 2**20 / 2e-3 / 1e9)


def test_limits_that_do_not_exist_are_none() -> None:
    nothing = Lap(iteration(0, 1.0), schedule(0), 0.0, None, None, 0.0)
    rows = iteration_rows([nothing], rate_scale=1.0, busbw_factor=1.0)
    for row in rows:
        assert (row.bound_us, row.ratio_to_bound, row.model_us, row.ratio_to_model) == (None,) * 4
        assert (row.algbw_gbs, row.count) == (0.0, 0)


def test_no_iteration_is_no_result() -> None:
    with pytest.raises(RunFailedError, match="no iteration ended"):
        rows_of([])


def fault(t_s: float | None, verb: str = "degrade") -> FaultFigures:
    return FaultFigures(f"at=.. {verb} rail:1", verb, "rail:1", t_s, 8)


def test_iterations_are_sorted_by_fault_and_answer() -> None:
    rows = rows_of([1.0, 1.0, 4.0, 2.0, 2.0])  # they begin at 0, 1, 2, 6, 8
    groups = iteration_groups(
        rows, [fault(2.0)], [RerouteFigures(5.0, 2, 24, "w"), RerouteFigures(7.0, 3, 2, "w")]
    )
    assert groups.before.iterations == (0, 1)
    assert groups.during.iterations == (2,)
    assert groups.after.iterations == (3, 4)
    assert groups.speedup == pytest.approx(2.0)
    assert (groups.after.median_us, groups.after.min_us, groups.after.max_us) == pytest.approx(
        (2e6, 2e6, 2e6)
    )


def test_a_fault_in_mid_iteration_makes_it_during() -> None:
    groups = iteration_groups(rows_of([1.0, 1.0, 1.0]), [fault(1.5)], [])
    assert (groups.before.iterations, groups.during.iterations) == ((0,), (1, 2))
    assert groups.after.median_us is None
    assert groups.speedup is None


def test_a_repair_answers_a_fault_too() -> None:
    groups = iteration_groups(rows_of([1.0, 1.0, 1.0]), [fault(1.0, "down"), fault(2.0, "up")], [])
    assert (groups.before.iterations, groups.during.iterations, groups.after.iterations) == ((0,), (1,), (2,))


def test_without_a_fired_fault_all_is_before() -> None:
    for faults in ([], [fault(None)]):
        groups = iteration_groups(rows_of([1.0, 1.0]), faults, [RerouteFigures(0.5, 1, 2, "noise")])
        assert groups.before.iterations == (0, 1)


@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=8), st.floats(0, 10), st.floats(0, 10))
def test_every_iteration_is_in_one_group(seconds: list[float], broken: float, answered: float) -> None:
    groups = iteration_groups(rows_of(seconds), [fault(broken)], [RerouteFigures(answered, 1, 1, "w")])
    members = groups.before.iterations + groups.during.iterations + groups.after.iterations
    assert members == tuple(range(len(seconds)))


def test_utilisation_is_bits_sent_over_bits_possible(fabric: Fabric) -> None:
    sent = np.zeros(fabric.n_links)
    sent[5] = fabric.capacity_bps[5] / 8 * 3
    found = link_figures(fabric, sent, np.zeros(fabric.n_links, int), 6.0, np.ones(fabric.n_links))
    assert found[5].utilisation == pytest.approx(0.5)
    assert found[4].utilisation == 0
    assert found[5].name == fabric.link_name(5)


def test_health_names_rails_domains_and_changed_links(fabric: Fabric) -> None:
    before = HealthSnapshot.healthy(fabric)
    scores, elements = np.ones(fabric.n_links), np.ones(fabric.n_nodes)
    link = next(i for i in range(fabric.n_links) if fabric.link_name(i) == "g2.1->r1")
    scores[link], elements[fabric.node_ids["r1"]] = 0.25, 0.75
    point = health_point(
        fabric, replace(before, version=4, link_score=scores, element_score=elements), before
    )
    assert point.links == {"g2.1->r1": 0.25}
    assert len(point.elements) == 8
    assert (point.elements["rail:1"], point.elements["rail:0"], point.version) == (0.75, 1.0, 4)


def test_the_document_has_the_keys_that_issue_2_names(result: RunResult) -> None:
    document = json.loads(result_json(result))
    assert document["schema"] == {"name": "railweave.run", "version": 1}
    assert {
        "experiment", "seed", "versions", "fabric", "controller", "rows", "links", "health", "faults", "reroutes",
        "fidelity", "timing",
    } <= set(document)  # fmt: skip
    assert set(document["fabric"]) >= {"gpus", "switches", "links", "rate_scale"}
    assert set(document["controller"]) == {"name", "rules", "install_s"}
    assert set(document["rows"][0]) >= {
        "size_bytes", "count", "type", "redop", "time_us", "declared_time_us", "algbw_gbs", "busbw_gbs", "wrong",
        "bound_us", "ratio_to_bound", "model_us", "ratio_to_model",
    }  # fmt: skip
    assert len(document["rows"]) == 5
    assert document["rows"][-1]["iteration"] is None
    assert set(document["links"][0]) == {"name", "kind", "bytes", "drops", "utilisation", "h_score"}
    assert set(document["reroutes"][0]) == {"t_s", "version", "pairs_changed", "why"}
    assert set(document["fidelity"]) == {"verdict", "reasons"}
    assert set(document["timing"]) == {"bring_up_s", "run_s", "tear_down_s"}
    assert set(document["iterations"]) == {"before", "during", "after", "speedup"}


def test_a_result_reads_back(result: RunResult) -> None:
    assert from_document(json.loads(result_json(result))) == result
    assert from_document(msgpack.unpackb(msgpack.packb(result.document()))) == result


def test_numpy_numbers_become_plain(result: RunResult) -> None:
    odd = replace(result, memory_peak_mb=np.float64(3.5), cpu_s={"x": np.float32(1)})  # type: ignore[arg-type]
    assert json.loads(result_json(odd))["memory_peak_mb"] == 3.5


@pytest.mark.parametrize(
    "schema", [None, {"name": "railweave.run", "version": 2}, {"name": "x", "version": 1}]
)
def test_another_schema_is_refused(result: RunResult, schema: object) -> None:
    with pytest.raises(RunFailedError, match=r"not a railweave\.run result of version 1"):
        from_document({**result.document(), "schema": schema})


def test_a_result_with_holes_is_refused(result: RunResult) -> None:
    document = result.document()
    del document["timing"]
    with pytest.raises(RunFailedError, match=r"not whole.*timing"):
        from_document(document)


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        (27211.0, 7, "27211.0"),
        (5871.07, 7, "5871.07"),
        (53140.74, 7, "53140.7"),
        (100829.4, 7, " 100829"),
        (17.39, 7, "  17.39"),
        (39.46, 6, " 39.46"),
        (922.09, 6, "922.09"),
        (0.0, 6, "  0.00"),
        (12345678.0, 7, "1.2e+07"),
    ],
)
def test_decimals_shrink_to_fit_as_in_nccl_tests(value: float, width: int, text: str) -> None:
    assert fitted(value, width) == text


@given(st.floats(0, 1e9), st.sampled_from([6, 7]))
def test_columns_keep_their_width(value: float, width: int) -> None:
    assert len(fitted(value, width)) == width


def test_the_header_is_that_of_nccl_tests(result: RunResult) -> None:
    lines = [line.rstrip() for line in nccl_table(result).splitlines()]
    published = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)"""
    behind = ("", "   netbw   limit", " " * 10 + "(GB/s)")
    expected = [line + more for line, more in zip(published.splitlines(), behind, strict=True)]
    assert lines[4:7] == expected
    assert lines[0].startswith("# nThread 1 nGpus 16 minBytes 1048576 maxBytes 1048576 step:")


def test_a_row_looks_like_a_row_of_nccl_tests(result: RunResult) -> None:
    rows = rows_of([27211.0e-6], size=1073741824)
    table = nccl_table(replace(result, rows=rows, in_place=False))
    line = next(x for x in table.splitlines() if not x.startswith("#"))
    ours = "  1073741824     268435456     float     sum      -1  27211.0   39.46   77.69       0"
    assert line == ours + " " * 33 + "  118.38    0.50"
    in_place = nccl_table(replace(result, rows=rows))
    shifted = next(x for x in in_place.splitlines() if not x.startswith("#"))
    assert shifted.split() == line.split() and shifted.endswith("  118.38    0.50")
    assert shifted.index("27211.0") == line.index("27211.0") + 33


def test_the_footer_counts_iterations_with_wrong_elements(result: RunResult) -> None:
    lines = nccl_table(result).splitlines()
    assert lines[-4] == "# Out of bounds values : 0 OK"
    assert lines[-3] == f"# Avg bus bandwidth    : {result.summary.busbw_gbs:g} "
    assert lines[-1] == "# Collective test concluded: all-reduce"
    wrong = replace(result, rows=rows_of([1.0, 1.0], wrong=7))
    assert "# Out of bounds values : 2 FAILED" in nccl_table(wrong)


def test_the_table_says_that_its_times_are_declared(result: RunResult) -> None:
    assert "100000 times slower (rate scale 1e-05)" in nccl_table(result)


def test_every_key_is_in_the_manual(result: RunResult) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "results.md").read_text()

    def keys(value: object) -> set[str]:
        if isinstance(value, list):
            return set().union(*(keys(v) for v in value))
        return set(value) | keys(list(value.values())) if isinstance(value, dict) else set()

    document = result.document()
    free = {"experiment", "versions", "cpu_s"}  # their own keys are names
    for point in document["health"]:  # type: ignore[attr-defined]
        point["elements"], point["links"] = 0, 0
    found = keys({k: v for k, v in document.items() if k not in free}) | free
    assert {key for key in found if f"`{key}`" not in manual} - {"name", "version"} == set()
