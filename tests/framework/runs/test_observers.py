"""Observers and reports: every hook reaches them, and none of their mistakes reaches the run."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from railweave.framework.hookspecs import Hooks, hookimpl
from railweave.framework.registry import Registers
from railweave.framework.runs.observers import Observers, write_reports

OBSERVING = [name for name in vars(Hooks) if name.startswith("on_")]


def observers(plugin: object, **options: float) -> tuple[Observers, list[str]]:
    notes: list[str] = []
    options = {"slow_s": 60.0} | options
    return Observers(Registers([("theirs", plugin)]), notes.append, **options), notes


class Everything:
    """Has every hook, with all its arguments."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    @hookimpl
    def on_run_start(self, experiment: Any, directory: Any) -> None:
        self.seen.append((experiment, directory))

    @hookimpl
    def on_fabric_up(self, fabric: Any, endpoints: Any) -> None:
        self.seen.append((fabric, endpoints))

    @hookimpl
    def on_health(self, health: Any, measurement: Any) -> None:
        self.seen.append((health, measurement))

    @hookimpl
    def on_reroute(self, table: Any, pairs: Any, pairs_changed: Any, why: Any, t_s: Any) -> None:
        self.seen.append((table, pairs, pairs_changed, why, t_s))

    @hookimpl
    def on_iteration(self, result: Any, t_s: Any, job: Any) -> None:
        self.seen.append((result, t_s, job))

    @hookimpl
    def on_run_end(self, result: Any, directory: Any) -> None:
        self.seen.append((result, directory))


@pytest.mark.parametrize("hook", OBSERVING)
def test_every_hook_arrives_with_all_its_arguments(hook: str) -> None:
    names = list(inspect.signature(getattr(Hooks, hook)).parameters)[1:]
    assert list(inspect.signature(getattr(Everything, hook)).parameters)[1:] == names
    everything = Everything()
    calls, notes = observers(everything)
    calls.fire(hook, **{name: name.upper() for name in names})
    assert everything.seen == [tuple(name.upper() for name in names)] and not notes


def test_a_failing_observer_is_noted_once_and_the_next_one_is_called() -> None:
    class Failing:
        @hookimpl(tryfirst=True)
        def on_health(self, health: object) -> None:
            raise KeyError("gpu")

    class Sound:
        calls = 0

        @hookimpl
        def on_health(self) -> None:
            self.calls += 1

    notes: list[str] = []
    sound = Sound()
    calls = Observers(Registers([("theirs", Failing()), ("ours", sound)]), notes.append, slow_s=60)
    for _ in range(3):
        calls.fire("on_health", health=None, measurement=None)
    line = inspect.getsourcelines(Failing.on_health)[1] + 2
    assert sound.calls == 3
    assert notes == [f"observer theirs: on_health fails with KeyError: 'gpu' ({__file__}:{line})"]


def test_a_slow_observer_is_measured_and_said_once() -> None:
    class Slow:
        @hookimpl
        def on_health(self) -> None:
            time.sleep(0.02)

    calls, notes = observers(Slow(), slow_s=0.01)
    for _ in range(2):
        calls.fire("on_health", health=None, measurement=None)
    (note,) = notes
    assert note.startswith("observer theirs: on_health took ") and "delays the health loop" in note
    assert calls.seconds["theirs"] >= 0.04


def test_who_hears_is_known_before_arguments_are_made() -> None:
    class Ends:
        @hookimpl
        def on_run_end(self) -> None:
            pass

    calls, _ = observers(Ends())
    assert calls.heard("on_run_end") and not calls.heard("on_run_start")


def test_what_is_printed_becomes_notes() -> None:
    class Talking:
        @hookimpl
        def on_iteration(self, t_s: float) -> None:
            print("done\nat", t_s)

    calls, notes = observers(Talking())
    calls.fire("on_iteration", result=None, t_s=1.5, job=0)
    assert notes == ["theirs: done", "theirs: at 1.5"]


def test_a_failing_report_is_noted_and_the_next_one_written() -> None:
    class Failing:
        def write(self, result: Mapping[str, Any], directory: str) -> None:
            raise OSError("no room")

    class Sound:
        written = ""

        def write(self, result: Mapping[str, Any], directory: str) -> None:
            self.written = directory

    notes: list[str] = []
    sound = Sound()
    reports: dict[str, Any] = {"failing": Failing(), "sound": sound}
    write_reports(reports, {}, "/somewhere", notes.append)
    assert sound.written == "/somewhere"
    assert len(notes) == 1 and notes[0].startswith("report failing fails with OSError: no room (")


class Writing:
    """A report that writes one of the run's own files."""

    def __init__(self, name: str, text: str | None) -> None:
        self._name, self._text = name, text

    def write(self, result: Mapping[str, Any], directory: str) -> None:
        path = Path(directory, self._name)
        if self._text is None:
            path.unlink()
        else:
            path.write_text(self._text)


@pytest.mark.parametrize("text", ["", "{}", None])
@pytest.mark.parametrize("name", ["result.json", "events.jsonl", "experiment.yaml"])
def test_a_report_cannot_change_the_runs_own_files(tmp_path: Path, name: str, text: str | None) -> None:
    (tmp_path / name).write_text("what the run wrote\n")
    notes: list[str] = []
    write_reports({"mine": Writing(name, text)}, {}, str(tmp_path), notes.append)  # type: ignore[dict-item]
    assert (tmp_path / name).read_text() == "what the run wrote\n"
    assert [note.partition(" fails: it wrote ")[::2] for note in notes] == [
        ("report mine", f"{name}, which is the run's own file; that is as before. Write another")
    ]


def test_a_report_adds_files_of_its_own(tmp_path: Path) -> None:
    notes: list[str] = []
    write_reports({"mine": Writing("mine.csv", "1")}, {}, str(tmp_path), notes.append)  # type: ignore[dict-item]
    assert notes == [] and [path.name for path in tmp_path.iterdir()] == ["mine.csv"]


def test_one_that_ends_the_process_fails_like_any_other(tmp_path: Path) -> None:
    class Leaving:
        def write(self, result: Mapping[str, Any], directory: str) -> None:
            raise SystemExit(3)

    notes: list[str] = []
    write_reports({"mine": Leaving()}, {}, str(tmp_path), notes.append)  # type: ignore[dict-item]
    assert [note.partition(" (")[0] for note in notes] == ["report mine fails with SystemExit: 3"]
