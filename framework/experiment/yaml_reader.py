"""YAML as plain data with the line and column of everything in it, without the traps of YAML 1.1.

`no`, `10:30`, `0x1f` and dates stay the words they are; `1e3` is a number; `012` (octal to YAML 1.1, twelve
to everyone else), duplicate keys, empty values, aliases and tags are refused, each with its place and its
fix.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.settings import FilePlace, Key, LayeredSettings

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NOTHING = ("", "~", "null", "Null", "NULL")
_CORE = "tag:yaml.org,2002:"
_SCALARS = ("str", "int", "float", "bool", "null", "timestamp", "merge", "value")
_TAGS: dict[type, set[str | None]] = {
    kind: {None, "!", *(_CORE + name for name in names)}
    for kind, names in (
        (yaml.ScalarEvent, _SCALARS),
        (yaml.MappingStartEvent, ("map",)),
        (yaml.SequenceStartEvent, ("seq",)),
    )
}
"""The tags that are read, by what bears them."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where PyYAML was built with it: ten times as fast."""
DEEPEST, TOO_DEEP = 100, "nested too deeply"
"""Levels of a file at most (an experiment has three); and what is said of one with more."""


class _Unreadable(Exception):
    """Why there is no value."""


class _Dumper(yaml.SafeDumper):
    """Quotes every text that would not be read back here as it is."""


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    try:
        plain = isinstance(_scalar(text), str)
    except _Unreadable:
        plain = False
    return dumper.represent_scalar(f"{_CORE}str", text, style=None if plain else "'")


_Dumper.add_representer(str, _quoted)


def written(document: object) -> str:
    """Plain data as a text that `parse` reads back equal."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def read(path: Path) -> LayeredSettings:
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
    kind: str = "an experiment",
    watch: Callable[[yaml.Event, int], None] = lambda event, depth: None,
) -> LayeredSettings:
    """The mapping in `text`; an empty text is an empty mapping. `kind`: what it is, for messages.

    `watch` sees every event and the depth after it before anything is made of it, and may raise: a large file
    that is wrong in its first lines need not be read to its end.

    Raises ExperimentError with line and column when the text is not YAML or not a mapping.
    """
    settings = LayeredSettings(source, written=True)
    try:
        events = _events(text, source, watch)
        root = next((event for event in events if isinstance(event, yaml.NodeEvent)), None)
        if isinstance(root, yaml.MappingStartEvent):
            settings.value = _DocumentReader(settings, events).mapping(())
        elif root is not None:
            raise ExperimentError(f"{source}:1:1: {kind} is a list of `key: value` lines, this is not.")
        for _ in events:  # up to the end of the text
            pass
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        at = f"{place.line + 1}:{place.column + 1}: " if place else ""
        why = error.problem or error.context or "not YAML"
        if "nesting depth" in why:  # newer versions of libyaml have a limit of their own, and read ahead
            why = TOO_DEEP
        hint = " Indent with spaces, not tabs." if "cannot start any token" in why or "\\t" in why else ""
        raise ExperimentError(f"{source}:{at}not readable as YAML: {why}.{hint}") from None
    except yaml.YAMLError as error:
        raise ExperimentError(f"{source}: not readable as YAML: {' '.join(str(error).split())}.") from None
    return settings


def _events(text: str, source: str, watch: Callable[[yaml.Event, int], None]) -> Iterator[Any]:
    """The events of the only document; `watch` sees each first."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise ExperimentError(f"{source}:{line}:1: a second document begins here. Keep one of them.")
        if depth > DEEPEST:  # reading is recursive
            raise ExperimentError(f"{source}: not readable as YAML: {TOO_DEEP}.")
        watch(event, depth)
        yield event


class _DocumentReader:
    """Turns the events of a document into values, and reports what has none."""

    def __init__(self, settings: LayeredSettings, events: Iterator[Any]) -> None:
        self._settings, self._events = settings, events
        self._once: set[str] = set()

    def mapping(self, at: Key) -> dict[str, object]:
        """What stands up to the mapping's end."""
        values: dict[str, object] = {}
        first: dict[str, int] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            mark, name = _mark(event), getattr(event, "value", "")
            if not isinstance(event, yaml.ScalarEvent):
                self._pass_by(event)
                self._settings.report(at, "a key must be a word.", mark=mark)
            elif name == "<<" and not event.style:
                self._settings.report(at, "`<<` is not read here. Write the keys out.", mark=mark)
            elif name in first:
                why = f"is given twice, first on line {first[name]}. Keep one of them."
                self._settings.report((*at, name), why, mark=mark)
            else:
                first[name] = mark.line
                self._read(values, name, (*at, name), next(self._events), mark)
                continue
            self._pass_by(next(self._events))
        return values

    def _list(self, at: Key) -> list[object]:
        values: dict[int, object] = {}
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            i = len(values)  # what cannot be read is left out, and leaves no gap
            self._read(values, i, (*at, i), event, _mark(event))
        return list(values.values())

    def _read(
        self, values: dict[Any, object], name: str | int, key: Key, event: Any, mark: FilePlace
    ) -> None:
        """Read the value that begins with `event` into `values`."""
        self._settings.marks[key] = mark
        try:
            values[name] = self._value(event, key)
        except _Unreadable as error:
            if str(error) not in self._once:
                self._settings.report(key, str(error), mark=_mark(event))
            if isinstance(event, yaml.AliasEvent):  # a file may have thousands
                self._once.add(str(error))

    def _value(self, event: Any, at: Key) -> object:
        if isinstance(event, yaml.AliasEvent):
            raise _Unreadable("an alias (`*name`) is not read here. Write the value out.")
        if event.tag not in _TAGS[type(event)]:
            self._pass_by(event)
            raise _Unreadable(f"the tag {event.tag} is not read here. Write a plain value.")
        if isinstance(event, yaml.MappingStartEvent):
            return self.mapping(at)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(at)
        return event.value if event.style else _scalar(event.value)

    def _pass_by(self, event: Any) -> None:
        """Go behind the value that begins with `event`."""
        depth = int(isinstance(event, yaml.CollectionStartEvent))
        while depth:
            event = next(self._events)
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)


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


def _mark(event: Any) -> FilePlace:
    return FilePlace(event.start_mark.line + 1, event.start_mark.column + 1)
