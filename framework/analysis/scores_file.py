"""Assumed h-scores from a YAML file, and whether that file counts from 0 or from 1."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path

from railweave.framework.errors import ExperimentError, FaultError, did_you_mean
from railweave.framework.experiment.fault_targets import find_link
from railweave.framework.experiment.settings import Settings
from railweave.framework.experiment.yaml_reader import read
from railweave.framework.model import Fabric, NodeGroup
from railweave.framework.model.coordinates import Counting

COUNT_FROM, LINKS = "count_from", "links"
COUNTED_FROM_0 = Counting()


@dataclass(frozen=True)
class AssumedScores:
    """The contents of the file. `nodes`: score by node id; `links`: score by link id; all others are
    healthy."""

    counting: Counting = COUNTED_FROM_0
    nodes: Mapping[int, float] = field(default_factory=dict)
    links: Mapping[int, float] = field(default_factory=dict)


def read_scores(path: Path, fabric: Fabric) -> AssumedScores:
    """The scores in a file such as `domains: {1: 0.9, 2: 0.9}` and `rails: {1: 0.3}`; all others are 1.

    A section per kind of switch (domains, rails, spines) with scores by index, or as a list from 0 up;
    `links:` by name (`g0.0->r1`), which count from 0 as names always do. The file counts from 1 when its
    lowest index is 1; `count_from: 0` or `1` overrides that.

    Raises ExperimentError that lists every unknown key and every score outside 0..1, with their lines.
    """
    settings = read(path)
    sections = {f"{g.kind}s": g for g in fabric.groups[1:] if fabric.element_links(g.first).size}
    counting = _counting(settings, sections)
    nodes: dict[int, float] = {}
    links: dict[int, float] = {}
    for key, content in settings.value.items():
        if key == COUNT_FROM:
            continue
        if key not in (*sections, LINKS):
            settings.report(
                (key,),
                f"a {fabric.kind} fabric has no such scores; it has "
                f"{', '.join((*sections, LINKS, COUNT_FROM))}.{did_you_mean(key, (*sections, LINKS))}",
            )
            continue
        if not isinstance(content, dict | list) or (key == LINKS and isinstance(content, list)):
            settings.report((key,), f"holds scores by index, as in `{key}: {{0: 0.9}}` (got {content!r}).")
            continue
        listed = isinstance(content, list)
        rows = enumerate(content) if isinstance(content, list) else content.items()
        for index, score in rows:
            try:
                if key == LINKS:
                    links[find_link(fabric, str(index))] = _score(score)
                else:
                    by = COUNTED_FROM_0 if listed else counting
                    node = by.node(sections[key], str(index), f"{sections[key].kind} {index}")
                    nodes[node] = _score(score)
            except (ExperimentError, FaultError) as error:
                settings.report((key, index), str(error))
    settings.check()
    return AssumedScores(counting, nodes, links)


def _counting(settings: Settings, sections: Mapping[str, NodeGroup]) -> Counting:
    count_from = settings.value.get(COUNT_FROM)
    if count_from is not None:
        if isinstance(count_from, bool) or count_from not in (0, 1):
            settings.report((COUNT_FROM,), f"is 0 or 1 (got {count_from!r}).")
            return COUNTED_FROM_0
        return Counting(1 if count_from == 1 else 0)
    numbers: list[int] = []
    for key in sections:
        content = settings.value.get(key)
        if isinstance(content, list):
            numbers.append(0)
        elif isinstance(content, dict):
            parts = [part.strip() for index in content for part in str(index).split(",")]
            numbers += [int(part) for part in parts if part.isascii() and part.isdecimal() and len(part) < 10]
    return Counting(1 if numbers and min(numbers) == 1 else 0)


def _score(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or isnan(value) or not 0 <= value <= 1:
        raise ExperimentError(f"an h-score lies in 0..1: 1 is healthy, 0 is down (got {value!r}).")
    return float(value)
