"""Tori along their axes: x to the right, y downwards (upwards with z), z into the depth; wraps as loops or
stubs."""

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
    rate_words,
    refuse_above,
    spot,
)
from railweave.framework.drawing.spares import MOST_SPARES, draw_spare, spare_words, spares_of
from railweave.framework.model import Fabric

MOST = 4096
"""GPUs of a torus that is drawn."""
CELL = 74.0
"""Pixels between neighbours."""
STUB = 0.34
"""Length of both ends of a cable that closes a ring, as a share of the distance of neighbours."""

Steps = tuple[Point, ...]
"""How coordinates lie on paper: the vector of one hop up each axis."""


def _at(steps: Steps, place: tuple[float, ...]) -> Point:
    return (
        sum(c * x for c, (x, _) in zip(place, steps, strict=True)),
        sum(c * y for c, (_, y) in zip(place, steps, strict=True)),
    )


def draw_torus(canvas: Canvas, fabric: Fabric) -> Legend:
    """Links between cubes are dashed. On two axes the wraps are loops along rows and columns; on three they
    are stubs that leave one face and enter at the opposite one.

    Raises FabricError for more GPUs than a picture can hold.
    """
    refuse_above(MOST, fabric)
    shape = fabric.groups[0].shape
    flat, cell = len(shape) == 2, CELL if max(shape) <= 8 else 0.72 * CELL
    steps = ((CELL, 0.0), (0.0, CELL)) if flat else ((cell, 0.0), (0.0, -cell), (0.46 * cell, -0.30 * cell))
    # from back to front, so near links and GPUs cover far ones
    depth = np.zeros(fabric.n_gpus, np.int64) if flat else fabric.gpu_coordinates[:, 2]
    cables = np.arange(0, fabric.n_links, 2)
    for link in cables[np.argsort(-depth[fabric.link_src[cables]], kind="stable")]:
        _cable(canvas, fabric, steps, int(link))
    for gpu in np.argsort(-depth, kind="stable"):
        _gpu(canvas, fabric, steps, int(gpu), flat)
    _axes(canvas, steps, shape)
    cubes = spares_of(fabric, "cube")
    right = max(_at(steps, (shape[0] - 1, 0.0, z))[0] for z in (0, shape[-1] - 1)) if cubes else 0.0
    for number in range(min(cubes, MOST_SPARES)):
        draw_spare(canvas, (right + 1.6 * CELL, -0.8 * CELL * number), (72, 40), f"spare cube {number}")
    rate = rate_words(fabric.capacity_bps)
    return [
        *(
            (colour(axis), "", f"links along {'xyz'[axis]}, {length} GPUs a ring, {rate} per direction")
            for axis, length in enumerate(shape)
        ),
        *[(INK, "5 4", "dashed: through an optical circuit switch")] * bool(fabric.ocs_names),
        *[(PALE, "4 3", spare_words(cubes, "cube"))] * bool(cubes),
        *[(INK, "2 3", "stubs: wraps, out of one face and in at the opposite one")] * (not flat),
        *(("", "", words) for words in _twist_words(fabric)),
    ]


def _cable(canvas: Canvas, fabric: Fabric, steps: Steps, link: int) -> None:
    kind = fabric.kinds[fabric.link_kind[link]]
    upwards = link if kind.endswith("+") else link ^ 1
    src, dst = (fabric.coordinates(int(end[upwards])) for end in (fabric.link_src, fabric.link_dst))
    axis, ocs, attributes = "xyz".index(kind[0]), int(fabric.ocs[link]), of_link(fabric, link)
    title = fabric.link_name(link) + (f", OCS {fabric.ocs_names[ocs]}" if ocs >= 0 else "")
    ends = [_at(steps, src), _at(steps, dst)]
    if len(src) == 3:
        attributes["opacity"] = f"{_nearness(fabric, src):g}"
    if dst[axis] == src[axis] + 1:
        attributes |= {"stroke-dasharray": "5 4"} if ocs >= 0 else {}
        canvas.line(ends, colour(axis), 1.7, title=title, attributes=attributes)
    elif len(src) == 2:
        canvas.line(
            _loop(steps, axis, src, dst),
            colour(axis),
            1.3,
            title=title,
            attributes={**attributes, "opacity": "0.75"},
        )
    else:
        out = _at(steps, tuple(c + (STUB if i == axis else 0) for i, c in enumerate(src)))
        into = _at(steps, tuple(c - (STUB if i == axis else 0) for i, c in enumerate(dst)))
        path = f"M{spot(ends[0])} L{spot(out)} M{spot(ends[1])} L{spot(into)}"
        attributes["stroke-dasharray"] = "2 3"
        canvas.path(path, [*ends, out, into], colour(axis), 1.7, title=title, attributes=attributes)


def _loop(steps: Steps, axis: int, src: tuple[int, ...], dst: tuple[int, ...]) -> list[Point]:
    """A wrap of a flat torus: out of one end, back along its row or column, in at the other end."""
    start, end = _at(steps, src), _at(steps, dst)
    dx, dy, sx, sy = (30.0, 0.0, 0.0, 21.0) if axis == 0 else (0.0, 30.0, 21.0, 0.0)
    out, back = (start[0] + dx, start[1] + dy), (end[0] - dx, end[1] - dy)
    return [start, out, (out[0] + sx, out[1] + sy), (back[0] + sx, back[1] + sy), back, end]


def _gpu(canvas: Canvas, fabric: Fabric, steps: Steps, gpu: int, flat: bool) -> None:
    place = fabric.coordinates(gpu)
    x, y = _at(steps, place)
    name = fabric.node_name(gpu)
    if flat:
        canvas.box(
            (x, y), (38, 22), "#ffffff", title=f"GPU {name}", words=name, font=9.5 if len(name) < 6 else 8,
            attributes=of_node(fabric, gpu),
        )  # fmt: skip
        return
    near = _nearness(fabric, place)
    fill = "#" + bytes(int(255 - near * (255 - c)) for c in (31, 41, 51)).hex()
    canvas.dot(
        (x, y),
        5.5 if fabric.n_gpus <= 512 else 3.5,
        fill,
        title=f"GPU {name}",
        attributes=of_node(fabric, gpu),
    )
    if place[2] == 0 and fabric.n_gpus <= 1024:
        canvas.text((x - 6, y + 14), ".".join(map(str, place)), 8, fill=PALE, anchor="end")


def _nearness(fabric: Fabric, place: tuple[int, ...]) -> float:
    """1 in front, down to 0.4 at the back; of a fabric of three axes."""
    return 1.0 - 0.6 * place[2] / max(1, fabric.groups[0].shape[2] - 1)


def _axes(canvas: Canvas, steps: Steps, shape: tuple[int, ...]) -> None:
    origin = tuple(-1.15 if len(shape) == 3 else -0.95 for _ in shape[:2]) + (0.0,) * (len(shape) - 2)
    x, y = _at(steps, origin)
    for axis, step in enumerate(steps):
        canvas.line([(x, y), (x + 0.6 * step[0], y + 0.6 * step[1])], colour(axis), 2.2)
        canvas.arrowhead((x + 0.72 * step[0], y + 0.72 * step[1]), step, colour(axis), 9)
        canvas.text((x + 0.95 * step[0], y + 0.95 * step[1]), "xyz"[axis], 13, fill=colour(axis), bold=True)


def _twist_words(fabric: Fabric) -> list[str]:
    """In words, what crossing each wrap upwards adds to other coordinates; empty for a plain torus."""
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
