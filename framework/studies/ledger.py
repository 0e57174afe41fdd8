"""The rows of a study on disk: JSON lines that are only ever appended, by one process at a time.

The first line says whose rows these are; every other is the row of a point and begins with the point, the
version of railweave that computed it and whether it was computed, at fixed places, so that finding out what
is there needs no JSON. Of two rows of a point the later one counts.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from railweave.framework.errors import InputError, RunFailedError

SCHEMA = {"name": "railweave.rows", "version": 1}
_HEAD = re.compile(rb'\{"point":"([0-9a-f]{32})","version":"([0-9a-f]{12})","ok":(true|false)')
_BEGINNINGS = (b'{"schema":', b'{"point":"')
_CHUNK = 1 << 22
"""Bytes that are read at once from the end of a file."""
HEAD = ("point", "version", "ok")
"""The first keys of every row."""


@dataclass(slots=True)
class LedgerContent:
    """What a ledger has. `ok`: of each point of this version, whether its latest row was computed; `others`:
    rows of each other version."""

    ok: dict[str, bool] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)


def header(study: str) -> bytes:
    return json.dumps({"schema": SCHEMA, "study": study}, separators=(",", ":")).encode() + b"\n"


def known(path: Path, study: str, version: str | None) -> LedgerContent:
    """What is in the ledger of a study, of `version`, or of any; nothing where there is no file. A last line
    that was cut short does not count.

    Raises InputError for a file that cannot be read, or is no ledger of this study.
    """
    content = LedgerContent()
    for head, _ in _rows(path, study):
        point, by, ok = head[1].decode(), head[2].decode(), head[3] == b"true"
        if version is None or by == version:
            content.ok[point] = ok
        else:
            content.others[by] = content.others.get(by, 0) + 1
    return content


def rows(path: Path, study: str, version: str | None) -> dict[str, dict[str, Any]]:
    """The latest row of every point, by its id, in the order of their first; of `version`, or of any. Raises
    InputError as `known` does."""
    latest: dict[str, bytes] = {}
    for head, line in _rows(path, study):
        if version is None or head[2].decode() == version:
            latest[head[1].decode()] = line
    return {point: _parsed(path, line) for point, line in latest.items()}


def study_of(path: Path) -> str:
    """Whose rows these are. Raises InputError for a file that is no ledger."""
    with _opened(path) as file:
        return _named(path, file.readline())


class Ledger(AbstractContextManager["Ledger"]):
    """A ledger that this process writes; no other can meanwhile, and the lock ends with the process.

    `cut`: how many bytes of a torn last line were dropped. Raises InputError for a file that is no ledger of
    this study, cannot be written, or that another process writes.
    """

    def __init__(self, path: Path, study: str) -> None:
        import fcntl  # Windows has none, and runs single experiments

        self._path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise InputError(f"{path}: cannot be opened: {error.strerror}. Choose another place.") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for _ in _rows(path, study):  # is this one of the study?
                break
            self.cut = self._without_torn_line()
            if self._size() == 0:
                self._append(header(study))
        except BlockingIOError:
            os.close(self._file)
            raise InputError(
                f"{path}: another railweave is writing it. Wait for it to end, or choose another place."
            ) from None
        except BaseException:
            os.close(self._file)
            raise

    def add(self, point: str, version: str, ok: bool, row: Mapping[str, object]) -> None:
        """Keep a row. Raises RunFailedError where there is no room for it; what was there stays whole."""
        document = {"point": point, "version": version, "ok": ok, **row}
        line = json.dumps(document, separators=(",", ":"), allow_nan=False, default=np.generic.item)
        self._append(line.encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, data: bytes) -> None:
        end, view = self._size(), memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            os.ftruncate(self._file, end)
            raise RunFailedError(
                f"{self._path}: cannot be written: {error.strerror}. The rows so far are kept: make room and "
                "run the same command again."
            ) from error

    def _size(self) -> int:
        return os.fstat(self._file).st_size

    def _without_torn_line(self) -> int:
        """Cuts off what stands behind the last whole line, and says how much that was."""
        size = end = self._size()
        while end and (block := os.pread(self._file, min(end, _CHUNK), max(end - _CHUNK, 0))):
            if newline := block.rfind(b"\n") + 1:
                end += newline - len(block)
                break
            end -= len(block)
        torn = os.pread(self._file, len(_BEGINNINGS[0]), end)
        if torn and not any(word.startswith(torn) or torn.startswith(word) for word in _BEGINNINGS):
            raise InputError(_no_row(self._path, "the last line"))
        os.ftruncate(self._file, end)
        return size - end


def _rows(path: Path, study: str) -> Iterator[tuple[re.Match[bytes], bytes]]:
    """The beginning of every whole row, and the row."""
    if not path.exists():
        return
    with _opened(path) as file:
        first = file.readline()
        if not first.endswith(b"\n") and _BEGINNINGS[0].startswith(first[: len(_BEGINNINGS[0])]):
            return  # cut short while it was begun
        if (other := _named(path, first)) != study:
            raise InputError(
                f"{path}: it has rows of study {other!r}, this is {study!r}. Choose another place."
            )
        for number, line in enumerate(file, 2):
            if not line.endswith(b"\n"):
                return
            if (head := _HEAD.match(line)) is None:
                raise InputError(_no_row(path, f"line {number}"))
            yield head, line


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}. Check the path.") from None


def _named(path: Path, first: bytes) -> str:
    try:
        document = json.loads(first)
        schema, study = document["schema"], document["study"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(_no_ledger(path, "its first line does not say so")) from None
    if schema != SCHEMA or not isinstance(study, str):
        raise InputError(_no_ledger(path, f"it is {schema!r}, and {SCHEMA!r} is read"))
    return study


def _parsed(path: Path, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line.decode())  # of bytes it would guess the encoding
    except (ValueError, RecursionError) as error:
        raise InputError(_no_ledger(path, f"a row is no JSON: {error}")) from None
    assert isinstance(row, dict)  # it begins as one
    return row


def _no_row(path: Path, line: str) -> str:
    return f"{path}: {line} is no row of a study. Take it out, or choose another place."


def _no_ledger(path: Path, why: str) -> str:
    return f"{path} holds no rows of a study: {why}. Choose another place."
