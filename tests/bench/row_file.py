"""The file of rows that an interrupted benchmark goes on with."""

import json
from dataclasses import asdict, fields
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from railweave.framework.errors import InputError, RunFailedError

R = TypeVar("R")


CODE = "code"
"""The key of each line that says by which version of the code it was measured."""


@cache
def code_version() -> str:
    """Twelve digits that differ where any module of railweave does; documentation does not count."""
    spec, digest = find_spec("railweave"), sha256()
    assert spec is not None and spec.submodule_search_locations is not None
    (root,) = spec.submodule_search_locations
    for package in sorted(entry for entry in Path(root).iterdir() if entry.is_dir()):
        for file in sorted(package.resolve().rglob("*.py")):
            digest.update(f"{package.name}/{file.relative_to(package.resolve())}\n".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


class RowFile(Generic[R]):
    """Rows as JSON lines, each written once it is complete. `rows`: those that are there; a line cut short
    by a kill is dropped.

    `kind`: the dataclass of the rows; `command`: what writes them. Raises InputError for a file that cannot
    be read, holds anything else or was measured by another version of the code, and for a directory that does
    not exist.
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
                document, measured_by = _known(json.loads(line), names)
                self.rows.append(adapter.validate_python(document))
            except ValueError as error:
                raise InputError(
                    f"--resume {path}: line {number} is no row of `{command}`: {error}. Give another file."
                ) from None
            if measured_by != code_version():
                raise InputError(
                    f"--resume {path}: line {number} was measured by version "
                    f"{measured_by or 'unknown'} of the code, this is {code_version()}. Give another file."
                )
        if cut:
            path.write_text("".join(whole))

    def add(self, row: R) -> None:
        """Keep a row. Raises RunFailedError where it cannot be written."""
        document = {**asdict(row), CODE: code_version()}  # type: ignore[call-overload]
        line = json.dumps(document, allow_nan=False)
        try:
            with self._path.open("a") as file:
                file.write(f"{line}\n")
        except OSError as error:
            raise RunFailedError(f"--resume {self._path}: cannot be written: {error.strerror}.") from None


def _known(document: Any, names: list[str]) -> tuple[Any, object]:
    """The document and the version that measured it, if it has no key that rows do not have; pydantic would
    ignore it."""
    measured_by = document.pop(CODE, "") if isinstance(document, dict) else ""
    if isinstance(document, dict) and (others := document.keys() - set(names)):
        raise ValueError(f"it has {', '.join(sorted(others))}")
    return document, measured_by
