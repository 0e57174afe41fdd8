"""Bars on a terminal: the progress of a run, and below it health and load of every rail, domain or axis."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from rich.console import RenderableType
from rich.progress import Progress as ProgressBar
from rich.progress_bar import ProgressBar as Bar
from rich.table import Table
from rich.text import Text

from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool
from railweave.framework.model.events import Sampled
from railweave.framework.model.names import element_name

WIDTH = 16
"""Columns of a bar. A row has fewer than 60, so that it fits a narrow terminal."""
MOST_ROWS = 16
"""Rows of bars at most; half of the terminal where that has fewer."""


class BarRow(NamedTuple):
    """A switch, or the links of a kind that belong to no switch's score: score, and load of its busiest
    link."""

    name: str
    score: float
    load: float


class FabricBars(ProgressBar):
    """A progress bar and, once something was measured, rows below it; of many, the worst."""

    rows: Sequence[BarRow] = ()

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self.rows:
            yield _table(self.rows, min(MOST_ROWS, max(1, self.console.height // 2)))


def rows_of(fabric: Fabric, sample: Sampled) -> list[BarRow]:
    """Rails first, then the other switches that have a score, then the kinds of links that belong to none.
    `fabric` has the rates in use."""
    element, load = fabric.link_element, np.zeros(fabric.n_nodes)
    owned: Bool = element >= 0
    used = 8 * sample.sent_bytes / (fabric.capacity_bps * max(sample.dt_s, 1e-9))
    used = np.minimum(used, 1.0)  # an idle link may send a packet early
    np.maximum.at(load, element[owned], used[owned])
    nodes = sorted(np.unique(element[owned]).tolist(), key=lambda node: fabric.node_kind(node) != "rail")
    rows = [
        BarRow(element_name(fabric, node), float(sample.element_score[node]), float(load[node]))
        for node in nodes
    ]
    of_kind = [(kind, ~owned & (fabric.link_kind == i)) for i, kind in enumerate(fabric.kinds)]
    return rows + [
        BarRow(f"links {kind}", float(sample.link_score[links].min()), float(used[links].max()))
        for kind, links in of_kind
        if links.any()
    ]


def _table(rows: Sequence[BarRow], most: int) -> Table:
    """Of more rows than `most` those of the lowest scores, in their order."""
    worst = sorted(range(len(rows)), key=lambda i: rows[i].score)[:most]
    grid = Table.grid(padding=(0, 1))
    for row in [rows[i] for i in sorted(worst)]:
        colour = "green" if row.score > 0.9 else "yellow" if row.score > 0.5 else "red"
        health = Bar(1.0, row.score, WIDTH, complete_style=colour, finished_style=colour)
        load = Bar(1.0, row.load, WIDTH, complete_style="blue", finished_style="blue")
        grid.add_row(Text(row.name), "health", health, f"{row.score:.2f}", "load", load, f"{row.load:4.0%}")
    if len(rows) > most:
        grid.add_row(f"and {len(rows) - most} more")
    return grid
