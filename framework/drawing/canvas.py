"""Shapes collected into one SVG document that is as large as what was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from xml.sax.saxutils import escape, quoteattr

MARGIN = 24.0
INK, PALE, PAPER = "#1f2933", "#7b8794", "#ffffff"
COLOURS = ("#d64545", "#2f80ed", "#27874b", "#b7791f", "#7b4fc9", "#0e8c8c", "#c2498f", "#5f6b2d")
"""Of rails, wavelengths and axes, in turn; dark enough for thin lines on white."""

Point = tuple[float, float]


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


class Canvas:
    """Draws in pixels, y downwards; later shapes lie above earlier ones."""

    def __init__(self) -> None:
        self._shapes: list[str] = []
        self._xs: list[float] = []
        self._ys: list[float] = []

    def line(
        self, points: Sequence[Point], stroke: str, width: float = 1.5, *, dash: str = "", title: str = "",
        opacity: float = 1.0,
    ) -> None:  # fmt: skip
        """A way through points with straight pieces."""
        path = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.path(path, points, stroke, width, dash=dash, title=title, opacity=opacity)

    def path(
        self, path: str, reach: Sequence[Point], stroke: str, width: float = 1.5, *, dash: str = "",
        title: str = "", opacity: float = 1.0,
    ) -> None:  # fmt: skip
        """Any SVG path; `reach` are points that bound it."""
        self._cover(reach)
        more = f' stroke-dasharray="{dash}"' if dash else ""
        more += f' opacity="{opacity:g}"' if opacity < 1 else ""
        self._add(
            f'path d="{path}" fill="none" stroke="{stroke}" stroke-width="{width:g}" stroke-linecap="round" '
            f'stroke-linejoin="round"{more}',
            title,
        )

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
        self._cover(corners)
        outline = " L".join(f"{a:.1f},{b:.1f}" for a, b in corners)
        self._add(f'path d="M{outline} Z" fill="{fill}"', "")

    def box(
        self, centre: Point, size: Point, fill: str, stroke: str = INK, *, radius: float = 4.0, title: str = "",
        width: float = 1.2,
    ) -> None:  # fmt: skip
        (x, y), (w, h) = centre, size
        self._cover([(x - w / 2, y - h / 2), (x + w / 2, y + h / 2)])
        self._add(
            f'rect x="{x - w / 2:.1f}" y="{y - h / 2:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{radius:g}" '
            f'fill="{fill}" stroke="{stroke}" stroke-width="{width:g}"',
            title,
        )

    def dot(
        self,
        centre: Point,
        radius: float,
        fill: str,
        stroke: str = INK,
        *,
        title: str = "",
        opacity: float = 1.0,
    ) -> None:
        (x, y), r = centre, radius
        self._cover([(x - r, y - r), (x + r, y + r)])
        more = f' opacity="{opacity:g}"' if opacity < 1 else ""
        self._add(f'circle cx="{x:.1f}" cy="{y:.1f}" r="{r:g}" fill="{fill}" stroke="{stroke}"{more}', title)

    def text(
        self, at: Point, words: str, size: float = 11.0, *, fill: str = INK, anchor: str = "middle", bold: bool = False
    ) -> None:  # fmt: skip
        """Words with the middle of their height at `at`."""
        x, y = at
        wide = 0.6 * size * len(words)
        left = {"middle": x - wide / 2, "start": x, "end": x - wide}[anchor]
        self._cover([(left, y - size / 2), (left + wide, y + size / 2)])
        weight = ' font-weight="600"' if bold else ""
        self._shapes.append(
            f'<text x="{x:.1f}" y="{y + 0.35 * size:.1f}" font-size="{size:g}" text-anchor="{anchor}" fill="{fill}"'
            f"{weight}>{escape(words)}</text>"
        )

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """(left, top, right, bottom) of what was drawn."""
        return min(self._xs), min(self._ys), max(self._xs), max(self._ys)

    def document(self, title: str) -> str:
        """The SVG text, with `title` for readers that do not see it."""
        left, top, right, bottom = self.bounds
        x, y = left - MARGIN, top - MARGIN
        w, h = right - left + 2 * MARGIN, bottom - top + 2 * MARGIN
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{x:.0f} {y:.0f} {w:.0f} {h:.0f}" width="{w:.0f}" '
            f'height="{h:.0f}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" role="img" '
            f"aria-label={quoteattr(title)}>"
        )
        paper = f'<rect x="{x:.0f}" y="{y:.0f}" width="{w:.0f}" height="{h:.0f}" fill="{PAPER}"/>'
        lines = [head, f"<title>{escape(title)}</title>", paper, *self._shapes, "</svg>"]
        return "\n".join(lines) + "\n"

    def _cover(self, points: Sequence[Point]) -> None:
        self._xs += [x for x, _ in points]
        self._ys += [y for _, y in points]

    def _add(self, element: str, title: str) -> None:
        name = element.split(" ", 1)[0]
        self._shapes.append(
            f"<{element}><title>{escape(title)}</title></{name}>" if title else f"<{element}/>"
        )
