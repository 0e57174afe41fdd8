"""h-scores that a person supposes, from a YAML file, and whether that file counts from 0 or from 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path

from railweave.framework.coordinates import Counting
from railweave.framework.errors import ExperimentError, FaultError
from railweave.framework.fault_objects import find_link
from railweave.framework.model import Fabric, NodeGroup
from railweave.framework.problems import Settings, did_you_mean
from railweave.framework.yamlmarks import read

COUNT_FROM, LINKS = "count_from", "links"
COUNTED_FROM_0 = Counting()


@dataclass(frozen=True)
class SupposedScores:
    """What the file says. `nodes`: score by node id; `links`: score by link id; everything else is healthy."""

    counting: Counting = COUNTED_FROM_0
    nodes: Mapping[int, float] = field(default_factory=dict)
    links: Mapping[int, float] = field(default_factory=dict)


def read_scores(path: Path, fabric: Fabric) -> SupposedScores:
    """The scores in a file such as `domains: {1: 0.9, 2: 0.9}` and `rails: {1: 0.3}`; what it leaves out is 1.

    A section per kind of switch (domains, rails, spines) with scores by index, or as a list from 0 up; `links:`
    by name (`g0.0->r1`), which count from 0 as names always do. The file counts from 1 when its lowest index is 1;
    `count_from: 0` or `1` settles it otherwise.

    Raises ExperimentError that lists every unknown key and every score outside 0..1, with their lines.
    """
    found = Settings.of(read(path))
    sections = {f"{g.kind}s": g for g in fabric.groups[1:] if fabric.element_links(g.first).size}
    counting = _counting(found, sections)
    nodes: dict[int, float] = {}
    links: dict[int, float] = {}
    for key, content in found.value.items():
        if key == COUNT_FROM:
            continue
        if key not in (*sections, LINKS):
            found.report(
                (key,),
                f"a {fabric.kind} fabric has no such scores; it has {', '.join((*sections, LINKS, COUNT_FROM))}."
                f"{did_you_mean(key, (*sections, LINKS))}",
            )
            continue
        if not isinstance(content, dict | list) or (key == LINKS and isinstance(content, list)):
            found.report((key,), f"holds scores by index, as in `{key}: {{0: 0.9}}` (got {content!r}).")
            continue
        listed = isinstance(content, list)
        rows = enumerate(content) if isinstance(content, list) else content.items()
        for index, given in rows:
            try:
                if key == LINKS:
                    links[find_link(fabric, str(index))] = _score(given)
                else:
                    by = COUNTED_FROM_0 if listed else counting
                    node = by.node(sections[key], str(index), f"{sections[key].kind} {index}")
                    nodes[node] = _score(given)
            except (ExperimentError, FaultError) as error:
                found.report((key, index), str(error))
    found.check()
    return SupposedScores(counting, nodes, links)


def _counting(found: Settings, sections: Mapping[str, NodeGroup]) -> Counting:
    asked = found.value.get(COUNT_FROM)
    if asked is not None:
        if isinstance(asked, bool) or asked not in (0, 1):
            found.report((COUNT_FROM,), f"is 0 or 1 (got {asked!r}).")
            return COUNTED_FROM_0
        return Counting(1 if asked == 1 else 0)
    numbers: list[int] = []
    for key in sections:
        content = found.value.get(key)
        if isinstance(content, list):
            numbers.append(0)
        elif isinstance(content, dict):
            parts = [part.strip() for index in content for part in str(index).split(",")]
            numbers += [int(part) for part in parts if part.isascii() and part.isdecimal() and len(part) < 10]
    return Counting(1 if numbers and min(numbers) == 1 else 0)


def _score(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or isnan(given) or not 0 <= given <= 1:
        raise ExperimentError(f"an h-score lies in 0..1: 1 is healthy, 0 is down (got {given!r}).")
    return float(given)
