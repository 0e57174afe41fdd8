"""The run directory on disks that are full: a real file size limit, and (lab) a real full tmpfs."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from railweave.framework.errors import InputError, RunFailedError
from railweave.framework.model.events import HealthPublished, IterationEnded, Note
from railweave.framework.results.directory import RunDirectory, write_whole
from railweave.framework.results.result import RunResult


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """Writes beyond `limit` bytes of a file fail with EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_the_default_is_a_new_directory_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = [RunDirectory.create(None, "hscore-rail-only").path for _ in range(3)]
    assert len(set(made)) == 3
    assert all(p.parent == Path("runs") and "-hscore-rail-only" in p.name and p.is_dir() for p in made)


def test_a_given_directory_is_used_as_given(tmp_path: Path) -> None:
    assert RunDirectory.create(tmp_path / "a" / "b", "x").path == tmp_path / "a" / "b"
    assert RunDirectory.create(tmp_path / "a" / "b", "x").path.is_dir()


def test_what_is_in_the_way_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(InputError, match="not empty"):
        RunDirectory.create(tmp_path / "full", "x")
    with pytest.raises(InputError, match="not a directory"):
        RunDirectory.create(tmp_path / "full" / "x", "x")
    with pytest.raises(InputError, match="not a directory"):
        RunDirectory.create(tmp_path / "full" / "x" / "y", "x")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").touch()
    with pytest.raises(InputError, match="runs is in the way"):
        RunDirectory.create(None, "x")


def test_everything_is_written(tmp_path: Path, result: RunResult) -> None:
    directory = RunDirectory.create(tmp_path / "r", "x")
    directory.write_text("experiment.yaml", "size: 1M\n")
    directory.append_event(HealthPublished(2.0, 3, {"rail:1": (1.0, 0.2)}))
    directory.append_event(IterationEnded(0, np.float64(1.5), 0))
    directory.write_arrays("health.npz", {"t_s": np.arange(3.0)})
    directory.write_result(result)
    assert sorted(p.name for p in directory.path.iterdir()) == [
        "events.jsonl", "experiment.yaml", "health.npz", "result.json",
    ]  # fmt: skip
    events = [json.loads(line) for line in (directory.path / "events.jsonl").read_text().splitlines()]
    assert events == [
        {"kind": "health", "t_s": 2.0, "version": 3, "changes": {"rail:1": [1.0, 0.2]}, "job": 0},
        {"kind": "iteration", "iteration": 0, "seconds": 1.5, "wrong": 0, "job": 0},
    ]
    with np.load(directory.path / "health.npz") as samples:
        assert samples["t_s"].tolist() == [0, 1, 2]
    assert json.loads((directory.path / "result.json").read_text())["seed"] == 1


def test_a_file_that_does_not_fit_leaves_the_old_one_and_no_part(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_whole(path, b"old")
    with (
        file_size_limit(4096),
        pytest.raises(RunFailedError, match=r"cannot write .*result\.json: File too large"),
    ):
        write_whole(path, b"n" * 10_000)
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]
    assert path.read_bytes() == b"old"


def test_an_event_that_does_not_fit_is_taken_back_whole(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.append_event(Note("1"))
    with file_size_limit(100), pytest.raises(RunFailedError, match="--out"):
        directory.append_event(Note("x" * 200))
    assert (tmp_path / "events.jsonl").read_text() == '{"kind": "note", "job": 0, "text": "1"}\n'


@pytest.mark.lab
@pytest.mark.untimed
def test_a_full_disk_fails_the_run_in_words(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from railweave.framework.errors import RunFailedError
        from railweave.framework.model.events import Note
        from railweave.framework.results.directory import RunDirectory, write_whole
        d = RunDirectory.create(Path(sys.argv[1]) / "disk" / "run", "x")
        d.append_event(Note("1"))
        def many_events():
            for _ in range(1000):
                d.append_event(Note("y" * 1000))
        for write in (lambda: write_whole(d.path / "result.json", b"x" * 500_000), many_events):
            try:
                write()
            except RunFailedError as error:
                print(error)
        print(sorted(p.name for p in d.path.iterdir()))
        lines = (d.path / "events.jsonl").read_bytes()
        print(lines.endswith(b"\\n"))
        """
    )
    (tmp_path / "disk").mkdir()
    (tmp_path / "s.py").write_text(script)
    mount = f"mount -t tmpfs -o size=64k none {tmp_path}/disk"
    python = f"exec {sys.executable} {tmp_path}/s.py {tmp_path}"
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", f"{mount}; {python}"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "result.json: No space left on device. Make room there" in lines[0]
    assert "events.jsonl: No space left on device" in lines[1]
    assert lines[2:] == ["['events.jsonl']", "True"]
