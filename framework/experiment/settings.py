"""The settings of an experiment and where each came from, so that everything wrong is reported at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import NamedTuple, TypeVar

from railweave.framework.errors import ExperimentError

Key = tuple[str | int, ...]
_T = TypeVar("_T")
SHOWN = 3
"""Problems of one message that are listed; more of them are counted."""


class FilePlace(NamedTuple):
    """A place in a file; both count from 1."""

    line: int
    column: int


class Mistake(NamedTuple):
    """An error at `key`; `mark` where the file itself is wrong there."""

    key: Key
    message: str
    mark: FilePlace | None = None


@dataclass(slots=True)
class LayeredSettings:
    """The mapping of a file with the command's options laid over it.

    `marks`: the place of every key and list entry of the file. `labels` names the option that set a key;
    `notes` tells what a person should know though nothing is wrong. What cannot be read is a problem and no
    part of `value`, so that nothing else reports it.
    """

    source: str
    value: dict[str, object] = field(default_factory=dict)
    marks: dict[Key, FilePlace] = field(default_factory=dict)
    labels: dict[Key, str] = field(default_factory=dict)
    problems: list[Mistake] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cause: BaseException | None = None
    written: bool = False
    """Whether a file holds it: its numbers are as a person wrote them, not in base units."""

    def report(
        self, key: Key, message: str, cause: BaseException | None = None, mark: FilePlace | None = None
    ) -> None:
        self.problems.append(Mistake(key, message, mark))
        self.cause = self.cause or cause

    def is_set(self, *key: str | int) -> bool:
        """Whether the file or an option sets this key."""
        return key in self.marks or key in self.labels

    def override(self, key: Key, value: object, label: str) -> None:
        """Set one key; sections that the file lacks are made."""
        section: dict[str, object] = self.value
        for depth, name in enumerate(key[:-1], 1):
            inner = section.setdefault(str(name), {})
            if not isinstance(inner, dict):
                self.labels[key] = label
                self.report(key, f"{'.'.join(map(str, key[:depth]))} has no parts to set; it is {inner!r}.")
                return
            section = inner
        self._forget(key)
        section[str(key[-1])] = value
        self.labels[key] = label

    def drop(self, name: str) -> None:
        """Remove a key of the top level and everything reported about it."""
        self.value.pop(name, None)
        self._forget((name,))

    def _forget(self, key: Key) -> None:
        self.problems = [p for p in self.problems if p.key[: len(key)] != key]
        for places in (self.marks, self.labels):
            for stale in [k for k in places if k[: len(key)] == key]:
                del places[stale]

    def check(self) -> None:
        """Raise one ExperimentError that lists every problem, in the order of the file."""
        if not self.problems:
            return
        placed = sorted(((*self._placed(p), p.message) for p in self.problems), key=itemgetter(0))
        like: dict[str, dict[str, None]] = {}
        for _, line, message in placed:
            like.setdefault(message, {})[line] = None
        lines = [
            line + (f" And {len(alike) - SHOWN} more like it." if nth == SHOWN - 1 < len(alike) - 1 else "")
            for alike in like.values()
            for nth, line in enumerate(islice(alike, SHOWN))
        ]
        text = "\n".join(lines if len(lines) == 1 else [f"{len(lines)} errors:", *lines])
        raise ExperimentError(text) from self.cause

    def _placed(self, problem: Mistake) -> tuple[tuple[int, int], str]:
        """Where in the file a problem lies, and the line that describes it."""
        label, mark = _nearest(self.labels, problem.key), problem.mark or _nearest(self.marks, problem.key)
        if label is not None and problem.mark is None:
            inside = problem.key[1:] if problem.key[0] == "jobs" else ()  # one option holds a whole job
            where = ".".join(map(str, (label, *inside)))
        else:
            place = (f"{self.source}:{mark.line}:{mark.column}",) if mark else ()
            name = ".".join(map(str, problem.key))
            where = ": ".join((*place, name) if name else place)
        return mark or (0, 0), f"{where}: {problem.message}" if where else problem.message


def _nearest(places: Mapping[Key, _T], key: Key) -> _T | None:
    """The place of the key, or of the innermost section around it that has one."""
    return next((places[key[:n]] for n in range(len(key), 0, -1) if key[:n] in places), None)
