"""Tori along their axes: x to the right, y downwards or, with z, upwards, z into the depth; wraps as loops or stubs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railweave.framework.drawing.canvas import INK, PALE, Canvas, Point, colour
from railweave.framework.drawing.legend import Legend, rate_words
from railweave.framework.errors import FabricError
from railweave.framework.model import Fabric

MOST = 4096
CELL = 74.0
STUB = 0.34


@dataclass(frozen=True)
class _View:
    """Where coordinates lie on paper: `steps[axis]` is the way of one hop up that axis."""

    steps: tuple[Point, ...]

    def at(self, place: tuple[float, ...]) -> Point:
        return (
            sum(c * s[0] for c, s in zip(place, self.steps, strict=True)),
            sum(c * s[1] for c, s in zip(place, self.steps, strict=True)),
        )


def draw_torus(canvas: Canvas, fabric: Fabric) -> Legend:
    """Links between cubes are dashed. On two axes the wraps are loops beside rows and columns; on three they are stubs
    that leave one face and come in at the other.

    Raises FabricError for more GPUs than a picture can hold.
    """
    if fabric.n_gpus > MOST:
        raise FabricError(
            f"{fabric.kind} of {fabric.n_gpus} GPUs: a picture holds {MOST} at most. Use `--format graphml` and a "
            "graph viewer."
        )
    shape = fabric.groups[0].shape
    flat = len(shape) == 2
    view = _View(((CELL, 0.0), (0.0, CELL)) if flat else _oblique(shape))
    where = fabric.gpu_coordinates
    # From the back to the front, so that near links and GPUs lie above far ones.
    depth = where[:, 2] if not flat else np.zeros(fabric.n_gpus, np.int64)
    cables = np.arange(0, fabric.n_links, 2)
    for link in cables[np.argsort(-depth[fabric.link_src[cables]], kind="stable")]:
        _cable(canvas, fabric, view, int(link))
    for gpu in np.argsort(-depth, kind="stable"):
        _gpu(canvas, fabric, view, int(gpu), flat)
    _axes(canvas, view, shape)
    return _legend(fabric, flat)


def _oblique(shape: tuple[int, ...]) -> tuple[Point, ...]:
    scale = 1.0 if max(shape) <= 8 else 0.72
    return ((CELL * scale, 0.0), (0.0, -CELL * scale), (0.46 * CELL * scale, -0.30 * CELL * scale))


def _cable(canvas: Canvas, fabric: Fabric, view: _View, link: int) -> None:
    a, b = int(fabric.link_src[link]), int(fabric.link_dst[link])
    axis = int(fabric.link_kind[link]) // 2
    here, there = fabric.coordinates(a), fabric.coordinates(b)
    shape = fabric.groups[0].shape
    ocs = int(fabric.ocs[link])
    title = fabric.link_name(link) + (f", OCS {fabric.ocs_names[ocs]}" if ocs >= 0 else "")
    dash = "5 4" if ocs >= 0 else ""
    width, opacity = 1.7, _nearness(fabric, here)
    if there[axis] == here[axis] + 1:
        ends = [view.at(here), view.at(there)]
        canvas.line(ends, colour(axis), width, dash=dash, title=title, opacity=opacity)
    elif len(shape) == 2:
        _loop(canvas, view, axis, here, there, title)
    else:
        out = tuple(c + (STUB if i == axis else 0) for i, c in enumerate(here))
        into = tuple(c - (STUB if i == axis else 0) for i, c in enumerate(there))
        for end, stub in ((here, out), (there, into)):
            canvas.line(
                [view.at(end), view.at(stub)], colour(axis), width, dash="2 3", title=title, opacity=opacity
            )


def _loop(
    canvas: Canvas, view: _View, axis: int, here: tuple[int, ...], there: tuple[int, ...], title: str
) -> None:
    """A wrap of a flat torus: out of one end, back beside its row or column, in at the other end."""
    (x1, y1), (x2, y2) = view.at(here), view.at(there)
    out, beside, bend = 30.0, 21.0, 8.0
    if axis == 0:
        points = [
            (x1, y1),
            (x1 + out, y1),
            (x1 + out, y1 + beside),
            (x2 - out, y2 + beside),
            (x2 - out, y2),
            (x2, y2),
        ]
    else:
        points = [
            (x1, y1),
            (x1, y1 + out),
            (x1 + beside, y1 + out),
            (x2 + beside, y2 - out),
            (x2, y2 - out),
            (x2, y2),
        ]
    canvas.path(_rounded(points, bend), points, colour(axis), 1.3, title=title, opacity=0.75)


def _rounded(points: list[Point], bend: float) -> str:
    """A path of straight pieces with round corners."""
    path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    for (x0, y0), (x, y), (x1, y1) in zip(points, points[1:], points[2:], strict=False):
        before, after = max(abs(x - x0), abs(y - y0)), max(abs(x1 - x), abs(y1 - y))
        r = min(bend, before / 2, after / 2)
        sx, sy = x + (x0 - x) * r / before, y + (y0 - y) * r / before
        ex, ey = x + (x1 - x) * r / after, y + (y1 - y) * r / after
        path += f" L{sx:.1f},{sy:.1f} Q{x:.1f},{y:.1f} {ex:.1f},{ey:.1f}"
    return f"{path} L{points[-1][0]:.1f},{points[-1][1]:.1f}"


def _gpu(canvas: Canvas, fabric: Fabric, view: _View, gpu: int, flat: bool) -> None:
    place = fabric.coordinates(gpu)
    x, y = view.at(place)
    name = fabric.node_name(gpu)
    if flat:
        canvas.box((x, y), (38, 22), "#ffffff", INK, title=f"GPU {name}")
        canvas.text((x, y), name, 9.5 if len(name) < 6 else 8)
        return
    near = _nearness(fabric, place)
    canvas.dot((x, y), 5.5 if fabric.n_gpus <= 512 else 3.5, _towards_white(near), title=f"GPU {name}")
    if place[2] == 0 and fabric.n_gpus <= 1024:
        canvas.text((x - 6, y + 14), ".".join(map(str, place)), 8, fill=PALE, anchor="end")


def _nearness(fabric: Fabric, place: tuple[int, ...]) -> float:
    """1 in front, less in the depth."""
    shape = fabric.groups[0].shape
    return 1.0 if len(shape) < 3 else 1.0 - 0.6 * place[2] / max(1, shape[2] - 1)


def _towards_white(near: float) -> str:
    ink = [int(255 - near * (255 - c)) for c in (31, 41, 51)]
    return "#" + "".join(f"{c:02x}" for c in ink)


def _axes(canvas: Canvas, view: _View, shape: tuple[int, ...]) -> None:
    origin = tuple(-1.15 if len(shape) == 3 else -0.95 for _ in shape[:2]) + (0.0,) * (len(shape) - 2)
    x, y = view.at(origin)
    for axis, step in enumerate(view.steps):
        tip = (x + 0.6 * step[0], y + 0.6 * step[1])
        canvas.line([(x, y), tip], colour(axis), 2.2)
        canvas.arrowhead((x + 0.72 * step[0], y + 0.72 * step[1]), step, colour(axis), 9)
        canvas.text((x + 0.95 * step[0], y + 0.95 * step[1]), "xyz"[axis], 13, fill=colour(axis), bold=True)


def _legend(fabric: Fabric, flat: bool) -> Legend:
    shape = fabric.groups[0].shape
    rate = rate_words(fabric, fabric.kinds)
    legend: Legend = [
        (colour(axis), "", f"links along {'xyz'[axis]}, {length} GPUs a ring, {rate} per direction")
        for axis, length in enumerate(shape)
    ]
    if fabric.ocs_names:
        legend.append((INK, "5 4", "dashed: between cubes of 4 x 4 x 4, through an optical circuit switch"))
    if not flat:
        legend.append((INK, "2 3", "stubs: wraps, out of one face and in at the opposite one"))
    return legend + [("", "", words) for words in twist_words(fabric)]


def twist_words(fabric: Fabric) -> list[str]:
    """What crossing each wrap upwards adds, as words; empty for a plain torus."""
    shape = np.array(fabric.groups[0].shape)
    words = []
    for axis in range(len(shape)):
        up = np.flatnonzero(fabric.link_kind == fabric.kinds.index(f"{'xyz'[axis]}+"))
        a = fabric.gpu_coordinates[fabric.link_src[up]]
        wrap = np.flatnonzero(a[:, axis] == shape[axis] - 1)
        if not len(wrap):
            continue
        shift = (fabric.gpu_coordinates[fabric.link_dst[up[wrap[0]]]] - a[wrap[0]]) % shape
        added = [f"{s} to {'xyz'[other]}" for other, s in enumerate(shift) if s and other != axis]
        if added:
            words.append(f"twist: crossing the wrap of {'xyz'[axis]} upwards adds {' and '.join(added)}")
    return words
