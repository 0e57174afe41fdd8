"""Figures of studies as SVG, fit for print: curves with intervals, and maps of two axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite, log10

from railweave.framework.drawing.canvas import INK, PALE, PAPER, Canvas, Point, colour

WIDE, HIGH = 440.0, 260.0
"""Pixels of the area between the axes."""
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 2", "10 4", "4 2 1 2 1 2", "3 6")
"""Curves differ in these as well as in colour: prints are grey."""
TICKS = 5
"""Labels of an axis, about."""
FONT = 10.0
"""Pixels of the text of axes."""
LOG_SPAN = 50.0
"""Ratio of the largest to the least number from which an axis of numbers above 0 is logarithmic."""
CELL: Point = (64.0, 26.0)
"""Width and height in pixels of a cell of a map."""
PALEST, DARKEST = (238, 244, 251), (23, 78, 140)
"""Red, green and blue of the least and the largest value of a map."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Values `y` over `x`, with the ends of their intervals; None where there is no value, or no interval."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


@dataclass(frozen=True, slots=True)
class VerticalMark:
    """A line across a figure at `x`, such as a fault."""

    x: float
    words: str


@dataclass(frozen=True, slots=True)
class Axis:
    """`labels`: what stands at 0, 1, 2, ... in the place of numbers."""

    title: str
    labels: Sequence[str] = ()


class _Scale:
    """Where numbers lie between two places: evenly, or by their logarithm."""

    def __init__(
        self, values: Sequence[float], at: Point, *, labels: int = 0, from_zero: bool = False
    ) -> None:
        low, high = min(values), max(values)
        self._log = not labels and low > 0 and high / low >= LOG_SPAN
        if labels:
            low, high = -0.5, labels - 0.5
        elif from_zero and not self._log and low > 0 and low < 0.5 * high:
            low = 0.0
        low, high = (log10(low), log10(high)) if self._log else (low, high)
        slack = 0.0 if labels else 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        self._low = low if low == 0.0 and from_zero else low - slack
        self._high, self._at = high + slack, at

    def __call__(self, value: float) -> float:
        number = log10(value) if self._log else value
        begin, end = self._at
        return begin + (number - self._low) / (self._high - self._low) * (end - begin)

    def ticks(self) -> list[float]:
        """Round numbers: powers of ten and their 2 and 5, or multiples of a round step."""
        if self._log:
            powers = range(floor(self._low), ceil(self._high) + 1)
            wide = self._high - self._low > 3
            marks = [m * 10.0**p for p in powers for m in ((1,) if wide else (1, 2, 5))]
            return [mark for mark in marks if self._low <= log10(mark) <= self._high]
        raw = (self._high - self._low) / TICKS
        step = min((m * 10.0 ** floor(log10(raw)) for m in (1, 2, 5, 10)), key=lambda s: abs(s - raw))
        first, last = ceil(self._low / step - 1e-9), floor(self._high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def curves(title: str, x: Axis, y: Axis, drawn: Sequence[Curve], marks: Sequence[VerticalMark] = ()) -> str:
    """The curves as an SVG document, with what each is called below; empty ones are left out."""
    drawn = [curve for curve in drawn if any(value is not None for value in curve.y)]
    canvas = Canvas()
    if not drawn:
        canvas.text((WIDE / 2, HIGH / 2), "no figures", fill=PALE)
        return canvas.document(title)
    places = [place for curve in drawn for place in curve.x] + [mark.x for mark in marks]
    reach = [v for curve in drawn for some in (curve.y, curve.low, curve.high) for v in some if v is not None]
    across = _Scale(places, (0.0, WIDE), labels=len(x.labels))
    up = _Scale(reach, (HIGH, 0.0), from_zero=True)
    _frame(canvas, title, x, y, across, up)
    for mark in marks:
        place = across(mark.x)
        canvas.line(
            [(place, 0.0), (place, HIGH)], PALE, 1.0, title=mark.words, attributes={"stroke-dasharray": "2 2"}
        )
        canvas.text((place + 4, 8.0), mark.words, FONT - 1, anchor="start", fill=PALE)
    for number, curve in enumerate(drawn):
        _curve(canvas, curve, number, across, up)
    for number, curve in enumerate(drawn):
        _key(canvas, curve.name, number, HIGH + 58 + 16 * number)
    return canvas.document(title)


def _frame(canvas: Canvas, title: str, x: Axis, y: Axis, across: _Scale, up: _Scale) -> None:
    canvas.box((WIDE / 2, HIGH / 2), (WIDE, HIGH), PAPER, INK, radius=0.0, width=1.0)
    canvas.text((0.0, -18.0), title, 12.0, anchor="start", bold=True)
    for tick in up.ticks():
        canvas.line([(0.0, up(tick)), (WIDE, up(tick))], "#e4e7eb", 0.8)
        canvas.text((-6.0, up(tick)), f"{tick:.6g}", FONT, anchor="end")
    for place, words in _x_ticks(x, across):
        canvas.line([(place, HIGH), (place, HIGH + 4)], INK, 1.0)
        canvas.text((place, HIGH + 14), words, FONT)
    canvas.text((WIDE / 2, HIGH + 34), x.title, FONT + 1)
    turned = {"transform": f"rotate(-90 -48 {HIGH / 2:g})"}
    canvas.text((-48.0, HIGH / 2), y.title, FONT + 1, attributes=turned)


def _x_ticks(x: Axis, across: _Scale) -> list[tuple[float, str]]:
    if not x.labels:
        return [(across(tick), f"{tick:.6g}") for tick in across.ticks()]
    every = ceil(len(x.labels) / 8)
    return [(across(i), words) for i, words in enumerate(x.labels) if i % every == 0]


def _curve(canvas: Canvas, curve: Curve, number: int, across: _Scale, up: _Scale) -> None:
    ink = colour(number)
    pen = {"stroke-dasharray": DASHES[number % len(DASHES)]} if DASHES[number % len(DASHES)] else {}
    points = [(across(x), up(y)) for x, y in zip(curve.x, curve.y, strict=True) if y is not None]
    for x, low, high in zip(curve.x, curve.low, curve.high, strict=False):
        if low is not None and high is not None:
            place = across(x)
            canvas.line([(place, up(low)), (place, up(high))], ink, 1.2)
            for end in (low, high):
                canvas.line([(place - 3, up(end)), (place + 3, up(end))], ink, 1.2)
    if len(points) > 1:
        canvas.line(points, ink, 1.6, title=curve.name, attributes=pen)
    for point in points:
        canvas.dot(point, 2.6, ink, ink, title=curve.name)


def _key(canvas: Canvas, words: str, number: int, y: float) -> None:
    dash = DASHES[number % len(DASHES)]
    canvas.line(
        [(0.0, y), (28.0, y)], colour(number), 1.6, attributes={"stroke-dasharray": dash} if dash else {}
    )
    canvas.dot((14.0, y), 2.6, colour(number), colour(number))
    canvas.text((36.0, y), words, FONT, anchor="start")


def heat_map(title: str, x: Axis, y: Axis, values: Sequence[Sequence[float | None]], unit: str) -> str:
    """`values[row][column]`, by `y.labels` from the top and `x.labels`, as cells that are the darker the
    larger they are; None is left white."""
    finite = [value for row in values for value in row if value is not None and isfinite(value)]
    low, high = min(finite, default=inf), max(finite, default=-inf)
    canvas, (wide, tall) = Canvas(), CELL
    canvas.text((0.0, -34.0), title, 12.0, anchor="start", bold=True)
    for column, words in enumerate(x.labels):
        canvas.text(((column + 0.5) * wide, -10.0), words, FONT)
    for row, words in enumerate(y.labels):
        canvas.text((-8.0, (row + 0.5) * tall), words, FONT, anchor="end")
        for column, value in enumerate(values[row]):
            centre = ((column + 0.5) * wide, (row + 0.5) * tall)
            share = 0.0 if value is None or high <= low else (value - low) / (high - low)
            fill = PAPER if value is None else _shade(share)
            named = f"{y.title} {y.labels[row]}, {x.title} {x.labels[column]}"
            canvas.box(centre, (wide - 2, tall - 2), fill, PALE, radius=2.0, width=0.6, title=named)
            words = "-" if value is None else f"{value:.4g}"
            canvas.text(centre, words, FONT, fill=PAPER if share > 0.5 else INK)
    bottom = len(y.labels) * tall
    canvas.text((len(x.labels) * wide / 2, bottom + 14), x.title, FONT + 1)
    canvas.text((-8.0, bottom + 14), y.title, FONT + 1, anchor="end")
    canvas.text((0.0, bottom + 34), unit, FONT, anchor="start", fill=PALE)
    return canvas.document(title)


def _shade(share: float) -> str:
    mixed = (round(a + share * (b - a)) for a, b in zip(PALEST, DARKEST, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)
