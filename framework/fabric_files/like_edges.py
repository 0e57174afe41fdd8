"""Reads large InfraGraph files many times as fast as YAML: JSON, and edges that are all written alike.

Of the latter, the first edge is read as YAML and becomes a pattern: its lines, with any plain words in place
of its own. Where the pattern matches the text to its end, the words are all that differs between the edges.
"""

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment import yaml_reader
from railweave.framework.experiment.settings import Key, Mark, Settings

KEY = "edges"
MOST_UNLIKE = 3 << 20
"""Characters of a file that is read as YAML in less than 2 s."""
MOST_BETWEEN = 100
"""Characters between two edges in JSON."""
_FIRST = re.compile(r"( *)- .*\n(?:\1 .*\n)*")
_WORD = r"[A-Za-z][\w\[\]:.()<>-]*(?<!:)"
"""What stands in a file as a plain scalar or in quotes, and means itself; not so _NO_TEXT."""
_LINE = re.compile(rf"^([ -]*\w+: *)([\"']?)({_WORD})\2$")
_NO_TEXT = {"true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL"}


def settings_of(text: str, source: str) -> Settings | None:
    """What `yaml_reader.parse` gives of a large file, but for the places of what is inside an edge in JSON;
    None where only that can tell. Raises ExperimentError for edges that are not alike in a text too long for
    it."""
    return _of_json(text, source) if text[:1] == "{" else _of_yaml(text, source)


def _of_json(text: str, source: str) -> Settings | None:
    settings = Settings(source)
    try:
        settings.value = json.loads(text, object_pairs_hook=_plain)
        settings.marks = _places_of_json(text, settings.value.get(KEY))
    except (ValueError, RecursionError):
        return None
    return settings


def _places_of_json(text: str, edges: object) -> dict[Key, Mark]:
    """The places of the edges. Raises ValueError where there is no list of them."""
    decode, number = json.JSONDecoder().raw_decode, len(edges) if isinstance(edges, list) else -1
    arrays = (found.end() for found in re.finditer(rf'"{KEY}"\s*:\s*(?=\[)', text))
    at = next((begin for begin in arrays if len(listed := decode(text, begin)[0]) == number), -1) + 1
    if not at or listed != edges:
        raise ValueError
    line, newline = text.count("\n", 0, at) + 1, text.rfind("\n", 0, at)
    places: dict[Key, Mark] = {(KEY,): Mark(line, at - newline)}
    for i in range(number):
        between = text[at : at + MOST_BETWEEN]
        begin = at + len(between) - len(between.lstrip(", \t\r\n"))
        line, newline = line + text.count("\n", at, begin), max(newline, text.rfind("\n", at, begin))
        places[KEY, i] = Mark(line, begin - newline)
        _, at = decode(text, begin)
        line, newline = line + text.count("\n", begin, at), max(newline, text.rfind("\n", begin, at))
    return places


def _plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The mapping. Raises ValueError for what YAML refuses in its place."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs) or None in mapping.values():
        raise ValueError
    return mapping


def _of_yaml(text: str, source: str) -> Settings | None:
    """What `yaml_reader.parse` gives of this text; None if its last key is not `edges`, or they are not
    written alike. Raises ExperimentError at the first that is not, where the text is too long for YAML."""
    begin = text.find(f"\n{KEY}:\n") + len(KEY) + 3
    first = _FIRST.match(text, begin)
    if begin < len(KEY) + 3 or first is None:
        return None
    try:
        settings = yaml_reader.parse(text[: first.end()], source)
    except ExperimentError:
        return None
    listed = settings.value.get(KEY)
    if settings.problems or not isinstance(listed, list) or list(settings.value)[-1] != KEY:
        return None
    lines = first[0].split("\n")[:-1]
    places = {
        settings.marks[key].line - settings.marks[KEY, 0].line: key[2:]
        for key in settings.marks
        if key[:2] == (KEY, 0) and isinstance(_at(listed[0], key[2:]), str)
    }
    parts = [_LINE.match(line) if i in places else None for i, line in enumerate(lines)]
    if len(places) < 2 or any(parts[i] is None for i in places):
        return None
    pattern = "".join(
        f"{re.escape(part[1] + part[2])}({_WORD}){part[2]}\n" if part else f"{re.escape(line)}\n"
        for line, part in zip(lines, parts, strict=True)
    )
    fixed = len(first[0]) - sum(len(part[3]) for part in parts if part)
    rest = text[begin:] if text.endswith("\n") else f"{text[begin:]}\n"
    words = re.findall(pattern, rest)
    if fixed * len(words) + sum(map(len, chain.from_iterable(words))) != len(rest):
        if len(text) > MOST_UNLIKE:
            first_other = next(i for i, follows in enumerate(_following(pattern, rest)) if not follows)
            line = settings.marks[KEY, 0].line + first_other * len(lines)
            raise ExperimentError(
                f"{source}:{line}:1: from here on it is not written as the first edge is, line by line with "
                f"other plain words. Beyond {MOST_UNLIKE >> 20} MiB all edges are."
            )
        return None
    if _NO_TEXT.intersection(chain.from_iterable(words)):
        return None
    paths = [places[i] for i in sorted(places)]
    settings.value[KEY] = [_edge(paths, one) for one in words]
    settings.marks = _Marks(settings.marks, len(lines), len(words))
    return settings


def _following(pattern: str, text: str) -> Iterator[bool]:
    """Of each edge whether it begins where the one before ends; at last False."""
    at = 0
    for edge in re.finditer(pattern, text):
        yield edge.start() == at
        at = edge.end()
    yield False


def _at(value: Any, path: Key) -> object:
    for name in path:
        value = value[name]
    return value


def _edge(paths: list[Key], words: tuple[str, ...]) -> dict[str, object]:
    edge: dict[Any, Any] = {}
    for path, word in zip(paths, words, strict=True):
        inner = edge
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = word
    return edge


class _Marks(dict[Key, Mark]):
    """The places of `edges` edges, each some `lines` below the one before, from those of the first."""

    def __init__(self, marks: dict[Key, Mark], lines: int, edges: int) -> None:
        super().__init__(marks)
        self._lines, self._edges = lines, edges

    def _number(self, key: Key) -> int:
        return key[1] if key[:1] == (KEY,) and len(key) > 1 and isinstance(key[1], int) else 0

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, tuple)
        number = self._number(key)
        return super().__contains__((KEY, 0, *key[2:]) if number else key) and number < self._edges

    def __getitem__(self, key: Key) -> Mark:
        number = self._number(key)
        mark = super().__getitem__((KEY, 0, *key[2:]) if number else key)
        return Mark(mark.line + number * self._lines, mark.column)
