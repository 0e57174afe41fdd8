"""The run directory: whole files or none, even when the disk is full."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import InputError, RunFailedError
from railweave.framework.results import RunResult

DEFAULT_PARENT = Path("runs")


class RunDirectory:
    """Where a run is written: experiment.yaml, events.jsonl, health.npz, result.json."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, out: Path | None, label: str) -> RunDirectory:
        """Make the directory: `out`, which must be empty or absent, or runs/<date>-<time>-<label>.

        Raises InputError when it holds something, is a file or cannot be made.
        """
        try:
            if out is None:
                return cls(_fresh(time.strftime("%Y%m%d-%H%M%S-") + label))
            out.mkdir(parents=True, exist_ok=True)
            if any(out.iterdir()):
                raise InputError(f"{out} is not empty. Give a new directory as --out, or empty it.")
            return cls(out)
        except (FileExistsError, NotADirectoryError):
            raise InputError(
                f"{out or DEFAULT_PARENT} is in the way: not a directory. Choose another --out."
            ) from None
        except OSError as error:
            raise InputError(
                f"{out or DEFAULT_PARENT} cannot be made: {error.strerror}. Choose another --out."
            ) from None

    def discard(self) -> None:
        """Take back what was written, for a run that was refused before it began."""
        for name in ("experiment.yaml", "events.jsonl", "capture.pcapng"):
            (self.path / name).unlink(missing_ok=True)
        self.path.rmdir()

    def write_experiment(self, text: str) -> None:
        write_whole(self.path / "experiment.yaml", text.encode())

    def write_result(self, result: RunResult) -> None:
        write_whole(self.path / "result.json", result_json(result).encode())

    def write_samples(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """health.npz: what was measured and scored over time."""
        buffer = BytesIO()
        np.savez_compressed(buffer, **dict(arrays))  # type: ignore[arg-type]
        write_whole(self.path / "health.npz", buffer.getvalue())

    def append_event(self, event: Mapping[str, object]) -> None:
        """Add a line to events.jsonl; a line that does not fit is taken back."""
        path = self.path / "events.jsonl"
        line = (json.dumps(event, default=_plain) + "\n").encode()
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                end = os.fstat(descriptor).st_size
                try:
                    _write_all(descriptor, line)
                except OSError:
                    os.ftruncate(descriptor, end)
                    raise
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _cannot_write(path, error) from error


def result_json(result: RunResult) -> str:
    """The documented JSON, indented, ending in a newline."""
    return json.dumps(result.document(), indent=1, allow_nan=False) + "\n"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that readers see all of it or none.

    Raises RunFailedError naming the file and the reason; nothing half-written is left then.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        part.rename(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(error, OSError):
            raise _cannot_write(path, error) from error
        raise


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _cannot_write(path: Path, error: OSError) -> RunFailedError:
    return RunFailedError(
        f"cannot write {path}: {error.strerror or error}. Make room there, or choose another place with --out."
    )


def _fresh(name: str) -> Path:
    """A directory that was not there before; two runs of one second get different ones."""
    number = 1
    while True:
        path = DEFAULT_PARENT / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if not path.is_dir():
                raise
            number += 1
            continue
        return path


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return str(value)
