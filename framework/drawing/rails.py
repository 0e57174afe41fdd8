"""Rail fabrics: a column for every HB domain, a row for every rail, spines to the left of the rail
switches."""

from collections.abc import Mapping

import numpy as np

from railweave.framework.drawing.canvas import (
    INK,
    PALE,
    Canvas,
    Legend,
    Point,
    colour,
    of_link,
    of_node,
    part_of,
    rate_words,
    shown,
)
from railweave.framework.drawing.spares import MOST_SPARES, draw_spare, spare_words, spares_of
from railweave.framework.model import Fabric

COLUMN, ROW = 84.0, 52.0
"""Pixels between domains, and between rails."""
MOST_COLUMNS, MOST_ROWS, MOST_SPINES = 14, 14, 8
"""Domains, rails and spines that are drawn; of more, the first and the last."""
BUS, TAP = "#52606d", "#9aa5b1"


def fits_rails(fabric: Fabric) -> bool:
    """Whether this layout shows every node and cable: GPUs, each joined with the switch of its domain and of
    its rail, and rail switches joined with spines. Domains may be of unequal size."""
    kinds = [group.kind for group in fabric.groups]
    if kinds not in (["gpu", "domain", "rail"], ["gpu", "domain", "rail", "spine"]):
        return False
    if "interfaces" not in fabric.capabilities:
        return False
    domain, rail = fabric.groups[1:3]
    ends = np.sort(np.stack((fabric.link_src, fabric.link_dst)), axis=0)
    from_gpu = ends[0] < fabric.n_gpus
    gpu, switch = ends[:, from_gpu]
    column, row = fabric.gpu_coordinates[gpu].T
    home = (switch == domain.first + column) | (switch == rail.first + row)
    spines = rail.first + rail.size
    trunk = (ends[0] >= rail.first) & (ends[0] < spines) & (ends[1] >= spines)
    return bool(
        len(np.unique(ends[:, from_gpu], axis=1).T) == 2 * fabric.n_gpus
        and (home.all() and trunk[~from_gpu].all())
    )


def draw_rails(canvas: Canvas, fabric: Fabric) -> Legend:
    """A rail is a line in its own colour through all domains; a domain is a box with its switch on top."""
    domains, rails = fabric.groups[1].size, fabric.groups[2].size
    columns, rows = shown(domains, MOST_COLUMNS), shown(rails, MOST_ROWS)
    x_of = {domain: COLUMN * (column + 0.5) for column, domain in enumerate(columns)}
    y_of = {rail: ROW * row for row, rail in enumerate(rows)}
    right, bottom = COLUMN * len(columns), ROW * (len(rows) - 1)
    for domain, x in x_of.items():
        _domain(canvas, fabric, x, domain, bottom)
    for rail, y in y_of.items():
        if rail is None:
            canvas.text((-34, y), "⋮", 16, fill=PALE)
            continue
        node = fabric.groups[2].first + rail
        name, ends = fabric.node_name(node), [(-34, y + 17), (right - COLUMN / 2 + 13, y + 17)]
        canvas.line(ends, colour(rail), 2.5, title=f"rail {name}", attributes=part_of(node))
        _switch(canvas, fabric, node, (-34, y + 17), (38, 24), colour(rail), f"switch of rail {name}")
    spines = _spines(canvas, fabric, bottom)
    for link in range(0, fabric.n_links, 2):
        a, b = sorted((int(fabric.link_src[link]), int(fabric.link_dst[link])))
        mark, group = of_link(fabric, link), fabric.group_of(b)
        if a >= fabric.n_gpus:
            if b in spines and (rail := a - fabric.groups[2].first) in y_of:
                title = f"trunk {fabric.node_name(a)} - {fabric.node_name(b)}"
                canvas.line(
                    [(-150.0, spines[b]), (-53.0, y_of[rail] + 17)], TAP, 1.3, title=title, attributes=mark
                )
            continue
        domain, rail = fabric.coordinates(a)
        if domain in x_of and rail in y_of:
            x, y, name = x_of[domain], y_of[rail], fabric.node_name(a)
            if group.kind == "domain":
                ends = [(x - 27, y), (x - 18, y)]
                canvas.line(ends, BUS, 2, title=f"d-interface of {name}", attributes=mark)
            else:
                ends = [(x + 13, y + 9), (x + 13, y + 17)]
                canvas.line(ends, colour(rail), 2, title=f"r-interface of {name}", attributes=mark)
    for gpu in range(fabric.n_gpus):
        domain, rail = fabric.coordinates(gpu)
        if domain in x_of and rail in y_of:
            at, name = (x_of[domain] + 3, y_of[rail]), fabric.node_name(gpu)
            canvas.box(
                at, (44, 20), "#ffffff", title=f"GPU {name}", words=name, font=9.5 if len(name) < 7 else 8,
                attributes=of_node(fabric, gpu),
            )  # fmt: skip
    legend = [
        (BUS, "", f"HB domain, {rates_into(fabric, 1)} per GPU and direction"),
        (colour(0), "", f"rails, {rates_into(fabric, 2)} per GPU and direction"),
    ]
    if spines:
        legend.append((TAP, "", f"trunks between rail and spine switches, {rates_into(fabric, 3)} each"))
    some = ((columns, domains, "domains"), (rows, rails, "rails"))
    left_out = [f"{len(numbers) - 1} of {count} {kind}" for numbers, count, kind in some if None in numbers]
    drawn = [("", "", f"drawn: {' and '.join(left_out)}")] if left_out else []
    return legend + _spares(canvas, fabric, x_of, bottom) + drawn


def _spares(canvas: Canvas, fabric: Fabric, x_of: Mapping[int | None, float], lowest: float) -> Legend:
    """Spare GPUs below each domain, spare domains to the right of all."""
    columns = [x for domain, x in x_of.items() if domain is not None]
    gpus, domains = spares_of(fabric, "gpu"), spares_of(fabric, "domain")
    for x in columns:
        for number in range(min(gpus, MOST_SPARES)):
            draw_spare(canvas, (x + 3, lowest + 52 + 26 * number), (44, 20), "spare")
    for number in range(min(domains, MOST_SPARES)):
        at = max(columns) + COLUMN * (number + 1), (lowest - 28) / 2
        draw_spare(canvas, at, (COLUMN - 12, lowest + 96), "spare")
    counts = ((gpus, "GPU"), (domains, "HB domain"))
    return [(PALE, "4 3", spare_words(count, kind)) for count, kind in counts if count]


def rates_into(fabric: Fabric, number: int) -> str:
    """The rates of the links from earlier groups of nodes into this one."""
    group = fabric.groups[number]
    inside = (fabric.link_dst >= group.first) & (fabric.link_dst < group.first + group.size)
    return rate_words(fabric.capacity_bps[inside & (fabric.link_src < group.first)])


def _domain(canvas: Canvas, fabric: Fabric, x: float, domain: int | None, lowest: float) -> None:
    if domain is None:
        canvas.text((x, -42), "⋯", 20, fill=PALE)
        return
    node = fabric.groups[1].first + domain
    name = fabric.node_name(node)
    top, bottom = -62.0, lowest + 34
    canvas.box(
        (x, (top + bottom) / 2),
        (COLUMN - 12, bottom - top),
        "#f3f6fa",
        "#cbd5e0",
        radius=9,
        title=f"HB domain {name}",
        attributes={"class": "panel"},
    )
    canvas.line(
        [(x - 27, -42), (x - 27, lowest)], BUS, 2.5, title=f"HB domain {name}", attributes=part_of(node)
    )
    _switch(canvas, fabric, node, (x, -42), (COLUMN - 26, 24), BUS, f"switch of HB domain {name}")


def _switch(
    canvas: Canvas, fabric: Fabric, node: int, at: Point, size: Point, stroke: str, title: str
) -> None:
    canvas.box(
        at, size, "#ffffff", stroke, title=title, width=2, words=fabric.node_name(node), bold=True,
        attributes=of_node(fabric, node),
    )  # fmt: skip


def _spines(canvas: Canvas, fabric: Fabric, lowest: float) -> dict[int, float]:
    """The height of each spine drawn."""
    spine = fabric.group("spine")
    if spine is None:
        return {}
    numbers = shown(spine.size, MOST_SPINES)
    step = max(44.0, lowest / len(numbers))
    heights: dict[int, float] = {}
    for i, number in enumerate(numbers):
        y = lowest / 2 + 17 + step * (i - (len(numbers) - 1) / 2)
        if number is None:
            canvas.text((-168, y), "⋮", 16, fill=PALE)
            continue
        node = spine.first + number
        heights[node] = y
        _switch(canvas, fabric, node, (-168, y), (38, 26), INK, f"spine {fabric.node_name(node)}")
    return heights
