"""The run directory: written in whole files or none, even when the disk is full; and read back."""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from io import BytesIO, FileIO
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import InputError, RunFailedError
from railweave.framework.model.events import EVENTS, Event, RunEvent
from railweave.framework.results.result import RunResult, from_document

DEFAULT_PARENT = Path("runs")
MOST_NUMBER, MOST_DIGITS = 1e30, 20
"""The largest number of a result, and how long a whole one may be: no figure of a run comes near."""
OWN_FILES = (
    "experiment.yaml", "fabric.yaml", "events.jsonl", "health.npz", "routes.npz", "ranks.npz", "rules.json",
    "links.npz", "trace.npz", "capture.pcapng", "result.json",
)  # fmt: skip
"""What a run writes itself, and no plugin may."""
MOST_KEPT = 1 << 28
"""Bytes of a file that are held while plugins write next to it."""
AUTO_SCALE = "\nrate_scale: auto\n"


class RunDirectory:
    """Where a run is written: experiment.yaml, events.jsonl, arrays as .npz, result.json."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, out: Path | None, label: str) -> Self:
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
        except OSError as error:
            blocked = isinstance(error, FileExistsError | NotADirectoryError)
            why = "is in the way: not a directory" if blocked else f"cannot be made: {error.strerror}"
            raise InputError(f"{out or DEFAULT_PARENT} {why}. Choose another --out.") from None

    def discard(self) -> None:
        """Take back what was written, for a run that was refused before it began."""
        for name in ("experiment.yaml", "fabric.yaml", "events.jsonl", "capture.pcapng"):
            (self.path / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # an observer may have written something of its own
            self.path.rmdir()

    def write_text(self, name: str, text: str) -> None:
        """experiment.yaml, fabric.yaml, rules.json."""
        write_whole(self.path / name, text.encode())

    def write_result(self, result: RunResult) -> None:
        """Write result.json; and into experiment.yaml the rate scale that was chosen where it said auto, so
        that the same experiment again runs at the same scale."""
        write_whole(self.path / "result.json", result_json(result).encode())
        experiment = self.path / "experiment.yaml"
        text = experiment.read_text(encoding="utf-8") if experiment.exists() else ""
        if AUTO_SCALE in text:
            scale = repr(float(result.fabric.rate_scale))
            scale = scale if "." in scale else scale.replace("e", ".0e")  # 1e-05 is a word in YAML 1.1
            chosen = f"\nrate_scale: {scale}  # auto: chosen for the machine that ran this\n"
            self.write_text(experiment.name, text.replace(AUTO_SCALE, chosen))

    def write_arrays(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """health.npz, what was measured and scored over time; links.npz, the figures of all links; trace.npz,
        their loads over time."""
        buffer = BytesIO()
        np.savez_compressed(buffer, **dict(arrays))  # type: ignore[arg-type]
        write_whole(self.path / name, buffer.getvalue())

    def append_event(self, event: Event) -> None:
        """Add a line to events.jsonl; a line that does not fit is taken back."""
        path = self.path / "events.jsonl"
        line = f"{event_line(event)}\n".encode()
        with _naming(path), path.open("ab", buffering=0) as file:
            end = file.tell()
            try:
                _write_all(file, line)
            except OSError:
                file.truncate(end)
                raise


class OwnFiles:
    """The run's own files in a directory as they are now, to be kept so while plugins write there; those of
    more than MOST_KEPT bytes are left alone."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._kept = {name: self._read(name) for name in OWN_FILES}

    def _read(self, name: str) -> bytes | None:
        """None where there is no such file; nothing of what is not kept."""
        path = self._directory / name
        try:
            return path.read_bytes() if path.stat().st_size <= MOST_KEPT else b""
        except OSError:
            return None

    @staticmethod
    def _same(name: str, now: bytes | None, kept: bytes | None) -> bool:
        """Events go on being appended."""
        grown = name == "events.jsonl" and kept is not None and now is not None
        return now == kept or (grown and bytes(now or b"").startswith(kept or b""))

    def restored(self) -> tuple[str, ...]:
        """The names of files that have changed since, or are new; they are as before now."""
        changed = [name for name, kept in self._kept.items() if not self._same(name, self._read(name), kept)]
        for name in changed:
            kept, path = self._kept[name], self._directory / name
            if kept is None:
                path.unlink()
            elif kept:
                write_whole(path, kept)
        return tuple(changed)


@dataclass(frozen=True)
class Run:
    """A run read back from its directory. Events and samples are read when they are first asked for."""

    path: Path
    result: RunResult

    @cached_property
    def events(self) -> tuple[RunEvent, ...]:
        """The events of events.jsonl, in the order they happened."""
        from pydantic import TypeAdapter

        kinds = {
            kind.kind: cache(partial(TypeAdapter, kind)) for kind in EVENTS if issubclass(kind, RunEvent)
        }
        with self._open("events.jsonl") as file:
            return tuple(kinds[event["kind"]]().validate_python(event) for event in map(json.loads, file))

    @cached_property
    def samples(self) -> Mapping[str, NDArray[Any]]:
        """The arrays of health.npz by name; see docs/results.md."""
        return self._arrays("health.npz")

    @cached_property
    def links(self) -> Mapping[str, NDArray[Any]]:
        """The arrays of links.npz by name, of a fabric whose result does not list every link."""
        return self._arrays("links.npz")

    @cached_property
    def trace(self) -> Mapping[str, NDArray[Any]]:
        """The arrays of trace.npz by name, of a run with `trace`."""
        return self._arrays("trace.npz")

    def _arrays(self, name: str) -> Mapping[str, NDArray[Any]]:
        with self._open(name) as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)

    def _open(self, name: str) -> BinaryIO:
        try:
            return (self.path / name).open("rb")
        except OSError as error:
            raise InputError(f"{self.path / name} cannot be read: {error.strerror}.") from None


def read_result(path: Path) -> RunResult:
    """The result in a run directory, or in a file of its own.

    Raises InputError for a directory without a result (the run failed or was killed), saying what it holds,
    and for what is no result.
    """
    file = path / "result.json" if path.is_dir() else path
    if path.is_dir() and file.exists() and not file.is_file():  # reading a pipe would wait
        raise InputError(f"{file} is no file. Give the directory of a run.")
    try:
        text = file.read_text(encoding="utf-8")
        return from_document(
            json.loads(text, parse_constant=no_number, parse_float=_number, parse_int=_whole_number)
        )
    except FileNotFoundError:
        if not path.is_dir():
            raise InputError(f"{path}: there is no such run directory or file. Check the path.") from None
        names = ", ".join(sorted(entry.name for entry in path.iterdir())) or "nothing"
        raise InputError(
            f"{path} holds no result.json, because that run failed, was killed, or still runs. "
            f"It holds: {names}."
        ) from None
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}. Check the path.") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is no result of a run: {error}. Give the directory of a run.") from None
    except RunFailedError as error:
        raise InputError(f"{file}: {error}") from None


def no_number(word: str) -> NoReturn:
    """Refuses NaN and infinities, which Python reads in JSON although JSON has none."""
    raise ValueError(f"{word} is no number of JSON")


def _number(text: str) -> float:
    """Refuses what figures made of it could not hold."""
    if abs(number := float(text)) > MOST_NUMBER:
        raise ValueError(f"{text:.20} is no number of a run")
    return number


def _whole_number(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"{text:.20} and more digits are no number of a run")
    return int(text)


def result_json(result: RunResult) -> str:
    """The documented JSON, indented, ending in a newline."""
    return json.dumps(result.document(), indent=1, allow_nan=False) + "\n"


def event_line(event: Event) -> str:
    """An event as it stands in events.jsonl."""
    return json.dumps(event.to_document(), default=_plain)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that readers see all of it or none. What is no file, a pipe or a device, stays one and
    gets the bytes as they come.

    Raises RunFailedError naming the file and the reason; nothing half-written is left then.
    """
    with _naming(path):
        if path.exists() and not path.is_file():
            with path.open("wb", buffering=0) as pipe:
                _write_all(pipe, data)
            return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with _naming(path):
            with part.open("wb", buffering=0) as file:
                _write_all(file, data)
                os.fsync(file.fileno())
            part.replace(path)
    finally:
        with contextlib.suppress(OSError):  # renamed, if all went well
            part.unlink()


def _write_all(file: FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Inside the block, an OSError becomes a RunFailedError that names the file."""
    try:
        yield
    except OSError as error:
        raise RunFailedError(
            f"cannot write {path}: {error.strerror or error}. Make room there, or choose another "
            "place with --out."
        ) from error


def _fresh(name: str) -> Path:
    """A directory that was not there before; two runs of one second get different ones."""
    for number in count(1):
        path = DEFAULT_PARENT / (name if number == 1 else f"{name}-{number}")
        with contextlib.suppress(FileExistsError):
            path.mkdir(parents=True)
            return path
    raise AssertionError("numbers never end")


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
