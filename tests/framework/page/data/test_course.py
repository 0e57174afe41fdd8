"""A page is the reduction of its run's events: of recorded runs, one by one as at once, and of one that was
killed. What a result adds is the verdict and figures."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import railweave as rw
from railweave.framework.errors import RailweaveError
from railweave.framework.page.data.course import Course, events_of
from railweave.framework.page.data.directories import page_of_run
from railweave.framework.page.data.page_data import ITERATIONS, MARKS, Iterations, RunPage
from railweave.framework.registry import Registers, load_plugins

SLOW = "at=iter:2 degrade rail:1 to=20%"
RUNS: dict[str, dict[str, Any]] = {
    "a fault": {"iterations": 5, "faults": [SLOW, "at=iter:4 restore rail:1"]},
    "unanswered": {"iterations": 3, "faults": [SLOW], "feedback": False},
    "jobs": {
        "jobs": ["ranks=domain:0-1 name=left", "ranks=domain:2-3 name=right"],
        "iterations": 3,
        "faults": ["at=3s degrade rail:1 to=20%"],
    },
    "a sweep": {"size": "64K:1M:x4", "iterations": 2},
}
FIGURES = ("state", "verdict", "reasons", "sentence", "figures", "versions", "jobs", "traffic", "no_rules")
"""Of a RunPage, what a result alone knows."""


@pytest.fixture(scope="module")
def registers() -> Registers:
    return load_plugins()


@pytest.fixture(scope="module")
def run_of(registers: Registers, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    parent = tmp_path_factory.mktemp("runs")

    def run(name: str) -> Path:
        if not (path := parent / name).exists():
            rw.run(engine="fluid", out=path, registers=registers, **RUNS[name])
        return path

    return run


def events_in(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]


def without_result(run: Path, to: Path) -> Path:
    shutil.copytree(run, to)
    (to / "result.json").unlink()
    return to


def from_events(page: RunPage) -> dict[str, Any]:
    """What of a page events and samples say."""
    nothing = (None,) * len(page.iterations.number)
    figures = ("declared_us", "size_bytes", "busbw_gbs", "limit", "held_by", "share")
    seen = [replace(mark, items=()) for mark in page.marks if mark.kind != "seen"]  # and links of a fault
    plain = replace(page, iterations=replace(page.iterations, **dict.fromkeys(figures, nothing)))
    totals = dict.fromkeys(("bytes", "utilisation", "loss", "drops", "h_score", "age_s", "paused"))
    document = asdict(plain) | {"marks": [asdict(mark) for mark in seen]}
    document["items"] |= totals
    for name in (*FIGURES, "series", "resolution", "title", "repeat"):
        del document[name]
    return document


@pytest.mark.parametrize("name", RUNS)
def test_the_page_of_a_run_is_the_reduction_of_its_events(
    name: str, run_of: Callable[[str], Path], registers: Registers, tmp_path: Path
) -> None:
    run = run_of(name)
    (finished,) = page_of_run(run, registers).runs
    (reduced,) = page_of_run(without_result(run, tmp_path / "run"), registers).runs
    whole, events = from_events(finished), from_events(reduced)
    assert whole.pop("end_s") == pytest.approx(events.pop("end_s"), abs=1e-6)  # where samples may end
    assert whole == events
    assert reduced.state == "incomplete" and finished.state == "complete"
    result = rw.read(run).result
    assert sorted(finished.iterations.number) == sorted(
        r.iteration for r in result.rows if r.iteration is not None
    )
    assert finished.notes == result.notes
    groups = {job.job: job.iterations for job in result.jobs} or {0: result.iterations}
    for job, number, part in zip(
        finished.iterations.job, finished.iterations.number, finished.iterations.part, strict=True
    ):
        assert number in getattr(groups[job], part).iterations, "as the result groups it"


@pytest.mark.parametrize("name", RUNS)
def test_one_by_one_as_at_once(name: str, run_of: Callable[[str], Path]) -> None:
    """What each event adds to the lists of a page makes up what they hold in the end."""
    events = events_in(run_of(name))
    course, lists = Course(), {"iterations": [], "marks": [], "notes": []}  # type: ignore[var-annotated]
    for event in events:
        for where, entry in course.take(event).items():
            lists[where].append(entry)
    assert course == Course.of(events)
    assert lists["iterations"] == course.iterations and lists["notes"] == course.notes
    assert lists["marks"] == [mark for _, mark in course.marks]


@pytest.mark.parametrize("name", RUNS)
def test_a_result_tells_the_same_events(name: str, run_of: Callable[[str], Path], tmp_path: Path) -> None:
    """Those that a page is made of, where the run's own are gone."""
    shutil.copytree(run_of(name), tmp_path / "run")
    (tmp_path / "run" / "events.jsonl").unlink()
    course, other = Course.of(events_in(run_of(name))), Course.of(events_of(rw.read(run_of(name)).result))
    assert (other.ended, other.notes, other.heaviest()) == (course.ended, course.notes, course.heaviest())
    mine, theirs = (
        sorted(one.iterations, key=lambda row: (row["job"], row["number"])) for one in (course, other)
    )
    for row, same in zip(mine, theirs, strict=True):
        assert row == same | {
            "seconds": pytest.approx(same["seconds"]),
            "begin_s": pytest.approx(same["begin_s"]),
        }


def test_a_run_that_was_killed_has_what_its_events_say(
    run_of: Callable[[str], Path], registers: Registers, tmp_path: Path
) -> None:
    """Cut in the middle of a line, one or more events short, without any other file."""
    run, events = run_of("a fault"), events_in(run_of("a fault"))
    (finished,) = page_of_run(run, registers).runs
    for n in range(3, len(events), 4):
        path = tmp_path / str(n)
        path.mkdir()
        shutil.copy(run / "experiment.yaml", path)
        lines = (run / "events.jsonl").read_text().splitlines(keepends=True)
        (path / "events.jsonl").write_text("".join(lines[:n]) + lines[n][:20])
        (killed,) = page_of_run(path, registers).runs
        ended = sum(event["kind"] == "iteration" for event in events[:n])
        for name in ("number", "job", "begin_s", "seconds", "wrong", "part"):
            assert getattr(killed.iterations, name) == getattr(finished.iterations, name)[:ended]
        happened = [(mark.t_s, mark.kind, mark.text) for mark in finished.marks if mark.kind != "seen"]
        shown = [(mark.t_s, mark.kind, mark.text) for mark in killed.marks]
        assert shown == happened[: len(shown)]
        assert len(shown) == sum(event["kind"] in ("fault", "reroute") for event in events[:n])
        assert killed.sentence.endswith(f"{ended} of 5 iterations had ended.")


def test_a_run_that_failed_has_what_happened_before(registers: Registers, tmp_path: Path) -> None:
    """Every rail goes down: no pair has a path, and the run fails."""
    faults = [f"at=iter:1 down rail:{rail}" for rail in range(4)]
    with pytest.raises(RailweaveError):
        rw.run(
            engine="fluid",
            out=tmp_path / "run",
            registers=registers,
            iterations=3,
            faults=faults,
            timeout="5s",
        )
    (page,) = page_of_run(tmp_path / "run", registers).runs
    assert (page.state, page.iterations.number) == ("incomplete", (0,))
    assert [mark.text for mark in page.marks if mark.kind == "fault"] == faults


def test_a_page_is_bounded_and_keeps_the_largest_reroutes() -> None:
    course = Course()
    for i in range(3000):
        course.take({"kind": "reroute", "t_s": float(i), "pairs_changed": i % 1000, "why": "a score"})
        course.take({"kind": "iteration", "iteration": i, "seconds": 1.0})
    course.take({"kind": "fault", "t_s": 3000.0, "text": SLOW})
    assert len(course.iterations) == ITERATIONS and course.ended == 3000
    assert len(course.marks) <= 2 * MARKS and len(shown := course.heaviest()) == MARKS
    assert (
        shown[0][1].text == SLOW and min(weight for weight, _ in shown) == 833
    )  # 499 of 0..999, three times each
    assert set(course.iterations[0]) < set(Iterations.__dataclass_fields__)
