"""YAML as plain data with the line and column of everything in it, without the traps of YAML 1.1.

`no`, `10:30`, `0x1f` and dates stay the words they are; `1e3` is a number; `012` (octal to YAML 1.1, twelve
to everyone else), duplicate keys, empty values, aliases and tags are refused, each with its place and its
fix.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.settings import Key, Mark, Settings

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NOTHING = ("", "~", "null", "Null", "NULL")
_CORE = "tag:yaml.org,2002:"
_SCALARS = {_CORE + name for name in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value")}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where PyYAML was built with it: ten times as fast."""
DEEPEST = 100
"""Levels of a file; an experiment has three."""


class _Unreadable(Exception):
    """Why a node yields no value."""


def read(path: Path) -> Settings:
    """The YAML file at `path`. Raises ExperimentError when it cannot be opened or is not YAML."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ExperimentError(f"{path}: there is no such file. Check the path.") from None
    except UnicodeDecodeError as error:
        raise ExperimentError(f"{path}: not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None
    except OSError as error:
        raise ExperimentError(f"{path}: cannot be read: {error.strerror}.") from None
    return parse(text, str(path))


def parse(
    text: str,
    source: str,
    *,
    what: str = "an experiment",
    watch: Callable[[yaml.Event, int], None] = lambda event, depth: None,
) -> Settings:
    """The mapping in `text`; an empty text is an empty mapping. `what` it is, for messages.

    `watch` sees every event and the depth after it before anything is composed, and may raise: a large file
    that is wrong in its first lines need not be read to its end.

    Raises ExperimentError with line and column when the text is not YAML or not a mapping.
    """
    depth = documents = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            documents += isinstance(event, yaml.DocumentStartEvent)
            if documents > 1:
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise ExperimentError(f"{source}:{line}:1: a second document begins here. Keep one of them.")
            if depth > DEEPEST:  # composing is recursive
                raise ExperimentError(f"{source}: not readable as YAML: nested too deeply.")
            watch(event, depth)
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        at = f"{place.line + 1}:{place.column + 1}: " if place else ""
        what = error.problem or error.context or "not YAML"
        hint = " Indent with spaces, not tabs." if "cannot start any token" in what or "\\t" in what else ""
        raise ExperimentError(f"{source}:{at}not readable as YAML: {what}.{hint}") from None
    except yaml.YAMLError as error:
        raise ExperimentError(f"{source}: not readable as YAML: {' '.join(str(error).split())}.") from None
    settings = Settings(source)
    if isinstance(root, yaml.MappingNode):
        settings.value = _Reader(settings).mapping(root, ())
    elif root is not None:
        raise ExperimentError(f"{source}:1:1: {what} is a list of `key: value` lines, this is not.")
    return settings


class _Reader:
    """Turns nodes into values, and reports those that have none."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen: set[int] = set()

    def mapping(self, node: yaml.MappingNode, at: Key) -> dict[str, object]:
        first: dict[str, tuple[str, Mark, yaml.Node]] = {}
        for key_node, value_node in node.value:
            mark, name = _mark(key_node), str(key_node.value)
            if not isinstance(key_node, yaml.ScalarNode):
                self._settings.report(at, "a key must be a word.", mark=mark)
            elif key_node.tag == _CORE + "merge":
                self._settings.report(at, "`<<` is not read here. Write the keys out.", mark=mark)
            elif name in first:
                why = f"is given twice, first on line {first[name][1].line}. Keep one of them."
                self._settings.report((*at, name), why, mark=mark)
            else:
                first[name] = (name, mark, value_node)
        return dict(self._values(at, first.values()))

    def _values(
        self, at: Key, entries: Iterable[tuple[Any, Mark, yaml.Node]]
    ) -> Iterator[tuple[Any, object]]:
        for name, mark, node in entries:
            key = (*at, name)
            self._settings.marks[key] = mark
            try:
                yield name, self._value(node, key)
            except _Unreadable as error:
                self._settings.report(key, str(error), mark=_mark(node))

    def _value(self, node: yaml.Node, at: Key) -> object:
        if id(node) in self._seen:
            raise _Unreadable("an alias (`*name`) is not read here. Write the value out.")
        self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode) and node.tag == _CORE + "map":
            return self.mapping(node, at)
        if isinstance(node, yaml.SequenceNode) and node.tag == _CORE + "seq":
            entries = [(i, _mark(entry), entry) for i, entry in enumerate(node.value)]
            return [value for _, value in self._values(at, entries)]
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _SCALARS:
            raise _Unreadable(f"the tag {node.tag} is not read here. Write a plain value.")
        return str(node.value) if node.style else _scalar(str(node.value))


def _scalar(text: str) -> object:
    """The value of a plain word."""
    if text in _NOTHING:
        raise _Unreadable("has no value. Give one, or leave the key out to get the default.")
    if text in _TRUTHS:
        return _TRUTHS[text]
    if _LEADING_ZERO.fullmatch(text):
        plain = text.replace("_", "").lstrip("+-0") or "0"
        raise _Unreadable(f"{text} would be read as octal. Write {plain}, or '{text}' if it is a word.")
    if len(text) <= 40 and _INT.fullmatch(text):
        return int(text)
    return float(text) if len(text) <= 40 and _FLOAT.fullmatch(text) else text


def _mark(node: yaml.Node) -> Mark:
    return Mark(node.start_mark.line + 1, node.start_mark.column + 1)
