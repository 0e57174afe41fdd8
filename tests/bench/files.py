"""How long fabric files at the limits of what is read take, against plain parsers on the same bytes."""

import csv
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from xml.parsers import expat

import yaml

from railweave.framework.errors import ExperimentError, RunFailedError
from railweave.framework.fabric_files import load

TURNS = 3
LOADED_S, REFUSED_S = 10.0, 2.0
"""What 100,000 links and the refusal of the largest file that is read may take."""

_OWN = "fabric: 1\nnodes: {{gpu: {{shape: {0}x1}}, l: {{shape: {0}}}}}\nlinks:\n- rate: 1Gb/s\n  cables: |\n"
_GRAPHML = (
    '<graphml><key id="k" for="node" attr.name="kind"/><key id="r" for="edge" attr.name="rate"/><graph>\n'
)
_INFRAGRAPH: dict[str, Any] = {
    "name": "large",
    "devices": [
        {"name": name, "components": [{"name": part, "count": 1, "choice": part}]}
        for name, part in (("server", "xpu"), ("leaf", "switch"))
    ],
    "links": [
        {"name": "c", "physical": {"bandwidth": {"choice": "gigabits_per_second", "gigabits_per_second": 1}}}
    ],
}


@dataclass(frozen=True)
class _Format:
    """`text`: GPUs, cables and whether the last cable is wrong -> file; `parse`: what it is measured against,
    which makes no fabric."""

    name: str
    text: Callable[[int, int, bool], str]
    most: int
    """Cables of the largest file that is read."""
    parser: str
    parse: Callable[[str], object]


def file_times(quick: bool, progress: Callable[[str], None]) -> dict[str, Any]:
    """Rows of two files each format: 100,000 links, which load, and the most that is read with the mistake in
    its last line, which is refused.

    `seconds` (medians of TURNS): read, checked and made a fabric, or refused; `parser_seconds`: what a plain
    parser takes to read the same bytes, turn by turn with it. `quick`: one turn, a hundredth of the cables.

    Raises RunFailedError where a right file is refused or a wrong one is not.
    """
    rows = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "fabric"
        for form in FORMATS:
            for cables, wrong in ((50_000, False), (form.most, True)):
                cables //= 100 if quick else 1
                progress(f"{form.name}, {cables} cables")
                text = form.text(min(cables, 50_000), cables, wrong)
                path.write_text(text)
                both = [
                    (_seconds(_read, path, wrong), _seconds(form.parse, text))
                    for _ in range(1 if quick else TURNS)
                ]
                seconds, parser_seconds = (median(column) for column in zip(*both, strict=True))
                rows.append(
                    {
                        "file": form.name,
                        "cables": cables,
                        "MiB": len(text) / (1 << 20),
                        "ends": "wrong" if wrong else "right",
                        "seconds": seconds,
                        "at_most_s": REFUSED_S if wrong else LOADED_S,
                        "parser": form.parser,
                        "parser_seconds": parser_seconds,
                        "ratio": seconds / parser_seconds,
                    }
                )
    return {"rows": rows}


def _seconds(work: Callable[..., object], *args: object) -> float:
    began = time.perf_counter()
    work(*args)
    return time.perf_counter() - began


def _read(path: Path, wrong: bool) -> None:
    try:
        load(path)
    except ExperimentError as error:
        if not wrong or "nowhere" not in str(error):
            raise RunFailedError(f"the benchmark's own file is refused: {error}") from error
    else:
        if wrong:
            raise RunFailedError("a file with a mistake in its last line is not refused.")


def _cables(gpus: int, cables: int, wrong: bool) -> Iterator[tuple[int, str]]:
    """GPU and switch of each cable."""
    for i in range(cables - wrong):
        yield i % gpus, f"{i % gpus}"
    if wrong:
        yield 0, "nowhere"


def _own(gpus: int, cables: int, wrong: bool) -> str:
    lines = (
        f"    g{gpu}.0 {'' if leaf == 'nowhere' else 'l'}{leaf}\n"
        for gpu, leaf in _cables(gpus, cables, wrong)
    )
    return _OWN.format(gpus) + "".join(lines)


def _graphml(gpus: int, cables: int, wrong: bool) -> str:
    nodes = (
        f'<node id="{name}{i}"><data key="k">{kind}</data></node>\n'
        for name, kind in (("g", "gpu"), ("l", "leaf"))
        for i in range(gpus)
    )
    edges = (
        f'<edge source="g{gpu}" target="l{leaf}"><data key="r">1Gb/s</data></edge>\n'
        for gpu, leaf in _cables(gpus, cables, wrong)
    )
    return "".join((_GRAPHML, *nodes, *edges, "</graph></graphml>\n"))


def _infragraph(gpus: int, cables: int, wrong: bool) -> dict[str, Any]:
    instances = [{"name": name, "device": name, "count": gpus} for name in ("server", "leaf")]
    edges = [
        {
            "ep1": {"instance": f"server[{gpu}]", "component": "xpu"},
            "ep2": {"instance": leaf if leaf == "nowhere" else f"leaf[{leaf}]", "component": "switch"},
            "link": "c",
            "scheme": "one2one",
        }
        for gpu, leaf in _cables(gpus, cables, wrong)
    ]
    return {**_INFRAGRAPH, "instances": instances, "edges": edges}


def _infragraph_json(gpus: int, cables: int, wrong: bool) -> str:
    return json.dumps(_infragraph(gpus, cables, wrong))


def _infragraph_yaml(gpus: int, cables: int, wrong: bool) -> str:
    document = _infragraph(gpus, cables, wrong)
    edges = document.pop("edges")
    lines = (
        f"- ep1:\n    instance: {one['ep1']['instance']}\n    component: xpu\n"
        f"  ep2:\n    instance: {one['ep2']['instance']}\n    component: switch\n"
        "  link: c\n  scheme: one2one\n"
        for one in edges
    )
    return f"{yaml.safe_dump(document, sort_keys=False)}edges:\n{''.join(lines)}"


def _parse_yaml(text: str) -> object:
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _parse_xml(text: str) -> object:
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda name, attributes: None
    return parser.Parse(text, True)


def _parse_words(text: str) -> object:
    return [*csv.reader(text.splitlines(), delimiter=" ", skipinitialspace=True)]


FORMATS = (
    _Format("railweave's own", _own, 1_800_000, "csv", _parse_words),
    _Format("GraphML", _graphml, 200_000, "expat", _parse_xml),
    _Format("InfraGraph, YAML", _infragraph_yaml, 50_000, "libyaml", _parse_yaml),
    _Format("InfraGraph, JSON", _infragraph_json, 50_000, "json", json.loads),
)
