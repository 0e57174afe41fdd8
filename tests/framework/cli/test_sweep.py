"""`railweave sweep` as a user calls it: real workers, small fabrics, every way to end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import railweave as rw
from railweave.framework.cli import main
from railweave.framework.registry import load_plugins

SWEEP = """
question: What does a slow rail cost?
experiment:
  engine: fluid
  domains: 2
  rails: 4
  size: 256K
  iterations: 4
  faults: ["at=iter:2 degrade rail:1 to={depth}"]
axes:
  router: [hscore, spray]
  depth: [20%, 60%]
seeds: 2
judge: {figure: after_us, to: {router: hscore}}
"""
Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    Path("slow.yaml").write_text(SWEEP)
    registers = load_plugins()
    return lambda *words: CliRunner().invoke(main, ["sweep", *words], obj=registers, prog_name="railweave")


def test_a_sweep_runs_is_shown_and_is_there_the_next_time(call: Call) -> None:
    first = call("slow.yaml")
    assert first.exit_code == 0, first.output
    lines = first.stdout.splitlines()
    assert lines[0].split()[:6] == ["router", "depth", "n", "after_us", "CV", "95"]
    assert [line.split()[:3] for line in lines[1:5]] == [
        ["hscore", "20%", "2"], ["hscore", "60%", "2"], ["spray", "20%", "2"], ["spray", "60%", "2"],
    ]  # fmt: skip
    assert "What does a slow rail cost?" in lines
    assert "8 points: 8 computed now, 0 before; rows in studies/slow/rows.jsonl" in first.stdout
    again = call("studies/slow")
    assert again.exit_code == 0 and "8 points: 0 computed now, 8 before" in again.stdout
    assert again.stdout.splitlines()[:5] == lines[:5]
    shown = json.loads(call("status", "slow.yaml", "--json").stdout)
    assert (shown["points"], shown["finished"], shown["failed"], shown["to_do"]) == (8, 8, 0, 0)


def test_the_rows_are_those_of_single_runs(call: Call) -> None:
    """Another way to the same figures: a run of its own for each point."""
    call("slow.yaml")
    rows = [json.loads(line) for line in Path("studies/slow/rows.jsonl").read_text().splitlines()[1:]]
    for row in rows:
        depth = row["settings"]["depth"]
        run = rw.run(
            engine="fluid", domains=2, rails=4, size="256K", iterations=4, seed=row["seed"],
            router=row["settings"]["router"], faults=[f"at=iter:2 degrade rail:1 to={depth}"],
        )  # fmt: skip
        assert row["iteration_us"] == pytest.approx(run.summary.declared_time_us, rel=1e-12)
        assert row["rate_scale"] == run.fabric.rate_scale


def test_a_dry_run_counts_and_times_and_leaves_nothing(call: Call) -> None:
    shown = call("slow.yaml", "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith("8 points, 8 without a row: about ")
    assert "GB of memory" in shown.stdout and not Path("studies").exists()
    ahead = json.loads(call("slow.yaml", "--dry-run", "--json").stdout)
    assert ahead["missing"] == 8 and ahead["seconds"] > 0 and ahead["memory_bytes"] > 1e6


def test_of_very_many_points_the_first_are_counted_alone(call: Call) -> None:
    """A thousand million would take hours to look at."""
    axes = "".join(f"  word{i}: {{from: 1, to: 1000, steps: 1000}}\n" for i in range(3))
    text = SWEEP.replace("axes:\n", f"axes:\n{axes}").replace("{depth}", "{depth} x={word0}{word1}{word2}")
    Path("huge.yaml").write_text(text)
    shown = json.loads(call("status", "huge.yaml", "--limit", "7", "--json").stdout)
    assert (shown["points"], shown["to_do"]) == (7, 7)
    assert "points, and 1,000,000 are the most" in call("status", "huge.yaml").stderr


def test_points_that_fail_are_counted_by_cause_and_the_others_run(call: Call) -> None:
    Path("some.yaml").write_text(SWEEP.replace("depth: [20%, 60%]", "depth: [20%, 600%]"))
    shown = call("some.yaml")
    assert shown.exit_code == 1
    assert "4 of 8 points failed: 4 ExperimentError. The first: router=hscore, depth=600%: " in shown.stderr
    assert "8 points: 8 computed now" in shown.stdout and "2 failed" in shown.stdout
    document = call("some.yaml", "--json")
    assert document.exit_code == 1 and json.loads(document.stdout)["failed"] == {"ExperimentError": 4}


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        (SWEEP.replace("size:", "sise:"), [], "sise: there is no such key or parameter. Did you mean size?"),
        (SWEEP.replace("depth:", "dept:"), [], "dept: there is no such key or parameter"),
        (SWEEP.replace("fluid", "flood"), [], "there is no engine 'flood'"),
        ("axes: [", [], "not readable as YAML"),
        (SWEEP, ["--limit", "0"], "0 is not in the range"),
        (SWEEP, ["--add", "none.parquet"], "none.parquet: there is no such file of rows"),
        (SWEEP, ["other.yaml"], "expects one SWEEP"),
    ],
)
def test_bad_input_ends_with_2_and_leaves_nothing(
    call: Call, text: str, words: list[str], message: str
) -> None:
    Path("slow.yaml").write_text(text)
    shown = call("slow.yaml", *words)
    assert shown.exit_code == 2 and message in shown.stderr, shown.output
    assert not Path("studies").exists()


def test_what_is_no_study_is_refused(call: Call) -> None:
    Path("runs").mkdir()
    assert "runs holds no sweep.yaml, so it is no study" in call("runs").stderr
    assert "there is no such file" in call("none.yaml").stderr
    Path("studies/slow").mkdir(parents=True)
    Path("studies/slow/rows.jsonl").write_bytes(b"PAR1\0\0")
    shown = call("slow.yaml")
    assert shown.exit_code == 2 and "holds no rows of a study" in shown.stderr


def test_a_client_that_is_killed_goes_on_and_leaves_no_worker(tmp_path: Path) -> None:
    """kill -9 in the middle; then the same command computes the rest alone."""
    (tmp_path / "many.yaml").write_text(SWEEP.replace("seeds: 2", "seeds: 15"))
    command = [sys.executable, "-c", "from railweave.framework.cli import main; main()", "sweep", "many.yaml"]
    rows = tmp_path / "studies/many/rows.jsonl"
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as client:
        while not (rows.exists() and rows.read_bytes().count(b"\n") > 10):
            assert client.poll() is None
            time.sleep(0.02)  # rows of another process are no event here
        workers = [
            int(pid) for entry in Path(f"/proc/{client.pid}/task").iterdir()
            for pid in (entry / "children").read_text().split()
        ]  # fmt: skip
        client.send_signal(signal.SIGKILL)
        client.wait()
    assert workers
    for pid in workers:  # they die with it; a zombie has no memory map
        deadline = time.monotonic() + 30
        while (
            Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
        ):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    had = rows.read_bytes().count(b'"point"')
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    words = done.stdout.splitlines()[-1].split()
    computed, before = int(words[2]), int(words[5])
    assert computed + before == 60 and had - 1 <= before <= had
