"""What a page shows, as one typed document: the contract between Python and the page's modules.

A report has it in `<script type="application/json" id="railweave-data">`; a live page gets it from
`data.json`, and messages that say what to add to it and what to set in it (serving/live_page.py).

Times `t_s`, `_s` are seconds on the run's clock (emulated), which starts with the first iteration; `declared`
ones are those of the machine whose rates the experiment gives. None is `null`, and means not known.
Everything is bounded: at most INSTANTS instants and ITEMS items; above DETAILED_GPUS GPUs the items are the
elements and the WORST links.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

SCHEMA = {"name": "railweave.page", "version": 1}
INSTANTS, ITEMS, MARKS, ITERATIONS = 200, 4096, 500, 2000
"""Instants, elements, marks and iterations that a page holds at most, so that it stays below some
megabytes."""
DETAILED_GPUS, WORST = 256, 200
"""GPUs up to which every link is an item; of larger fabrics, this many links with the lowest scores."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Bytes, compressed: `zlib`, in base64. `shape` () means UTF-8 text; (n, m) a matrix of bytes, each row
    (but the first) as its difference to the row before, modulo 256. codes.py says what a byte means."""

    zlib: str
    shape: tuple[int, ...] = ()

    @classmethod
    def text(cls, words: str) -> "Packed":
        return cls(base64.b64encode(zlib.compress(words.encode(), 9)).decode())

    @classmethod
    def matrix(cls, values: NDArray[np.uint8]) -> "Packed":
        """(n, m)."""
        steps = values.copy()
        steps[1:] -= values[:-1]
        return cls(base64.b64encode(zlib.compress(steps.tobytes(), 9)).decode(), values.shape)


@dataclass(frozen=True, slots=True)
class Items:
    """What of the fabric has figures, as columns with an entry for each: elements first, then directed links.

    `name`: as faults take it, `rail:1`, `g0.0->rail0`. `kind`: `rail`, `domain`, `spine`, of a link its kind,
    `r`. `shape`: what shows it in the picture, by `id` or as a `class`: `node17` an element, `link4` both
    directions of a cable (the number of the first). `element`: the item whose score the link counts for, -1
    where there is none and for elements. `rate_bps`: healthy, emulated; of an element that of its links
    together. Over the whole run: `bytes` sent, `utilisation` (0..1; of an element its busiest link), `loss`
    (share of packets, 0..1), `drops` (packets), `h_score` at the end, `age_s` from the last measurement of
    the rate to the end; `paused` (share of the time, 0..1; None without PFC).
    """

    name: tuple[str, ...]
    kind: tuple[str, ...]
    shape: tuple[str, ...]
    element: tuple[int, ...]
    rate_bps: tuple[float | None, ...]
    bytes: tuple[int | None, ...]
    utilisation: tuple[float | None, ...]
    loss: tuple[float | None, ...]
    drops: tuple[int | None, ...]
    h_score: tuple[float | None, ...]
    age_s: tuple[float | None, ...]
    paused: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """Figures over time: `t_s` (n,), each the end of an interval of about `step_s`; matrices (n, items) of
    bytes, None where there is nothing. In an interval: `score` the last h-score, `queue` the most bytes
    waiting, `load` bits sent over what the healthy rate allows, `loss` the share of packets lost, `paused`
    that of the time in which data was paused (PFC). Of an element: its own score; of its links the queues
    summed, the highest load, the highest loss and the longest pause.
    """

    t_s: tuple[float, ...] = ()
    step_s: float = 0.0
    score: Packed | None = None
    queue: Packed | None = None
    load: Packed | None = None
    loss: Packed | None = None
    paused: Packed | None = None


@dataclass(frozen=True, slots=True)
class Iterations:
    """Columns with an entry for each iteration in order. `part`: `before`, `during` or `after` the faults.
    `wrong`: elements. `limit`: physical limit over measured time, 0..1. `held_by`, `share`: what held it, for
    which part of its time; held_by None where nothing was slower than its like."""

    number: tuple[int, ...] = ()
    job: tuple[int, ...] = ()
    begin_s: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    declared_us: tuple[float | None, ...] = ()
    size_bytes: tuple[int | None, ...] = ()
    busbw_gbs: tuple[float | None, ...] = ()
    wrong: tuple[int | None, ...] = ()
    limit: tuple[float | None, ...] = ()
    part: tuple[str, ...] = ()
    held_by: tuple[str | None, ...] = ()
    share: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened: `kind` is `fault`, `seen` (the scores showed a fault), `reroute`, `health` or
    `note`. `items`: indices of what it concerns."""

    t_s: float
    kind: str
    text: str
    items: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure in words: `12.3 us`; `meaning` defines it in one sentence."""

    name: str
    value: str
    meaning: str


@dataclass(frozen=True, slots=True)
class ShownJob:
    """One of several jobs. `bytes`: of its data on each item, None of a program."""

    number: int
    name: str
    gpus: tuple[str, ...]
    verdict: str
    alone_us: float | None
    together_us: float | None
    interference: float | None
    error: str | None
    bytes: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class Routes:
    """Paths of pairs of GPUs as they changed. `gpus`: names by number. `entries`: a text, JSON, a list of
    [t_s, src, dst, weight, [cables]], GPUs by number; from `t_s` on (0: the first routes) the pair sends the
    share `weight` over these cables (4: the shape `link4`); later entries of a pair replace earlier ones."""

    gpus: tuple[str, ...]
    entries: Packed


@dataclass(frozen=True, slots=True)
class ShownTraffic:
    """Who sends how much to whom in an iteration: `sent` (n, n), [src, dst], in 200 steps of `most_bytes`, 1
    at least where there is anything. `names` (n,): GPUs."""

    names: tuple[str, ...]
    sent: Packed
    most_bytes: float


@dataclass(frozen=True, slots=True)
class RunPage:
    """One run. `state`: `complete`, `incomplete` (killed, or without a result) or `running`. `verdict`: pass,
    degraded, invalid, or `none` while there is no result. `sentence`: what happened, first of all to read.
    `resolution`: what the data leaves out, in a sentence. `picture`: the fabric as an SVG document, whose
    shapes have the ids and classes of items; None where it is too large, and `no_picture` says why.
    `end_s`: how long the run is so far. `events`: how many lines of events.jsonl went into this (the id of
    the last one, for a live page to go on). `repeat`: the command that runs it again."""

    title: str
    state: str
    engine: str
    verdict: str
    reasons: tuple[str, ...]
    sentence: str
    resolution: str
    end_s: float
    rate_scale: float | None
    gpus: int
    picture: Packed | None
    no_picture: str
    items: Items
    series: Series
    iterations: Iterations
    marks: tuple[Mark, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]
    experiment: str
    versions: Mapping[str, str]
    repeat: str
    events: int
    jobs: tuple[ShownJob, ...] = ()
    routes: Routes | None = None
    traffic: ShownTraffic | None = None
    rules: Packed | None = None
    """Of each node, in their order, what rules.json says of its switch: a text, JSON."""
    no_rules: str = ""
    """Why there are none, in a sentence; "" where that is not known."""
    what: str = ""
    """What ran on what: `rail-only, 16 GPUs · hscore · all-reduce of 1M · engine fluid`."""
    planned: int | None = None
    """Iterations that the experiment has; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a head; `note` is printed below."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str | float | int | None, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """`series`: which of the chart's it belongs to. None is drawn as not known, `low` to `high` as the spread
    of `value`."""

    label: str
    series: int
    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class BarChart:
    """Bars in order, those of one label side by side; `series` names what their colours mean."""

    title: str
    unit: str
    series: tuple[str, ...]
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure as SVG text, and its numbers as rows under a head."""

    title: str
    svg: str
    head: tuple[str, ...]
    rows: tuple[tuple[str | float | int | None, ...], ...]


@dataclass(frozen=True, slots=True)
class PageData:
    """A page. `kind`: `run` (one run, or two to tell apart), `comparison` or `chaos`, which have `charts` and
    `tables`, or `study`, which has `plots` and `tables`. `sentence` is that of the first run where there is
    one. `made_by`: the railweave that wrote it.
    """

    kind: str
    title: str
    sentence: str
    runs: tuple[RunPage, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[BarChart, ...] = ()
    plots: tuple[Plot, ...] = ()
    made_by: str = field(default_factory=lambda: f"railweave {version('railweave')}")
    schema: Mapping[str, object] = field(default_factory=lambda: dict(SCHEMA))

    def json(self) -> str:
        """The document as JSON, in which `<` is escaped: it may stand inside a script element."""
        text = json.dumps(asdict(self), allow_nan=False, separators=(",", ":"))
        return text.replace("<", "\\u003c")
