"""What `compare`, `compare --jobs` and `chaos` print with --json, read back from a file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railweave.framework.errors import InputError
from railweave.framework.results.directory import no_number
from railweave.framework.results.figures import Accuracy, FaultFigures
from railweave.framework.studies.comparison import Comparison
from railweave.framework.studies.shared_rails import SharedRails


@dataclass(frozen=True, slots=True)
class Scenario:
    """`faults` as `--fault` takes them; `expected`: completes, or fails with some of the `cut` GPUs named."""

    number: int
    faults: tuple[str, ...]
    expected: str
    cut: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChaosRun(Scenario):
    """One run of a chaos campaign, and how it ended.

    `error` None: it completed; `leftovers`: what it left on the machine; `why`: what differs from the
    expected ending, None if nothing does. `timed_faults` and `accuracy` as in the run's result.
    """

    error: str | None
    wrong: int
    verdict: str
    seconds: float
    leftovers: tuple[str, ...]
    timed_faults: tuple[FaultFigures, ...]
    accuracy: Accuracy | None
    why: str | None


@dataclass(frozen=True, slots=True)
class Campaign:
    """Rows of one kind, and the experiment that they have in common."""

    experiment: Mapping[str, Any]
    rows: tuple[Comparison, ...] | tuple[SharedRails, ...] | tuple[ChaosRun, ...]


READABLE: dict[tuple[str, int], tuple[str, Any]] = {
    ("railweave.compare", 2): ("rows", tuple[Comparison, ...]),
    ("railweave.compare-jobs", 1): ("rows", tuple[SharedRails, ...]),
    ("railweave.chaos", 2): ("runs", tuple[ChaosRun, ...]),
}
"""Schema and version -> the key of the rows, and what they are."""


def read_campaign(path: Path) -> Campaign:
    """Raises InputError, naming the file, for one that cannot be read or that no such command wrote."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"), parse_constant=no_number)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}. Check the path.") from None
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not JSON: {error}. Write it by `compare --json` or `chaos --json`."
        ) from None
    schema = document.get("schema") if isinstance(document, dict) else None
    name, version = (schema.get("name"), schema.get("version")) if isinstance(schema, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(version, int) or (name, version) not in READABLE:
        kinds = ", ".join(f"{name} {version}" for name, version in READABLE)
        raise InputError(f"{path} is {name!r}, version {version!r}. Reports are made of runs and of {kinds}.")
    key, kind = READABLE[name, version]
    rows = _checked(path, document, key, kind)
    experiment = _checked(path, document, "experiment", dict[str, Any])
    if not rows:
        raise InputError(f"{path} holds no rows, so there is nothing to report. Run the command again.")
    return Campaign(experiment, rows)


def _checked(path: Path, document: Mapping[str, Any], key: str, kind: Any) -> Any:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(document.get(key))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, (key, *first["loc"])))
        raise InputError(f"{path}: {where}: {first['msg']}. Run the command again.") from None
