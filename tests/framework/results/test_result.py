"""Results, figures and the nccl-tests table.

Rows and headers of the table are compared with real nccl-tests output, published by its users
(all_gather_perf of 2.18.3 on two GB10; all_reduce_perf on 64 A100: 1 GiB in 79531 us, algbw 13.50, busbw
26.58).
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.errors import InputError, RunFailedError
from railweave.framework.judging.link_figures import link_figures
from railweave.framework.judging.rows import iteration_groups, iteration_rows
from railweave.framework.model import Fabric, IterationResult, Schedule
from railweave.framework.model.findings import LinkTotals
from railweave.framework.page.data.figure_texts import figures
from railweave.framework.results.directory import read_result, result_json
from railweave.framework.results.figures import (
    FaultFigures,
    JobFigures,
    KeyFigures,
    RerouteFigures,
    Row,
)
from railweave.framework.results.nccl_table import fitted, nccl_table
from railweave.framework.results.result import (
    RunResult,
    from_document,
    json_schema,
)
from tests.fakes.findings import findings, timed

"""The directory of a run by the version before."""


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
    iterations = [
        timed(iteration(i, s, wrong), schedule(size), float(starts[i]), 0.5 * s, 0.01, 3 * size)
        for i, s in enumerate(seconds)
    ]
    return iteration_rows(iterations, rate_scale=scale, busbw_factor=2 * 63 / 64)


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
    iterations = [
        timed(iteration(i, 1.0 + i), schedule(1024 << i // 2), float(i), None, None, 0.0) for i in range(4)
    ]
    rows = iteration_rows(iterations, rate_scale=1.0, busbw_factor=1.0)
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
    nothing = timed(iteration(0, 1.0), schedule(0), 0.0, None, None, 0.0)
    rows = iteration_rows([nothing], rate_scale=1.0, busbw_factor=1.0)
    for row in rows:
        assert (row.bound_us, row.ratio_to_bound, row.model_us, row.ratio_to_model) == (None,) * 4
        assert (row.algbw_gbs, row.count) == (0.0, 0)


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


def test_utilisation_is_bits_sent_over_bits_possible_and_loss_packets_over_packets(fabric: Fabric) -> None:
    none, measured_s = np.zeros(fabric.n_links), np.full(fabric.n_links, -np.inf)
    sent, packets, lost = none.copy(), none.copy(), none.copy()
    sent[5], packets[5], lost[5] = fabric.capacity_bps[5] / 8 * 3, 400, 30
    measured_s[5] = 4.5
    links = LinkTotals(sent, packets, none, lost)
    found = link_figures(fabric, findings(fabric, run_s=6.0, links=links, measured_s=measured_s))
    assert (found[5].utilisation, found[5].loss) == (pytest.approx(0.5), pytest.approx(0.075))
    assert (found[5].age_s, found[4].age_s) == (1.5, None)
    assert (found[4].utilisation, found[4].loss) == (0, 0)
    assert found[5].name == fabric.link_name(5)


def test_the_document_has_the_keys_that_issue_2_names(result: RunResult) -> None:
    document = json.loads(result_json(result))
    assert document["schema"] == {"name": "railweave.run", "version": 2}
    assert {
        "experiment", "seed", "versions", "fabric", "controller", "rows", "links", "health", "faults",
        "reroutes",         "fidelity", "timing",
    } <= set(document)  # fmt: skip
    assert set(document["fabric"]) >= {"gpus", "switches", "links", "rate_scale"}
    assert set(document["controller"]) == {"name", "rules", "install_s"}
    assert set(document["rows"][0]) >= {
        "size_bytes", "count", "type", "redop", "time_us", "declared_time_us", "algbw_gbs", "busbw_gbs",
        "wrong",         "bound_us", "ratio_to_bound", "model_us", "ratio_to_model",
    }  # fmt: skip
    assert len(document["rows"]) == 5
    assert document["rows"][-1]["iteration"] is None
    assert set(document["links"][0]) >= {"name", "kind", "bytes", "drops", "loss", "utilisation", "h_score"}
    assert set(document["reroutes"][0]) == {"t_s", "version", "pairs_changed", "why", "job"}
    assert set(document["fidelity"]) == {"verdict", "reasons"}
    assert set(document["timing"]) == {"bring_up_s", "run_s", "tear_down_s"}
    assert set(document["iterations"]) == {"before", "during", "after", "speedup", "job"}


def test_a_result_reads_back(result: RunResult) -> None:
    assert from_document(json.loads(result_json(result))) == result
    assert from_document(msgpack.unpackb(msgpack.packb(result.document()))) == result


def test_numpy_numbers_become_plain(result: RunResult) -> None:
    one: Any = np.float32(1)
    odd = replace(result, memory_peak_mb=np.float64(3.5), cpu_s={"x": one})
    assert json.loads(result_json(odd))["memory_peak_mb"] == 3.5


@pytest.mark.parametrize(
    "schema", [None, *({"name": "railweave.run", "version": n} for n in (1, 3)), {"name": "x"}]
)
def test_another_schema_is_refused(result: RunResult, schema: object) -> None:
    why = f"not a railweave.run result of version 2 but {schema!r}. Use the railweave that wrote it."
    with pytest.raises(RunFailedError, match=re.escape(why)):
        from_document({**result.document(), "schema": schema})


def test_a_result_with_holes_is_refused(result: RunResult) -> None:
    document = result.document()
    del document["timing"]
    with pytest.raises(RunFailedError, match=r"not whole.*timing"):
        from_document(document)


def failed_job(number: int, result: RunResult) -> JobFigures:
    groups = replace(result.iterations, job=number)
    return JobFigures(number, str(number), ("g0.0",), groups, result.fidelity, None, None, None, None, "gone")


def test_rows_without_a_summary_or_a_job_are_refused(result: RunResult) -> None:
    each, (summary,) = result.rows[:-1], result.summaries
    for rows, why in (
        ((), "there are no rows"),
        (each, "rows have no summary of job 0"),
        ((summary, *each), "rows have no summary of job 0"),
        ((*result.rows, replace(summary, job=3)), "rows are of job 3, which it does not list"),
    ):
        with pytest.raises(RunFailedError, match=f"not whole: {why}"):
            from_document(replace(result, rows=rows).document())


def test_a_result_of_jobs_that_all_failed_is_read_without_rows(result: RunResult) -> None:
    jobs = failed_job(0, result), failed_job(1, result)
    failed = replace(result, rows=(), jobs=jobs, key_figures=KeyFigures(max_mean_ratio={"r": 1.5}))
    assert from_document(failed.document()) == failed and "RunResult" in repr(failed)
    assert {figure.name for figure in figures(failed)} == {"MMR", "Reroutes"}
    one_lives = replace(failed, jobs=(failed.jobs[0], replace(failed.jobs[1], error=None)))
    with pytest.raises(RunFailedError, match="there are no rows"):
        from_document(one_lives.document())


def test_what_a_result_is_of_one_job_reads_back(result: RunResult) -> None:
    """Its rows keep the number of their job, which no job lists any more."""
    rows = tuple(replace(row, job=1) for row in result.rows)
    both = replace(
        result,
        rows=(*result.rows, *rows),
        jobs=(failed_job(0, result), failed_job(1, result)),
        experiment={"jobs": [{"ranks": "rail:0"}, {"ranks": "rail:1"}]},
    )
    second = both.of_job(1)
    assert from_document(second.document()) == second and second.rows == rows


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
    group = "     time   algbw   busbw  #wrong"
    units = "     (us)  (GB/s)  (GB/s)"
    published = [
        "#" + " " * 62 + "out-of-place" + " " * 23 + "in-place",
        "#       size         count      type   redop    root" + group + group,
        "#        (B)    (elements)                          " + units + " " * 8 + units,
    ]
    behind = ("", "   netbw   limit", " " * 10 + "(GB/s)")
    expected = [line + more for line, more in zip(published, behind, strict=True)]
    assert lines[4:7] == expected
    assert lines[0].startswith("# nThread 1 nGpus 16 minBytes 1048576 maxBytes 1048576 step:")


def test_a_row_looks_like_a_row_of_nccl_tests(result: RunResult) -> None:
    rows = rows_of([27211.0e-6], size=1073741824)
    table = nccl_table(replace(result, rows=rows))
    line = next(x for x in table.splitlines() if not x.startswith("#"))
    ours = "  1073741824     268435456     float     sum      -1  27211.0   39.46   77.69       0"
    at = ours.index("  27211.0")
    assert line == ours[:at] + " " * 33 + ours[at:] + "  118.38    0.50"


def test_the_footer_counts_iterations_with_wrong_elements(result: RunResult) -> None:
    lines = nccl_table(result).splitlines()
    assert lines[-4] == "# Out of bounds values : 0 OK"
    assert lines[-3] == f"# Avg bus bandwidth    : {result.summary.busbw_gbs:g} "
    assert lines[-1] == "# Collective test concluded: all-reduce"
    wrong = replace(result, rows=rows_of([1.0, 1.0], wrong=7))
    assert "# Out of bounds values : 2 FAILED" in nccl_table(wrong)
    unchecked = replace(result, rows=rows_of([1.0, 1.0], wrong=None))
    assert "# Out of bounds values : N/A" in nccl_table(unchecked)


def test_the_table_says_that_its_times_are_declared(result: RunResult) -> None:
    assert "100000 times slower (rate scale 1e-05)" in nccl_table(result)


def test_a_narrow_terminal_gets_a_table_that_fits(result: RunResult) -> None:
    lines = nccl_table(result, 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "# all-reduce, 16 GPUs, float sum, mean of 4 iterations, healthy and faulted"
    heads, units, row = (line.replace("#", " ", 1).split() for line in lines[2:5])
    assert heads == ["size", "time", "algbw", "busbw", "netbw", "limit", "#wrong"] and len(units) == 5
    assert row[0] == "1048576" and row[-1] == "0"
    assert nccl_table(result, 140) == nccl_table(result)


def test_a_broadcast_has_a_root_and_reduces_nothing(result: RunResult) -> None:
    asked = {"collective": {"name": "broadcast", "root": 0}}
    one = np.ones(1, np.int64)
    moved = Schedule(
        "broadcast", 2, 4, "float32", "sum", 4,
        0 * one, one, 0 * one, 0 * one, 4 * one, 0 * one, 0 * one,
        np.zeros(2, np.int64), np.zeros(0, np.int64),
    )  # fmt: skip
    rows = iteration_rows(
        [timed(iteration(0, 1.0), moved, 0.0, None, None, 0.0)],
        rate_scale=1.0,
        busbw_factor=1.0,
        root=0,
    )
    line = next(
        x for x in nccl_table(replace(result, experiment=asked, rows=rows)).splitlines() if x[0] != "#"
    )
    assert line.split()[2:5] == ["float", "none", "0"]


def test_what_is_no_run_is_refused_with_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such run directory or file"):
        read_result(tmp_path / "nothing")
    for name in ("experiment.yaml", "events.jsonl"):
        (tmp_path / name).write_text("")
    with pytest.raises(
        InputError, match=r"killed, or still runs\. It holds: events\.jsonl, experiment\.yaml\."
    ):
        read_result(tmp_path)
    for text, why in (("{", "Expecting"), ("{}", "not a railweave"), ("[]", "not a railweave")):
        (tmp_path / "result.json").write_text(text)
        with pytest.raises(InputError, match=why):
            read_result(tmp_path)


def test_the_schema_holds_every_key(result: RunResult) -> None:
    schema: Any = json_schema()
    assert set(schema["properties"]) == set(result.document()) == set(schema["required"])
    assert schema["properties"]["schema"] == {"const": {"name": "railweave.run", "version": 2}}
    row: Any = schema["$defs"]["Row"]["properties"]
    assert set(row) == set(result.document()["rows"][0])  # type: ignore[index]
    assert row["busbw_gbs"]["anyOf"] == [{"type": "number"}, {"type": "null"}]


def test_every_key_is_in_the_manual(result: RunResult) -> None:
    manual = (Path(__file__).parents[3] / "docs" / "results.md").read_text()

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


def test_a_program_has_times_and_link_bytes_alone(result: RunResult) -> None:
    """Of two iterations of 1 and 3 s at a tenth of the declared rates: 0.1 and 0.3 s declared, 0.2 s in the
    mean; nothing is wrong, for nothing was compared."""
    none = schedule(0)
    each = [replace(iteration(i, s), wrong=None) for i, s in enumerate((1.0, 3.0))]
    iterations = [timed(one, none, 0.0, None, None, 300 << 20) for one in each]
    rows = iteration_rows(iterations, rate_scale=0.1, busbw_factor=None)
    assert [(row.wrong, row.busbw_gbs, row.model_us) for row in rows] == [(None, None, None)] * 3
    shown = replace(result, rows=rows, experiment={"program": ["python", "a b.py"], "ranks": "all"})
    assert (shown.wrong, from_document(shown.document()).rows) == (0, rows)
    lines = nccl_table(shown).splitlines()
    assert lines[0] == "# python 'a b.py', ranks: all"
    assert [line.split()[:2] for line in lines[-3:]] == [
        ["0", "100000.00"], ["1", "300000.00"], ["mean", "200000.00"],
    ]  # fmt: skip


# -- as Python and notebooks show it -------------------------------------------------------------------
def test_a_result_without_rows_is_shown(result: RunResult) -> None:
    """As of a job that failed before its first iteration ended."""
    empty = replace(result, rows=())
    assert repr(result).endswith(" GB/s>") and repr(empty) == "<RunResult pass: 16 GPUs, rail-only>"
    shown = empty._repr_html_()
    assert "no elements compared" in shown and "<rect" not in shown


def test_times_of_nothing_and_elements_that_nobody_compared_are_shown(result: RunResult) -> None:
    rows = tuple(replace(row, time_us=0.0, declared_time_us=0.0, wrong=None) for row in result.rows)
    shown = replace(result, rows=rows)._repr_html_()
    assert 'height="0.0"' in shown and "no elements compared" in shown
    assert "<td>N/A</td>" in shown and "None" not in shown
    assert "0 wrong elements" in result._repr_html_()


def test_what_all_links_carry_is_a_number_however_large(result: RunResult) -> None:
    """65,536 GPUs carry millions of GB/s; the other columns are nccl-tests' and as wide as there."""
    rows = tuple(replace(row, netbw_gbs=1234567.8) for row in result.rows)
    table = nccl_table(replace(result, rows=rows))
    assert " 1234568 " in table and "e+06" not in table
