"""Shapes collected into one SVG document that is as large as what was drawn, and what its lines mean."""

from collections.abc import Sequence
from math import hypot
from xml.etree import ElementTree

from railweave.framework.errors import FabricError
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Float
from railweave.framework.parameters import units

MARGIN = 24.0
"""Pixels around what is drawn."""
INK, PALE, PAPER = "#1f2933", "#7b8794", "#ffffff"
COLOURS = ("#d64545", "#2f80ed", "#27874b", "#b7791f", "#7b4fc9", "#0e8c8c", "#c2498f", "#5f6b2d")
"""Of rails, wavelengths and axes, in turn; dark enough for thin lines on white."""

Point = tuple[float, float]
Attributes = dict[str, str]
Legend = list[tuple[str, str, str]]
"""(colour, dash pattern, words) of every kind of line; a colour of "" makes a remark."""


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def spot(point: Point) -> str:
    """A point in a path's `d`."""
    return f"{point[0]:.1f},{point[1]:.1f}"


def of_link(fabric: Fabric, link: int) -> Attributes:
    """What makes an element the picture of a cable: an `id` by its link, and its kind as `class`."""
    return {"id": f"link{link}", "class": f"link {fabric.kinds[fabric.link_kind[link]]}"}


def of_node(fabric: Fabric, node: int) -> Attributes:
    """What makes an element the picture of a node: an `id` by its number, and its kind as `class`."""
    return {"id": f"node{node}", "class": f"node {fabric.node_kind(node)}"}


def part_of(node: int) -> Attributes:
    """What makes a line show the state of a switch, such as the rail that it makes."""
    return {"class": f"part node{node}"}


def rate_words(rates_bps: Float) -> str:
    """`400Gb/s`, or from lowest to highest where rates differ."""
    low, high = units.rate(float(rates_bps.min())), units.rate(float(rates_bps.max()))
    return low if low == high else f"{low} to {high}"


def shown(length: int, most: int) -> list[int | None]:
    """The positions to draw of `length`: all, or the first ones, a gap (None) and the last."""
    if length <= most:
        return list(range(length))
    return [*range(most - 2), None, length - 1]


def refuse_above(most: int, fabric: Fabric) -> None:
    """FabricError for a fabric of more than `most` GPUs."""
    if fabric.n_gpus > most:
        raise FabricError(
            f"{fabric.kind} of {fabric.n_gpus} GPUs: a picture holds {most} at most. Use `--format graphml` "
            "and a graph viewer."
        )


class Canvas:
    """Draws in pixels, y downwards; later shapes lie above earlier ones. `attributes`: further SVG
    attributes."""

    def __init__(self) -> None:
        self._shapes = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg")
        self._points: list[Point] = []

    def line(
        self,
        points: Sequence[Point],
        stroke: str,
        width: float = 1.5,
        *,
        title: str = "",
        attributes: Attributes | None = None,
    ) -> None:
        """Straight pieces through points."""
        self.path(
            "M" + " L".join(map(spot, points)), points, stroke, width, title=title, attributes=attributes
        )

    def path(
        self,
        path: str,
        bounds: Sequence[Point],
        stroke: str,
        width: float = 1.5,
        *,
        title: str = "",
        attributes: Attributes | None = None,
    ) -> None:
        """Any SVG path; `bounds` are points that enclose it."""
        pen = {"stroke": stroke, "stroke-linecap": "round", "stroke-linejoin": "round", **(attributes or {})}
        self._add("path", bounds, title, pen, d=path, fill="none", stroke_width=width)

    def arrowhead(self, tip: Point, towards: Point, fill: str, size: float = 7.0) -> None:
        """A filled head at `tip` that points in the direction `towards` (any length)."""
        length = hypot(*towards)
        ux, uy = towards[0] / length, towards[1] / length
        (x, y), half = tip, size * 0.45
        corners = [
            (x, y),
            (x - size * ux - half * uy, y - size * uy + half * ux),
            (x - size * ux + half * uy, y - size * uy - half * ux),
        ]
        self._add("path", corners, d="M" + " L".join(map(spot, corners)) + " Z", fill=fill)

    def box(
        self,
        centre: Point,
        size: Point,
        fill: str,
        stroke: str = INK,
        *,
        radius: float = 4.0,
        title: str = "",
        width: float = 1.2,
        words: str = "",
        font: float = 11.0,
        bold: bool = False,
        attributes: Attributes | None = None,
    ) -> None:
        """A box around `centre`, with `words` in its middle."""
        (w, h), x, y = size, centre[0] - size[0] / 2, centre[1] - size[1] / 2
        pen = {"fill": fill, "stroke": stroke, **(attributes or {})}
        corners = [(x, y), (x + w, y + h)]
        self._add("rect", corners, title, pen, x=x, y=y, width=w, height=h, rx=radius, stroke_width=width)
        if words:
            self.text(centre, words, font, bold=bold)

    def dot(
        self,
        centre: Point,
        radius: float,
        fill: str,
        stroke: str = INK,
        *,
        title: str = "",
        attributes: Attributes | None = None,
    ) -> None:
        (x, y), r = centre, radius
        bounds = [(x - r, y - r), (x + r, y + r)]
        self._add(
            "circle", bounds, title, {"fill": fill, "stroke": stroke, **(attributes or {})}, cx=x, cy=y, r=r
        )

    def text(
        self,
        at: Point,
        words: str,
        size: float = 11.0,
        *,
        fill: str = INK,
        anchor: str = "middle",
        bold: bool = False,
        attributes: Attributes | None = None,
    ) -> None:
        """Words with the middle of their height at `at`."""
        x, y = at
        wide = 0.6 * size * len(words)
        left = {"middle": x - wide / 2, "start": x, "end": x - wide}[anchor]
        bounds = [(left, y - size / 2), (left + wide, y + size / 2)]
        style = {
            "text-anchor": anchor,
            "fill": fill,
            **({"font-weight": "600"} if bold else {}),
            **(attributes or {}),
        }
        self._add("text", bounds, "", style, x=x, y=y + 0.35 * size, font_size=size).text = words

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """(left, top, right, bottom) of what was drawn."""
        xs, ys = zip(*self._points, strict=True)
        return min(xs), min(ys), max(xs), max(ys)

    def document(self, title: str) -> str:
        """The SVG text; screen readers read `title`."""
        left, top, right, bottom = self.bounds
        x, y, root = left - MARGIN, top - MARGIN, self._shapes
        wide, high = f"{right - x + MARGIN:.0f}", f"{bottom - y + MARGIN:.0f}"
        root.attrib |= {
            "viewBox": f"{x:.0f} {y:.0f} {wide} {high}",
            "width": wide,
            "height": high,
            "role": "img",
            "font-family": "DejaVu Sans, Helvetica, Arial, sans-serif",
            "aria-label": title,
        }
        paper = {
            "class": "paper",
            "x": f"{x:.0f}",
            "y": f"{y:.0f}",
            "width": wide,
            "height": high,
            "fill": PAPER,
        }
        root[:0] = [ElementTree.Element("title"), ElementTree.Element("rect", paper)]
        root[0].text = title
        ElementTree.indent(root, "")
        return ElementTree.tostring(root, encoding="unicode") + "\n"

    def _add(
        self,
        tag: str,
        bounds: Sequence[Point],
        title: str = "",
        attributes: Attributes | None = None,
        **values: str | float,
    ) -> ElementTree.Element:
        self._points += bounds
        texts = {
            name.replace("_", "-"): v if isinstance(v, str) else f"{v:.5g}" for name, v in values.items()
        }
        element = ElementTree.SubElement(self._shapes, tag, {**texts, **(attributes or {})})
        if title:
            ElementTree.SubElement(element, "title").text = title
        return element
