"""Rows of cases that were measured, in a ledger, so that an interrupted benchmark goes on."""

import json
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from railweave.framework.errors import InputError
from railweave.framework.studies.ledger import Ledger, known, rows
from railweave.framework.studies.version import code_version


class Measured(Protocol):
    """A dataclass with the figures of a case, which is one, too."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def case(self) -> Any: ...


R = TypeVar("R", bound=Measured)


class RowFile(Generic[R]):
    """The ledger of a benchmark. `kind`: the dataclass of its rows; `rows`: what the file has.
    `elsewhere`: folders of code that no row depends on.

    Raises InputError as `Ledger` does, and for rows that another version of the code measured: figures of two
    versions in one table prove nothing about either.
    """

    def __init__(self, path: Path, kind: type[R], study: str, elsewhere: tuple[str, ...] = ()) -> None:
        self._version = code_version("bench", elsewhere=elsewhere)
        try:
            self._ledger = Ledger(path, study)
        except InputError as error:
            raise InputError(f"--resume {error}") from None
        try:
            if others := known(path, study, self._version).others:
                raise InputError(
                    f"--resume {path}: it has rows of version {', '.join(others)} of the code, this is "
                    f"{self._version}. Give another file."
                )
            documents, adapter = rows(path, study, self._version), TypeAdapter(kind)
            self.rows = [adapter.validate_python(document["row"]) for document in documents.values()]
        except (KeyError, ValidationError) as error:
            self.close()
            raise InputError(f"--resume {path}: a row is none of {study}: {error}.") from None
        except BaseException:
            self.close()
            raise

    def add(self, row: R) -> None:
        """Keep a row. Raises RunFailedError where it cannot be written."""
        identity = sha256(json.dumps(asdict(row.case)).encode()).hexdigest()[:32]
        self._ledger.add(identity, self._version, True, {"row": asdict(row)})

    def close(self) -> None:
        self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
