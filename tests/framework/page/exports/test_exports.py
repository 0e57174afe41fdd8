"""Exports of one run, read by the tools they are for, or by their parsers; figures against the result."""

from __future__ import annotations

import csv
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

import railweave as rw
from railweave.framework.api import installed
from railweave.framework.cli import main
from railweave.framework.page.data.samples import read_rank_times
from railweave.framework.page.exports import perfetto
from railweave.framework.page.exports.exported_run import read_run
from railweave.framework.page.exports.prometheus import MetricLine, message_range, metric

TITLE = 'a "quoted"\nrun\\'
"""A name that has to be escaped in labels."""


def railweave(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args], prog_name="railweave")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / TITLE
    slow_rail = ["at=iter:2 degrade rail:1 to=20%"]
    rw.run(engine="fluid", domains=2, rails=4, size="1M", iterations=6, faults=slow_rail, out=path)
    return path


@pytest.fixture(scope="module")
def failed(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run as if it had been killed before its result was written."""
    path = tmp_path_factory.mktemp("failed") / "killed"
    shutil.copytree(run, path)
    for name in ("result.json", "report.html"):
        (path / name).unlink()
    return path


def exported(run: Path, form: str, tmp_path: Path, *options: str) -> Path:
    out = tmp_path / f"export.{form}"
    done = railweave("export", run, "--format", form, "--out", out, *options)
    assert done.exit_code == 0, done.output
    return out


def series(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by the name of the sample and the values of its labels."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for name, labels, value, *_ in family.samples:
            assert tuple(labels.values()) not in found.setdefault(name, {})
            found[name][tuple(labels.values())] = value
    return found


def test_prometheus_reads_what_the_result_says(run: Path, tmp_path: Path) -> None:
    text = exported(run, "prometheus", tmp_path).read_text()
    found, result = series(text), rw.read(run).result
    rows = [row for row in result.rows if row.iteration is not None]
    ((labels, busbw),) = found["nccl_bus_bandwidth_gbs"].items()
    ((_, time_us),) = found["nccl_collective_exec_time_microseconds"].items()
    assert labels == (
        "rail-only", "railweave", TITLE, "all", "all", "0", "2", "8", "AllReduce", "1-2MB", "all-reduce",
    )  # fmt: skip
    assert busbw == pytest.approx(geometric_mean(row.busbw_gbs for row in rows))
    assert time_us == pytest.approx(fmean(row.declared_time_us for row in rows))
    for name, of in (("bytes_total", "bytes"), ("utilisation_ratio", "utilisation")):
        assert found[f"railweave_link_{name}"] == {
            (link.name, link.kind): pytest.approx(getattr(link, of)) for link in result.links
        }
    assert found["railweave_health_score"]["rail:1",] == pytest.approx(
        next(element.h_score for element in result.elements if element.name == "rail:1")
    )
    assert found["railweave_reroutes_total"] == {(): len(result.reroutes)}
    seconds = [row.time_us * 1e-6 for row in rows]
    assert found["railweave_iteration_seconds_sum"] == {("0",): pytest.approx(sum(seconds))}
    assert found["railweave_iteration_seconds_bucket"]["0", "2.5"] == sum(s <= 2.5 for s in seconds)
    assert [labels for labels, value in found["railweave_fidelity"].items() if value] == [("pass",)]
    help_ = [line for line in text.splitlines() if line.startswith(("# HELP nccl", "# HELP railweave_link"))]
    assert all(line.endswith(("; declared.", "; emulated.")) for line in help_)


def test_point_to_point_has_names_of_its_own(tmp_path: Path) -> None:
    rw.run(engine="fluid", domains=2, rails=2, size="2M", iterations=2, collective="send-recv",
           faults=[], out=tmp_path / "run")  # fmt: skip
    found = series(exported(tmp_path / "run", "prometheus", tmp_path).read_text())
    assert "nccl_bus_bandwidth_gbs" not in found
    ((labels, _),) = found["nccl_p2p_bus_bandwidth_gbs"].items()
    assert labels[-2:] == ("Send", "2-3MB")
    assert list(found["nccl_p2p_exec_time_microseconds"]) == [labels]


@given(st.text(), st.text())
def test_any_label_and_help_is_read_back(label: str, help_: str) -> None:
    """The parser reads lines, and takes a carriage return for the end of one."""
    label, help_ = label.replace("\r", ""), " ".join(help_.split())
    (family,) = text_string_to_metric_families(
        metric("m", "gauge", help_, [MetricLine("", {"of": label}, 2)])
    )
    ((_, labels, value, *_),) = family.samples
    assert (labels, value) == ({"of": label}, 2)


@pytest.mark.parametrize(
    ("size_bytes", "label"),
    [(0, "0B"), (1, "1-2B"), (1023, "1023-1024B"), (1024, "1-2KB"), (134 << 20, "134-135MB"),
     ((135 << 20) - 1, "134-135MB"), (5 << 50, "5120-5121TB")],
)  # fmt: skip
def test_ranges_of_sizes_are_inspectors(size_bytes: int, label: str) -> None:
    """134-135MB stands in NVIDIA's article on the Inspector; the others by its rule, floor and ceiling of a
    power of 1024."""
    assert message_range(size_bytes) == label


def test_inspector_lines_have_its_keys(run: Path, tmp_path: Path) -> None:
    """The keys of the README's example, except for `event_trace`, which is its verbose form."""
    lines = [json.loads(line) for line in exported(run, "inspector", tmp_path).read_text().splitlines()]
    rows = [row for row in rw.read(run).result.rows if row.iteration is not None]
    assert [set(line) for line in lines] == [{"header", "metadata", "coll_perf"}] * len(rows)
    assert set(lines[0]["header"]) == {"id", "rank", "n_ranks", "nnodes"}
    assert set(lines[0]["metadata"]) == {
        "inspector_output_format_version", "git_rev", "rec_mechanism", "dump_timestamp_us", "hostname", "pid",
    }  # fmt: skip
    for line, row in zip(lines, rows, strict=True):
        assert line["coll_perf"] == {
            "coll": "AllReduce", "coll_sn": row.iteration, "coll_msg_size_bytes": 1 << 20,
            "coll_exec_time_us": round(row.declared_time_us), "coll_timing_source": "railweave_declared",
            "coll_algobw_gbs": row.algbw_gbs, "coll_busbw_gbs": row.busbw_gbs,
        }  # fmt: skip
    stamps = [line["metadata"]["dump_timestamp_us"] for line in lines]
    assert stamps == sorted(stamps)


def test_a_trace_has_what_perfetto_asks_of_each_phase(run: Path, tmp_path: Path) -> None:
    """Google's Trace Event Format: X has a duration, C numbers, i a scope, M a name; all have ts and pid."""
    trace = json.loads(exported(run, "perfetto", tmp_path).read_text())
    result = rw.read(run).result
    by_phase: dict[str, list[dict[str, Any]]] = {}
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int)
        assert event["ph"] == "M" or event["ts"] >= 0
        by_phase.setdefault(event["ph"], []).append(event)
    assert set(by_phase) == {"M", "X", "C", "i"}
    rows = [row for row in result.rows if row.iteration is not None]
    spans = [(event["ts"], event["dur"]) for event in by_phase["X"] if event["pid"] == perfetto.JOBS]
    assert spans == [(pytest.approx(row.t_s * 1e6, abs=1), pytest.approx(row.time_us, abs=1)) for row in rows]
    assert all(event["s"] == "g" for event in by_phase["i"])
    assert {event["cat"] for event in by_phase["i"]} == {"fault", "health", "reroute"}
    (fault,) = (event for event in by_phase["i"] if event["cat"] == "fault")
    assert fault["ts"] == pytest.approx(result.faults[0].t_s * 1e6, abs=1)
    numbers = [value for event in by_phase["C"] for value in event["args"].values()]
    assert all(isinstance(value, int | float) for value in numbers)
    counted = {event["name"] for event in by_phase["C"]}
    assert {f"queue {link.name}" for link in result.links} < counted and "h rail:1" in counted


def tracks_of(trace: Any) -> dict[tuple[str, str], list[tuple[int, int, str]]]:
    """(begin, end, name) of the slices of each thread, by names of process and thread. As Perfetto's importer
    does, which counts what breaks these rules as an error that its page shows: microseconds are whole, a
    thread has one name and one process, and a slice that begins in another one ends in it."""
    names: dict[tuple[str, int, int], str] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and event["name"].endswith("_name"):
            key = (event["name"], event["pid"], event["tid"])
            assert key not in names
            names[key] = event["args"]["name"]
    tracks: dict[tuple[str, str], list[tuple[int, int, str]]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            track = names["process_name", event["pid"], 0], names["thread_name", event["pid"], event["tid"]]
            assert type(event["ts"]) is type(event["dur"]) is int and event["ts"] >= 0 <= event["dur"]
            tracks.setdefault(track, []).append((event["ts"], event["ts"] + event["dur"], event["name"]))
    for slices in tracks.values():
        around: list[int] = []
        for begin, end, _ in sorted(slices, key=lambda span: (span[0], -span[1])):
            while around and around[-1] <= begin:
                around.pop()
            assert not around or end <= around[-1]
            around.append(end)
    return tracks


def test_every_rank_has_a_track_and_the_last_of_them_ends_the_iteration(run: Path, tmp_path: Path) -> None:
    """An iteration is over when the last transfer has landed. Where rail 1 is slow and nobody leaves it, its
    GPUs are those that end last in an all-to-all of the fluid engine."""
    tracks = tracks_of(json.loads(exported(run, "perfetto", tmp_path).read_text()))
    gpus = [name for process, name in tracks if process.startswith("ranks of job")]
    fabric = read_run(run, installed()).fabric
    assert gpus == [fabric.node_name(gpu) for gpu in range(fabric.n_gpus)]
    (whole,) = (slices for (process, _), slices in tracks.items() if process == "jobs")
    ranks = [slices for (process, _), slices in tracks.items() if process != "jobs"]
    for number, (begin, end, name) in enumerate(whole):
        assert {(slices[number][0], slices[number][2]) for slices in ranks} == {(begin, name)}
        assert max(slices[number][1] for slices in ranks) == pytest.approx(end, abs=1)

    slow = tmp_path / "slow"
    rw.run(
        engine="fluid", domains=2, rails=2, size="64K", iterations=2, collective="all-to-all",
        faults=["at=iter:1 degrade rail:1 to=20%"], feedback=False, out=slow,
    )  # fmt: skip
    tracks = tracks_of(json.loads(exported(slow, "perfetto", tmp_path).read_text()))
    ends = {name: slices[1][1] for (process, name), slices in tracks.items() if process != "jobs"}
    assert max(ends["g0.0"], ends["g1.0"]) < min(ends["g0.1"], ends["g1.1"])


def test_iterations_that_are_said_to_overlap_are_cut(run: Path) -> None:
    """Two clocks measure them in a lab, the transport's and the run's."""
    whole = read_run(run, installed())
    first, second = whole.iterations[:2]
    late = replace(first, seconds=second.begin_s - first.begin_s + 0.001)
    cut = replace(whole, iterations=(late, second), rank_times=None)
    (spans,) = tracks_of(json.loads(perfetto.trace_of(cut))).values()
    assert spans[0][1] == spans[1][0]


def test_times_of_ranks_of_another_fabric_are_left_out(run: Path, tmp_path: Path) -> None:
    fabric = read_run(run, installed()).fabric
    with np.load(run / "ranks.npz") as file:
        arrays = dict(file.items())
    for name, values, why in (
        ("gpu", arrays["gpu"] + fabric.n_gpus, "gpu has numbers that this fabric does not"),
        ("end_s", arrays["begin_s"] - 1, "not all of its times are finite, and in order"),
        ("job", arrays["job"][1:], "its rows differ in length"),
        ("gpu", arrays["gpu"] + 0.5, "not all of it is rows of numbers, and of whole ones"),
    ):
        np.savez(tmp_path / "ranks.npz", **{**arrays, name: values})
        assert read_rank_times(tmp_path / "ranks.npz", fabric) == (None, f"ranks.npz is left out: {why}.")
    np.savez(tmp_path / "ranks.npz", job=arrays["job"])
    assert "it has no iteration, gpu" in read_rank_times(tmp_path / "ranks.npz", fabric)[1]


def test_csv_and_parquet_say_the_same(run: Path, tmp_path: Path) -> None:
    for table in ("iterations", "links", "kpi"):
        with exported(run, "csv", tmp_path, "--table", table).open(newline="") as file:
            of_csv = list(csv.DictReader(file))
        of_parquet = pyarrow.parquet.read_table(
            exported(run, "parquet", tmp_path, "--table", table)
        ).to_pylist()
        assert [[as_number(value) for value in row.values()] for row in of_csv] == [
            list(row.values()) for row in of_parquet
        ]
        assert of_csv and list(of_csv[0]) == list(of_parquet[0])
    figures = {row["figure"]: row["value"] for row in of_csv}
    assert float(figures["jct_ratio"]) == rw.read(run).result.key_figures.jct_ratio


def as_number(text: str) -> float | str | None:
    try:
        return float(text) if text else None
    except ValueError:
        return text


def test_samples_of_links_add_up_to_what_they_sent(run: Path, tmp_path: Path) -> None:
    """All that was sampled, of what the result says that they sent to the end."""
    rows = pyarrow.parquet.read_table(exported(run, "parquet", tmp_path, "--table", "links")).to_pylist()
    for link in rw.read(run).result.links:
        sent = sum(row["sent_bytes"] for row in rows if row["link"] == link.name)
        assert 0 < sent < link.bytes + 1 + 1e-6 * link.bytes  # whole bytes


def test_a_run_without_a_result_is_exported_as_far_as_it_came(
    run: Path, failed: Path, tmp_path: Path
) -> None:
    """Its iterations are those of the result: events and plan give the same figures."""
    rows = [row for row in rw.read(run).result.rows if row.iteration is not None]
    lines = [json.loads(line) for line in exported(failed, "inspector", tmp_path).read_text().splitlines()]
    assert [line["coll_perf"]["coll_busbw_gbs"] for line in lines] == [
        pytest.approx(row.busbw_gbs) for row in rows
    ]
    found = series(exported(failed, "prometheus", tmp_path).read_text())
    assert found["railweave_fidelity"]["none",] == 1
    assert found["railweave_iteration_seconds_count"] == {("0",): len(rows)}
    assert json.loads(exported(failed, "perfetto", tmp_path).read_text())["traceEvents"]
    assert len(exported(failed, "csv", tmp_path).read_text().splitlines()) == len(rows) + 1
    refused = railweave("export", failed, "--format", "csv", "--table", "kpi", "--out", tmp_path / "x")
    assert refused.exit_code == 2 and "killed has no result, and so no key figures" in refused.output


def test_a_pipe_stays_one(run: Path, tmp_path: Path) -> None:
    """As of `--out >(gzip > x)`: a file must not take its name."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    expected = exported(run, "csv", tmp_path).read_bytes()
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        done = railweave("export", run, "--format", "csv", "--out", pipe)
        assert done.exit_code == 0 and pipe.is_fifo(), done.output
        assert os.read(reader, 2 * len(expected)) == expected
    finally:
        os.close(reader)


def test_what_cannot_be_written_is_named_and_the_run_unharmed(run: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    long = tmp_path / ("x" * 250)  # the part that takes its name at the end has a longer one
    done = railweave("export", run, "--format", "csv", "--out", long)
    assert done.exit_code == 1 and f"cannot write {long}" in done.output
    assert not list(tmp_path.iterdir())
    for out in (tmp_path, tmp_path / "none" / "x.prom"):
        done = railweave("export", run, "--format", "prometheus", "--out", out)
        assert done.exit_code == 2 and f"--out {out}: not a file in a directory" in done.output
    done = railweave("export", tmp_path, "--format", "csv", "--out", tmp_path / "x.csv")
    assert done.exit_code == 2 and "no run directory" in done.output
    done = railweave("export", run, "--format", "inspector", "--table", "kpi", "--out", tmp_path / "x")
    assert done.exit_code == 2 and "--table kpi goes with csv and parquet" in done.output
    assert before == {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
