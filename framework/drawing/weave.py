"""Large rail fabrics, whole: every rail a line across, every HB domain a line down, GPUs where they cross."""

from railweave.framework.drawing.canvas import (
    INK,
    PALE,
    Canvas,
    Legend,
    colour,
    of_link,
    of_node,
)
from railweave.framework.drawing.rails import BUS, TAP, rates_into
from railweave.framework.model import Fabric

WITH_GPUS = 1024
"""GPUs up to which each is drawn as a dot."""
WIDE, NARROW = 26.0, 4.0
"""Pixels between domains, and between rails, with dots and without."""


def draw_weave(canvas: Canvas, fabric: Fabric) -> Legend:
    """Rails in their colours, domains in grey, spines to the left. Up to WITH_GPUS GPUs each is a dot next to
    the crossing of its two lines, joined with both by its cables; above that GPUs and their cables are not
    drawn. For fabrics that `fits_rails` accepts."""
    domains, rails = fabric.groups[1:3]
    with_gpus = fabric.n_gpus <= WITH_GPUS
    step = WIDE if with_gpus else NARROW
    right, bottom = step * domains.size, step * rails.size
    for domain in range(domains.size):
        node, x = domains.first + domain, step * (domain + 0.5)
        title = f"HB domain {fabric.node_name(node)}"
        ends = [(x, -8.0), (x, bottom)]
        canvas.line(ends, BUS, 1.6 if with_gpus else 1.0, title=title, attributes=of_node(fabric, node))
    for rail in range(rails.size):
        node, y = rails.first + rail, step * (rail + 0.5)
        title = f"rail {fabric.node_name(node)}"
        ends = [(-8.0, y), (right, y)]
        canvas.line(
            ends, colour(rail), 1.6 if with_gpus else 1.0, title=title, attributes=of_node(fabric, node)
        )
    for number, group in enumerate((domains, rails)):
        for i in range(0, group.size, max(1, round(90 / step))):
            along, name = step * (i + 0.5), fabric.node_name(group.first + i)
            at = (along, -18.0) if number == 0 else (-12.0, along)
            canvas.text(at, name, 18, fill=PALE, anchor="middle" if number == 0 else "end")
    _trunks(canvas, fabric, step, bottom)
    if with_gpus:
        _gpus(canvas, fabric, step)
    legend: Legend = [
        (stroke, "", f"a line for each {word}, {rates_into(fabric, i)} per GPU")
        for i, word, stroke in ((1, "HB domain", BUS), (2, "rail", colour(0)))
    ]
    return legend + ([] if with_gpus else [("", "", f"{fabric.n_gpus} GPUs at the crossings are not drawn")])


def _gpus(canvas: Canvas, fabric: Fabric, step: float) -> None:
    for link in range(0, fabric.n_links, 2):
        gpu, switch = sorted((int(fabric.link_src[link]), int(fabric.link_dst[link])))
        if gpu >= fabric.n_gpus:
            continue
        domain, rail = fabric.coordinates(gpu)
        x, y = step * (domain + 0.5), step * (rail + 0.5)
        to_domain = fabric.node_kind(switch) == "domain"
        ends = [(x + 7, y + 7), (x, y + 7) if to_domain else (x + 7, y)]
        stroke = BUS if to_domain else colour(rail)
        canvas.line(ends, stroke, 1.4, title=fabric.link_name(link), attributes=of_link(fabric, link))
    for gpu in range(fabric.n_gpus):
        domain, rail = fabric.coordinates(gpu)
        at = (step * (domain + 0.5) + 7, step * (rail + 0.5) + 7)
        canvas.dot(at, 3, "#ffffff", title=f"GPU {fabric.node_name(gpu)}", attributes=of_node(fabric, gpu))


def _trunks(canvas: Canvas, fabric: Fabric, step: float, bottom: float) -> None:
    """Spines to the left, and their cables to the rails."""
    spine = fabric.group("spine")
    if spine is None:
        return
    heights = {spine.first + i: bottom * (i + 0.5) / spine.size for i in range(spine.size)}
    for link in range(0, fabric.n_links, 2):
        rail, node = sorted((int(fabric.link_src[link]), int(fabric.link_dst[link])))
        if node in heights:
            ends = [(-150.0, heights[node]), (-40.0, step * (rail - fabric.groups[2].first + 0.5))]
            canvas.line(ends, TAP, 1.0, title=fabric.link_name(link), attributes=of_link(fabric, link))
    for node, y in heights.items():
        name = fabric.node_name(node)
        attributes = of_node(fabric, node)
        canvas.box(
            (-168, y),
            (34, 18),
            "#ffffff",
            INK,
            title=f"spine {name}",
            words=name,
            font=8,
            attributes=attributes,
        )
