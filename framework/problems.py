"""The settings of an experiment and where each came from, so that everything wrong is reported at once, in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TypeVar

from railweave.framework.errors import ExperimentError
from railweave.framework.yamlmarks import Key, Mark, Marked, Problem

_T = TypeVar("_T")


@dataclass(slots=True)
class Settings:
    """What was asked for: the file's mapping with the command's options laid over it.

    `labels` names the option that set a key; `notes` tells what a person should know though nothing is wrong.
    """

    source: str
    value: dict[str, object]
    marks: dict[Key, Mark] = field(default_factory=dict)
    labels: dict[Key, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, marked: Marked) -> Settings:
        return cls(marked.source, marked.value, marked.marks, problems=marked.problems)

    def report(self, key: Key, message: str) -> None:
        self.problems.append(Problem(key, message))

    def given(self, *key: str | int) -> bool:
        """Whether the file or an option sets this key."""
        return key in self.marks or key in self.labels

    def override(self, key: Key, value: object, label: str) -> None:
        """Set one key; sections on the way are made where the file has none."""
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

    def drop(self, key: Key) -> None:
        """Forget a key, so that nothing is said about it any more."""
        section: object = self.value
        for name in key[:-1]:
            section = section.get(str(name)) if isinstance(section, dict) else None
        if isinstance(section, dict):
            section.pop(str(key[-1]), None)
        self._forget(key)

    def _forget(self, key: Key) -> None:
        self.problems = [p for p in self.problems if p.key[: len(key)] != key]
        for places in (self.marks, self.labels):
            for known in [k for k in places if k[: len(key)] == key]:
                del places[known]

    def check(self) -> None:
        """Raise one ExperimentError that lists every problem, in the order of the file."""
        if not self.problems:
            return
        lines = [self._line(p) for p in sorted(self.problems, key=self._order)]
        unique = list(dict.fromkeys(lines))
        if len(unique) == 1:
            raise ExperimentError(unique[0])
        raise ExperimentError("\n".join([f"{len(unique)} things to mend:", *unique]))

    def _order(self, problem: Problem) -> tuple[int, int]:
        mark = problem.mark or self._mark(problem.key)
        return (mark.line, mark.column) if mark else (0, 0)

    def _line(self, problem: Problem) -> str:
        label = self._nearest(self.labels, problem.key)
        if label is not None and problem.mark is None:
            return f"{label}: {problem.message}"
        mark = problem.mark or self._mark(problem.key)
        place = f"{self.source}:{mark.line}:{mark.column}: " if mark else ""
        name = ".".join(map(str, problem.key))
        return f"{place}{name}: {problem.message}" if name else f"{place}{problem.message}"

    def _mark(self, key: Key) -> Mark | None:
        return self._nearest(self.marks, key)

    @staticmethod
    def _nearest(places: Mapping[Key, _T], key: Key) -> _T | None:
        while key:
            if key in places:
                return places[key]
            key = key[:-1]
        return None


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """` Did you mean rails?`, or nothing."""
    near = get_close_matches(str(given), list(known), 1)
    return f" Did you mean {near[0]}?" if near else ""
