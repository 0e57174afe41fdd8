"""YAML as plain data with the line and column of everything in it, and the traps of YAML 1.1 disarmed.

`no`, `10:30`, `0x1f` and dates stay the words they are; `1e3` is a number; `012` (octal to YAML 1.1, twelve to
everyone else), duplicate keys, empty values, anchors and tags are refused, each with its place and its mend.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from railweave.framework.errors import ExperimentError

Key = tuple[str | int, ...]

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NOTHING = ("", "~", "null", "Null", "NULL")
_CORE = "tag:yaml.org,2002:"
_SCALARS = {_CORE + name for name in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value")}


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a file; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Something to mend at `key`; `mark` where the file itself is wrong there."""

    key: Key
    message: str
    mark: Mark | None = None


@dataclass(slots=True)
class Marked:
    """What a file holds: `value`, the place of every key and list entry, and what cannot be read.

    What has a problem is left out of `value`, so that nobody reports it twice.
    """

    source: str
    value: dict[str, object] = field(default_factory=dict)
    marks: dict[Key, Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


class _Unreadable(Exception):
    """The node has been reported and yields no value."""


def read(path: Path) -> Marked:
    """The experiment file at `path`. Raises ExperimentError when it cannot be opened or is not YAML."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ExperimentError(f"{path}: there is no such file. Check the path.") from None
    except UnicodeDecodeError as error:
        raise ExperimentError(f"{path}: not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None
    except OSError as error:
        raise ExperimentError(f"{path}: cannot be read: {error.strerror}.") from None
    return parse(text, str(path))


def parse(text: str, source: str) -> Marked:
    """The mapping in `text`; an empty text is an empty mapping.

    Raises ExperimentError with line and column when the text is not YAML or not a mapping.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        at = f"{place.line + 1}:{place.column + 1}: " if place else ""
        what = error.problem or error.context or "not YAML"
        hint = " Indent with spaces, not tabs." if "\\t" in what else ""
        raise ExperimentError(f"{source}:{at}not readable as YAML: {what}.{hint}") from None
    except (yaml.YAMLError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise ExperimentError(f"{source}: not readable as YAML: {reason}.") from None
    marked = Marked(source)
    if root is None:
        return marked
    if not isinstance(root, yaml.MappingNode):
        raise ExperimentError(f"{source}:1:1: an experiment is a list of `key: value` lines, this is not.")
    reader = _Reader(marked)
    marked.value = reader.mapping(root, ())
    return marked


class _Reader:
    def __init__(self, marked: Marked) -> None:
        self._marked = marked
        self._seen: set[int] = set()

    def mapping(self, node: yaml.MappingNode, at: Key) -> dict[str, object]:
        result: dict[str, object] = {}
        first: dict[str, Mark] = {}
        for key_node, value_node in node.value:
            mark = _mark(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self._report(at, "a key must be a word.", mark)
                continue
            name = str(key_node.value)
            if key_node.tag == _CORE + "merge":
                self._report(at, "`<<` is not read here. Write the keys out.", mark)
                continue
            key = (*at, name)
            if name in first:
                self._report(
                    key, f"is given twice, first on line {first[name].line}. Keep one of them.", mark
                )
                continue
            first[name] = self._marked.marks[key] = mark
            try:
                result[name] = self._value(value_node, key)
            except _Unreadable:
                continue
        return result

    def _sequence(self, node: yaml.SequenceNode, at: Key) -> list[object]:
        result: list[object] = []
        for i, entry in enumerate(node.value):
            key = (*at, i)
            self._marked.marks[key] = _mark(entry)
            try:
                result.append(self._value(entry, key))
            except _Unreadable:
                continue
        return result

    def _value(self, node: yaml.Node, at: Key) -> object:
        mark = _mark(node)
        if id(node) in self._seen:
            raise self._refuse(at, "an alias (`*name`) is not read here. Write the value out.", mark)
        self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode) and node.tag == _CORE + "map":
            return self.mapping(node, at)
        if isinstance(node, yaml.SequenceNode) and node.tag == _CORE + "seq":
            return self._sequence(node, at)
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _SCALARS:
            raise self._refuse(at, f"the tag {node.tag} is not read here. Write a plain value.", mark)
        return self._scalar(node, at, mark)

    def _scalar(self, node: yaml.ScalarNode, at: Key, mark: Mark) -> object:
        text = str(node.value)
        if node.style is not None:
            return text
        if text in _NOTHING:
            raise self._refuse(at, "has no value. Give one, or leave the key out to get the default.", mark)
        if text in _TRUTHS:
            return _TRUTHS[text]
        if _LEADING_ZERO.fullmatch(text):
            plain = text.replace("_", "").lstrip("+-0") or "0"
            raise self._refuse(
                at, f"{text} would be read as octal. Write {plain}, or '{text}' if it is a word.", mark
            )
        if len(text) <= 40:
            if _INT.fullmatch(text):
                return int(text)
            if _FLOAT.fullmatch(text):
                return float(text)
        return text

    def _report(self, key: Key, message: str, mark: Mark) -> None:
        self._marked.problems.append(Problem(key, message, mark))

    def _refuse(self, key: Key, message: str, mark: Mark) -> _Unreadable:
        self._report(key, message, mark)
        return _Unreadable()


def _mark(node: yaml.Node) -> Mark:
    return Mark(node.start_mark.line + 1, node.start_mark.column + 1)
