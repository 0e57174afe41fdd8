"""Any other fabric: the GPUs in a row, each kind of switch in a row above."""

from railweave.framework.drawing.canvas import (
    PALE,
    Canvas,
    Legend,
    Point,
    colour,
    of_link,
    of_node,
    rate_words,
    shown,
)
from railweave.framework.model import Fabric

MOST, STEP, TIER = 128, 64.0, 120.0
"""Nodes of a row that are drawn; pixels between nodes with names, and least between tiers."""
WHOLE_ROW, NAMED, CLOSE = 1024, 48, 13.0
"""Nodes of a row drawn where all are wanted, and nodes up to which names have room; pixels between others."""


def draw_tiers(canvas: Canvas, fabric: Fabric, most: int = MOST) -> Legend:
    """Straight lines between rows of one width; within the GPUs' row, below it. Rows longer than `most` leave
    out the middle. With `most` above MOST nodes of long rows are dots."""
    places: dict[int, Point] = {}
    remarks: Legend = []
    rows = [shown(group.size, most) for group in fabric.groups]
    longest = max(map(len, rows))
    named = longest <= NAMED or most == MOST
    width = (STEP if named else CLOSE) * longest
    height = max(TIER, 0.16 * width)
    for tier, (group, numbers) in enumerate(zip(fabric.groups, rows, strict=True)):
        for i, number in enumerate(numbers):
            at = (width * ((i + 0.5) / len(numbers) - 0.5), -height * tier)
            if number is None:
                canvas.text(at, "⋯", 18, fill=PALE)
            else:
                places[group.first + number] = at
        if None in numbers:
            remarks.append(("", "", f"drawn: {len(numbers) - 1} of {group.size} nodes of kind {group.kind}"))
    for link in range(0, fabric.n_links, 2):
        a, b = int(fabric.link_src[link]), int(fabric.link_dst[link])
        if a not in places or b not in places:
            continue
        (x1, y1), (x2, y2) = places[a], places[b]
        stroke, title = colour(int(fabric.link_kind[link])), fabric.link_name(link)
        if y1 != y2:
            canvas.line([(x1, y1), (x2, y2)], stroke, 1.4, title=title, attributes=of_link(fabric, link))
            continue
        low = y1 + 24 + 0.22 * abs(x2 - x1)
        path = f"M{x1:.1f},{y1:.1f} C{x1:.1f},{low:.1f} {x2:.1f},{low:.1f} {x2:.1f},{y2:.1f}"
        canvas.path(path, [(x1, low), (x2, low)], stroke, 1.4, title=title, attributes=of_link(fabric, link))
    for node, at in places.items():
        name, kind = fabric.node_name(node), fabric.node_kind(node).replace("gpu", "GPU")
        if not named:
            radius = 4.5 if node < fabric.n_gpus else 8
            canvas.dot(at, radius, "#ffffff", title=f"{kind} {name}", attributes=of_node(fabric, node))
            continue
        canvas.box(
            at, (50, 24), "#ffffff", title=f"{kind} {name}", words=name, font=10 if len(name) < 8 else 8,
            attributes=of_node(fabric, node),
        )  # fmt: skip
    return [
        (colour(i), "", f"{kind}, {rate_words(fabric.capacity_bps[fabric.link_kind == i])} per direction")
        for i, kind in enumerate(fabric.kinds)
        if (fabric.link_kind[0::2] == i).any()
    ] + remarks
