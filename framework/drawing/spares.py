"""Spare units in pictures: what is plugged into optical circuit switches and dark."""

from railweave.framework.drawing.canvas import PALE, Canvas, Point
from railweave.framework.model import Fabric

MOST_SPARES = 3
"""Drawn of each kind; the legend has their number."""


def spares_of(fabric: Fabric, kind: str) -> int:
    """How many there are of a kind of units, for each place that they serve."""
    unit = None if fabric.circuits is None else fabric.circuits.unit(kind)
    return 0 if unit is None else unit.spares


def draw_spare(canvas: Canvas, at: Point, size: Point, words: str) -> None:
    """A dashed box."""
    title = f"{words}: dark until it takes the place of another"
    canvas.box(
        at, size, "none", PALE, title=title, words=words, font=9, attributes={"stroke-dasharray": "4 3"}
    )


def spare_words(count: int, kind: str) -> str:
    """A line of a legend."""
    return f"dashed boxes: {count} spare {kind}{'s' * (count > 1)}, dark until one takes the place of another"
