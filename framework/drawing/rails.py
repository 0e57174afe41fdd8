"""Rail fabrics: a column for every HB domain, a row for every rail, spines at the side of the rail switches."""

from __future__ import annotations

from railweave.framework.drawing.canvas import INK, PALE, Canvas, colour
from railweave.framework.drawing.legend import Legend, rate_words, shown
from railweave.framework.model import Fabric

COLUMN, ROW = 84.0, 52.0
MOST_COLUMNS, MOST_ROWS, MOST_SPINES = 14, 14, 8
BUS, TAP = "#52606d", "#9aa5b1"


def draw_rails(canvas: Canvas, fabric: Fabric) -> Legend:
    """A rail is a line in its own colour through all domains; a domain is a box with its switch on top."""
    domains, rails = fabric.groups[0].shape
    columns, rows = shown(domains, MOST_COLUMNS), shown(rails, MOST_ROWS)
    right = COLUMN * len(columns)
    for column, domain in enumerate(columns):
        _domain(canvas, fabric, COLUMN * (column + 0.5), domain, len(rows))
    for row, rail in enumerate(rows):
        y = ROW * row
        if rail is None:
            canvas.text((-34, y), "⋮", 16, fill=PALE)
            continue
        name, line = fabric.node_name(fabric.groups[2].first + rail), colour(rail)
        canvas.line([(-34, y + 17), (right - COLUMN / 2 + 13, y + 17)], line, 2.5, title=f"rail {name}")
        canvas.box((-34, y + 17), (38, 24), "#ffffff", line, title=f"switch of rail {name}", width=2)
        canvas.text((-34, y + 17), name, 11, bold=True)
        for column, domain in enumerate(columns):
            if domain is not None:
                _gpu(canvas, fabric, domain * rails + rail, COLUMN * (column + 0.5), y, line)
    legend = [
        (BUS, "", f"HB domain, {rate_words(fabric, ['d'])} per GPU and direction"),
        (colour(0), "", f"rails, {rate_words(fabric, ['r'])} per GPU and direction"),
    ]
    spine = fabric.group("spine")
    if spine is not None:
        _spines(canvas, fabric, rows)
        legend.append((TAP, "", f"trunks between rail and spine switches, {rate_words(fabric, ['s'])} each"))
    return legend + _left_out(domains, rails, columns, rows)


def _domain(canvas: Canvas, fabric: Fabric, x: float, domain: int | None, n_rows: int) -> None:
    top, bottom = -62.0, ROW * (n_rows - 1) + 34
    if domain is None:
        canvas.text((x, -42), "⋯", 20, fill=PALE)
        return
    name = fabric.node_name(fabric.groups[1].first + domain)
    size = (COLUMN - 12, bottom - top)
    canvas.box((x, (top + bottom) / 2), size, "#f3f6fa", "#cbd5e0", radius=9, title=f"HB domain {name}")
    canvas.line([(x - 27, -42), (x - 27, ROW * (n_rows - 1))], BUS, 2.5, title=f"HB domain {name}")
    canvas.box((x, -42), (COLUMN - 26, 24), "#ffffff", BUS, title=f"switch of HB domain {name}", width=2)
    canvas.text((x, -42), name, 11, bold=True)


def _gpu(canvas: Canvas, fabric: Fabric, gpu: int, x: float, y: float, line: str) -> None:
    name = fabric.node_name(gpu)
    canvas.line([(x - 27, y), (x - 18, y)], BUS, 2, title=f"d-interface of {name}")
    canvas.line([(x + 13, y + 9), (x + 13, y + 17)], line, 2, title=f"r-interface of {name}")
    canvas.box((x + 3, y), (44, 20), "#ffffff", INK, title=f"GPU {name}")
    canvas.text((x + 3, y), name, 9.5 if len(name) < 7 else 8)


def _spines(canvas: Canvas, fabric: Fabric, rows: list[int | None]) -> None:
    spine = fabric.group("spine")
    assert spine is not None
    some = shown(spine.size, MOST_SPINES)
    middle = ROW * (len(rows) - 1) / 2 + 17
    step = max(44.0, ROW * (len(rows) - 1) / max(1, len(some)))
    places = {s: middle + step * (i - (len(some) - 1) / 2) for i, s in enumerate(some)}
    for number, y in places.items():
        for row, rail in enumerate(rows):
            if number is not None and rail is not None:
                ends = (
                    f"{fabric.node_name(fabric.groups[2].first + rail)} - {spine.name(spine.first + number)}"
                )
                canvas.line([(-150, y), (-53, ROW * row + 17)], TAP, 1.3, title=f"trunk {ends}")
    for number, y in places.items():
        if number is None:
            canvas.text((-168, y), "⋮", 16, fill=PALE)
            continue
        name = spine.name(spine.first + number)
        canvas.box((-168, y), (38, 26), "#ffffff", INK, title=f"spine {name}", width=2)
        canvas.text((-168, y), name, 11, bold=True)


def _left_out(domains: int, rails: int, columns: list[int | None], rows: list[int | None]) -> Legend:
    remarks = []
    if None in columns:
        remarks.append(f"{len(columns) - 1} of {domains} domains")
    if None in rows:
        remarks.append(f"{len(rows) - 1} of {rails} rails")
    return [("", "", f"drawn: {' and '.join(remarks)}")] if remarks else []
