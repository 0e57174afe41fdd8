"""The file of rows that an interrupted benchmark goes on with."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from railweave.framework.errors import InputError, RunFailedError

R = TypeVar("R")


class RowFile(Generic[R]):
    """Rows as JSON lines, each written once it is complete. `rows`: those that are there; a line cut short
    by a kill is dropped.

    `kind`: the dataclass of the rows; `command`: what writes them. Raises InputError for a file that cannot
    be read or holds anything else, and for a directory that does not exist.
    """

    def __init__(self, path: Path, kind: type[R], command: str) -> None:
        self._path = path
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
        if not path.absolute().parent.is_dir():
            raise InputError(f"--resume {path}: its directory does not exist. Give a file in one that does.")
        try:
            lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        except (OSError, ValueError) as error:
            raise InputError(f"--resume {path}: cannot be read: {error}.") from None
        start = f'{{"{names[0]}":'
        cut = bool(lines) and not lines[-1].endswith("\n") and start.startswith(lines[-1][: len(start)])
        whole = lines[:-1] if cut else lines
        adapter, self.rows = TypeAdapter(kind), list[R]()
        for number, line in enumerate(whole, 1):
            try:
                self.rows.append(adapter.validate_python(_known(json.loads(line), names)))
            except ValueError as error:
                raise InputError(
                    f"--resume {path}: line {number} is no row of `{command}`: {error}. Give another file."
                ) from None
        if cut:
            path.write_text("".join(whole))

    def add(self, row: R) -> None:
        """Keep a row. Raises RunFailedError where it cannot be written."""
        line = json.dumps(asdict(row), allow_nan=False)  # type: ignore[call-overload]
        try:
            with self._path.open("a") as file:
                file.write(f"{line}\n")
        except OSError as error:
            raise RunFailedError(f"--resume {self._path}: cannot be written: {error.strerror}.") from None


def _known(document: Any, names: list[str]) -> Any:
    """The document, if it has no key that rows do not have; pydantic would ignore it."""
    if isinstance(document, dict) and (others := document.keys() - set(names)):
        raise ValueError(f"it has {', '.join(sorted(others))}")
    return document
