"""Figures of studies: what is drawn where, read back from the SVG."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from railweave.framework.drawing.plots import HIGH, WIDE, Axis, Curve, VerticalMark, curves, heat_map

SVG = "{http://www.w3.org/2000/svg}"


def shapes(text: str, tag: str) -> list[ElementTree.Element]:
    return [*ElementTree.fromstring(text).iter(f"{SVG}{tag}")]


def dots(text: str) -> list[tuple[float, float]]:
    """Those of the curves; that of each key lies below the frame."""
    found = [(float(d.attrib["cx"]), float(d.attrib["cy"])) for d in shapes(text, "circle")]
    return [(x, y) for x, y in found if y <= HIGH]


def words(text: str) -> list[str]:
    return [element.text or "" for element in shapes(text, "text")]


def test_even_numbers_lie_evenly_within_the_frame() -> None:
    text = curves("t", Axis("depth"), Axis("us"), [Curve("a", [1, 2, 3, 5], [10, 20, 30, 50])])
    points = dots(text)
    assert all(0 <= x <= WIDE and 0 <= y <= HIGH for x, y in points)
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(points)]
    assert steps[0] == pytest.approx(steps[1], abs=0.02)
    assert steps[2] == pytest.approx((2 * steps[0][0], 2 * steps[0][1]), abs=0.04)
    assert steps[0][1] < 0  # larger is higher


def test_numbers_far_apart_lie_by_their_logarithm() -> None:
    points = dots(curves("t", Axis("n"), Axis("us"), [Curve("a", [1, 10, 100], [1, 10, 100])]))
    (ax, ay), (bx, by), (cx, cy) = points
    assert bx - ax == pytest.approx(cx - bx, abs=0.02) and by - ay == pytest.approx(cy - by, abs=0.02)


def test_a_tick_lies_where_its_number_would() -> None:
    """Points at round numbers have the height and place of the ticks that are labelled with them."""
    text = curves("t", Axis("x"), Axis("y"), [Curve("a", [0, 20, 40], [0, 200, 400])])
    ticks = {t.text: t for t in shapes(text, "text")}
    for (x, y), across, up in zip(dots(text), ("0", "20", "40"), ("0", "200", "400"), strict=True):
        if across in ticks and across != "0":
            assert float(ticks[across].attrib["x"]) == pytest.approx(x, abs=0.02)
        if up in ticks and up != "0":
            assert float(ticks[up].attrib["y"]) - 3.5 == pytest.approx(y, abs=0.02)
    assert "20" in ticks and "200" in ticks


def test_intervals_labels_marks_and_keys() -> None:
    drawn = [
        Curve("hscore", [0, 1], [3.0, None], [2.0, None], [4.0, None]),
        Curve("nothing", [0, 1], [None, None]),
        Curve('<script>alert("x")</script>', [0, 1], [1.0, 2.0]),
    ]
    text = curves("t", Axis("router", ["a&b", "c"]), Axis("us"), drawn, [VerticalMark(0.5, "fault")])
    shown = words(text)
    assert "a&b" in shown and "fault" in shown and "hscore" in shown and "nothing" not in shown
    assert "<script>" not in text and len(dots(text)) == 3
    ends = [p.attrib["d"] for p in shapes(text, "path") if p.attrib["stroke-width"] == "1.2"]
    assert len(ends) == 3  # the interval and its two ends
    ys = [float(y) for y in re.findall(r",([\d.]+)", ends[0])]
    assert ys[0] > dots(text)[0][1] > ys[1]


def test_one_value_and_none_at_all_make_a_figure() -> None:
    assert len(dots(curves("t", Axis("x"), Axis("y"), [Curve("a", [3.0], [0.0])]))) == 1
    assert "no figures" in words(curves("t", Axis("x"), Axis("y"), []))
    assert "no figures" in words(curves("t", Axis("x"), Axis("y"), [Curve("a", [1.0], [None])]))


def test_cells_of_a_map_are_the_darker_the_larger_and_say_their_value() -> None:
    text = heat_map("t", Axis("x", ["1", "2"]), Axis("y", ["a", "b"]), [[1.0, 2.0], [None, 3.0]], "us")
    cells = [box for box in shapes(text, "rect") if box.attrib.get("class") != "paper"]
    shades = {
        box.find(f"{SVG}title").text: sum(bytes.fromhex(box.attrib["fill"][1:]))  # type: ignore[union-attr]
        for box in cells
    }
    assert shades["y a, x 1"] > shades["y a, x 2"] > shades["y b, x 2"]
    assert shades["y b, x 1"] == 3 * 255  # white: there is none
    assert {"1", "2", "3", "-", "a", "b"} <= {*words(text)}
    same = heat_map("t", Axis("x", ["1"]), Axis("y", ["a"]), [[7.0]], "us")
    assert "7" in words(same)
