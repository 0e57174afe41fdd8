"""Reads large InfraGraph files many times as fast as YAML: JSON, and edges that are all written alike.

Of such edges, the first is read as YAML and becomes a pattern: its lines, with any plain words in place
of its own. Where the pattern matches the text to its end, the words are all that differs between the edges.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import chain
from typing import Any

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment import yaml_reader
from railweave.framework.experiment.settings import FilePlace, Key, LayeredSettings

KEY = "edges"
MOST_UNLIKE = 3 << 20
"""Characters up to which a file goes to the YAML reader whole, which then takes less than 2 s."""
_FIRST = re.compile(r"( *)- .*\n(?:\1 .*\n)*")
_WORD = r"[A-Za-z][\w\[\]:.()<>-]*(?<!:)"
"""What stands in a file as a plain scalar or in quotes, and means itself; not so _NO_TEXT."""
_LINE = re.compile(rf"([ -]*\w+: *)([\"']?){_WORD}\2")
_NO_TEXT = {"true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL"}
Places = Callable[[Collection[int]], dict[Key, FilePlace]]
"""Numbers of edges -> places of these and of what is inside them."""


@dataclass
class _Large(LayeredSettings):
    """Settings whose edges are located only where one of them is wrong."""

    places: Places = lambda edges: {}

    def check(self) -> None:
        wrong = {p.key[1] for p in self.problems if p.key[:1] == (KEY,) and len(p.key) > 1}
        if wrong:
            self.marks |= self.places([edge for edge in wrong if isinstance(edge, int)])
        super().check()


def settings_of(text: str, source: str) -> LayeredSettings | None:
    """What `yaml_reader.parse` gives of a large file, but for the places of what is inside an edge in JSON;
    None where only that can tell. Raises ExperimentError for edges that are not alike in a text too long for
    it."""
    return _of_json(text, source) if text[:1] == "{" else _of_yaml(text, source)


def _of_json(text: str, source: str) -> LayeredSettings | None:
    try:
        value = json.loads(text, object_pairs_hook=_plain)
    except (ValueError, RecursionError):
        return None
    if not isinstance(edges := value.get(KEY), list):
        return None
    return _Large(source, value, {(KEY,): FilePlace(1, 1)}, places=lambda _: _places_of_json(text, edges))


def _places_of_json(text: str, edges: list[object]) -> dict[Key, FilePlace]:
    """The places of the edges, the first list of that name that equals them."""
    decode, gap = json.JSONDecoder().raw_decode, re.compile(r"[\s,]*")
    arrays = (match.end() for match in re.finditer(rf'"{KEY}"\s*:\s*(?=\[)', text))
    at = next((begin + 1 for begin in arrays if decode(text, begin)[0] == edges), None)
    newlines = [-1, *(match.start() for match in re.finditer("\n", text))]
    places: dict[Key, FilePlace] = {}
    for i in range(0 if at is None else len(edges)):
        begin = gap.match(text, at).end()  # type: ignore[union-attr, arg-type]
        line = bisect_left(newlines, begin)
        places[KEY, i] = FilePlace(line, begin - newlines[line - 1])
        at = decode(text, begin)[1]
    return places


def _plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The mapping. Raises ValueError for what YAML refuses in its place."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs) or None in mapping.values():
        raise ValueError
    return mapping


def _of_yaml(text: str, source: str) -> LayeredSettings | None:
    """What `yaml_reader.parse` gives of this text; None if its last key is not `edges`, or they are not
    written alike. Raises ExperimentError at the first that is not, where the text is too long for YAML."""
    text = text.removesuffix("\n") + "\n"
    begin = text.find(f"\n{KEY}:\n") + len(KEY) + 3
    first = _FIRST.match(text, begin)
    if begin < len(KEY) + 3 or first is None:
        return None
    try:
        settings = yaml_reader.parse(text[: first.end()], source)
    except ExperimentError:
        return None
    if any(problem.key[:1] == (KEY,) for problem in settings.problems):
        return None  # the first edge may go on behind a blank line
    settings.check()
    lines = first[0].splitlines()
    parts = [_LINE.fullmatch(line) for line in lines]
    edge, leaves = re.subn(r'(?<=: )"[^"]*"', '"%s"', json.dumps(settings.value[KEY][0]))  # type: ignore[index]
    if leaves < 2 or leaves != len(parts) - parts.count(None):
        return None
    pattern = re.compile(
        "".join(
            f"{re.escape(part[1] + part[2])}({_WORD}){part[2]}\n" if part else f"{re.escape(line)}\n"
            for line, part in zip(lines, parts, strict=True)
        )
    )
    words, at = list[tuple[str, ...]](), begin
    while alike := pattern.match(text, at):
        words.append(alike.groups())
        at = alike.end()
    start = settings.marks[KEY, 0].line
    if at < len(text):
        if len(text) <= MOST_UNLIKE:
            return None
        raise ExperimentError(
            f"{source}:{start + len(words) * len(lines)}:1: from here on it is not written as the first edge "
            f"is, line by line with other plain words. Beyond {MOST_UNLIKE >> 20} MiB all edges are."
        )
    if _NO_TEXT.intersection(chain.from_iterable(words)):
        return None
    settings.value[KEY] = json.loads(f"[{','.join(map(edge.__mod__, words))}]")
    of_first = [(key[2:], mark) for key, mark in settings.marks.items() if key[:2] == (KEY, 0)]
    return _Large(
        source,
        settings.value,
        settings.marks,
        places=lambda edges: {
            (KEY, i, *inner): FilePlace(mark.line + i * len(lines), mark.column)
            for inner, mark in of_first
            for i in edges
        },
    )
