"""Rings: GPUs on a circle, a line for every cable (wavelength) between neighbours."""

from math import cos, pi, sin

import numpy as np

from railweave.framework.drawing.canvas import (
    Canvas,
    Legend,
    Point,
    colour,
    of_link,
    of_node,
    rate_words,
    refuse_above,
)
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Int64

MOST = 1024
"""GPUs of a ring that is drawn."""
MOST_LINES = 8
"""Parallel cables that are drawn; the legend has their number."""
APART = 5.0
"""Pixels between them."""


def draw_ring(canvas: Canvas, fabric: Fabric) -> Legend:
    """GPU 0 on top, then clockwise. Parallel cables run side by side, wavelength 0 outside.

    Raises FabricError for more GPUs than a picture can hold.
    """
    n = fabric.n_gpus
    refuse_above(MOST, fabric)
    radius = max(110.0, 34.0 * n / (2 * pi))
    number = _nth_between(fabric)
    lines = int(number.max()) + 1
    drawn = min(lines, MOST_LINES)
    for cable in np.flatnonzero(number < drawn):
        _cable(canvas, fabric, int(cable), int(number[cable]), drawn, radius)
    for gpu in range(n):
        name, at = fabric.node_name(gpu), _place(gpu, n, radius)
        canvas.dot(at, 11 if n <= 128 else 6, "#ffffff", title=f"GPU {name}", attributes=of_node(fabric, gpu))
        if n <= 128:
            canvas.text(_place(gpu, n, radius + 26), name, 10)
    ways = "both ways" if fabric.usable.all() else "one way"
    words = f"{ways}, {rate_words(fabric.capacity_bps)} each"
    if lines == 1:
        return [(colour(0), "", f"cable between neighbours, {words}")]
    names = "wavelength" if (fabric.wavelength >= 0).any() else "parallel cable"
    legend: Legend = [(colour(i), "", f"{names} {i}, {words}") for i in range(drawn)]
    if lines > drawn:
        legend.append(("", "", f"drawn: {drawn} of {lines} {names}s"))
    return legend


def _nth_between(fabric: Fabric) -> Int64:
    """(cables,): the number of each cable among those that join the same two GPUs."""
    a, b = fabric.link_src[0::2], fabric.link_dst[0::2]
    joined = np.minimum(a, b).astype(np.int64) * fabric.n_gpus + np.maximum(a, b)
    order = np.argsort(joined, kind="stable")
    _, first, count = np.unique(joined[order], return_index=True, return_counts=True)
    number = np.empty(len(joined), np.int64)
    number[order] = np.arange(len(joined)) - np.repeat(first, count)
    if fabric.n_gpus == 2:  # both arcs of the circle join the same two GPUs: one cable each
        number //= 2
    return number


def _cable(canvas: Canvas, fabric: Fabric, cable: int, number: int, drawn: int, radius: float) -> None:
    n, link = fabric.n_gpus, 2 * cable
    a, b = int(fabric.link_src[link]), int(fabric.link_dst[link])
    if (b - a) % n != 1 and n > 2:
        a, b = b, a
    at = radius + APART * ((drawn - 1) / 2 - number)
    arc = [_place(a + step / 16, n, at) for step in range(17)]
    canvas.line(arc, colour(number), 2, title=fabric.link_name(link), attributes=of_link(fabric, link))
    if not fabric.usable.all():
        angle = 2 * pi * (a + 0.5) / n
        canvas.arrowhead(arc[8], (cos(angle), sin(angle)), colour(number))


def _place(position: float, n: int, radius: float) -> Point:
    angle = 2 * pi * position / n
    return radius * sin(angle), -radius * cos(angle)
