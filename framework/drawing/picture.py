"""Which layout a fabric is drawn in, and the heading and legend that all pictures share."""

from collections.abc import Callable
from functools import partial

from railweave.framework.drawing.canvas import INK, PALE, Canvas, Legend
from railweave.framework.drawing.rails import MOST_COLUMNS, MOST_ROWS, draw_rails, fits_rails
from railweave.framework.drawing.ring import draw_ring
from railweave.framework.drawing.tiers import WHOLE_ROW, draw_tiers
from railweave.framework.drawing.torus import draw_torus
from railweave.framework.drawing.weave import draw_weave
from railweave.framework.model import Fabric


def svg(fabric: Fabric, *, whole: bool = False) -> str:
    """The fabric as an SVG document: rails across domains, tori along their axes, rings as circles, others in
    tiers.

    The layout follows from nodes and links, never from the topology's name. Every cable drawn is one element
    with the id `link<n>` (n its first link) and the class `link <kind>`. Positions are fixed by coordinates,
    so equal fabrics give equal pictures. Large rail fabrics and tiers leave out the middle and say so;
    `whole` draws all of them, smaller, for readers that need not print it. Raises FabricError for tori and
    rings that have too many GPUs to draw.
    """
    canvas = Canvas()
    legend = _layout(fabric, whole)(canvas, fabric)
    left, top, _, bottom = canvas.bounds
    switches = fabric.n_nodes - fabric.n_gpus
    full = "lattice" in fabric.capabilities
    size = " x ".join(map(str, fabric.groups[0].shape)) if full else str(fabric.n_gpus)
    title = f"{fabric.kind}: {size} GPUs"
    counts = (
        f"{fabric.n_gpus} GPUs, {f'{switches} switches, ' if switches else ''}{fabric.n_links // 2} cables"
    )
    heading = {"class": "heading"}
    canvas.text((left, top - 48), title, 17, anchor="start", bold=True, attributes=heading)
    canvas.text((left, top - 27), counts, 11.5, anchor="start", fill=PALE, attributes=heading)
    for number, (stroke, dash, words) in enumerate(legend):
        y = bottom + 30 + 19 * number
        if stroke:
            dashes = {"stroke-dasharray": dash} if dash else {}
            canvas.line([(left, y), (left + 26, y)], stroke, 2.5, attributes=dashes | {"class": "legend"})
        remark = {"class": "legend" if stroke else "remark"}
        canvas.text((left + (34 if stroke else 0), y), words, 11, anchor="start", fill=INK, attributes=remark)
    return canvas.document(f"{title}, {counts}")


def _layout(fabric: Fabric, all_nodes: bool) -> Callable[[Canvas, Fabric], Legend]:
    if fits_rails(fabric):
        small = fabric.groups[1].size <= MOST_COLUMNS and fabric.groups[2].size <= MOST_ROWS
        return draw_rails if small or not all_nodes else draw_weave
    if "ring" in fabric.capabilities:
        return draw_ring
    axes = {axis + sign for axis in "xyz"[: len(fabric.groups[0].shape)] for sign in "+-"}
    is_torus = len(fabric.groups) == 1 and len(axes) > 2 and set(fabric.kinds) == axes
    if is_torus:
        return draw_torus
    return partial(draw_tiers, most=WHOLE_ROW) if all_nodes else draw_tiers
