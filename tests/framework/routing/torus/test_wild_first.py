"""T-O4, and the order of the axes around faults by the source's own examples."""

from __future__ import annotations

import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.routing.torus.wild_first import (
    Sequence,
    default_sequence,
    order_around,
    parse_sequence,
)
from railweave.plugins.wfr.router import WildFirstRouting

X, Y, Z = range(3)


def avoidable_axes(sequence: Sequence) -> set[int]:
    """The axes whose faults a sequence avoids: some other axis is hopped before and after (sandwich rule)."""
    places = enumerate(sequence.order)
    return {axis for place, axis in places if set(sequence.wild) & set(sequence.order[place + 1 :])}


@pytest.mark.parametrize(
    ("text", "avoidable", "ordered"),
    [
        ("yXY", {X}, True), ("xYX", {Y}, True), ("xyZYX", {Y, Z}, True), ("yxZYX", {Y, Z}, False),
        ("yxZXY", {X, Z}, True), ("zyXYZ", {X, Y}, True), ("XYZ", set(), True), ("xXYZ", set(), True),
    ],
)  # fmt: skip
def test_t_o4_sandwich_and_order(text: str, avoidable: set[int], ordered: bool) -> None:
    """The first four are the source's; the next two it recommends for a loss in X; the rest by the rules."""
    sequence = parse_sequence(text)
    assert str(sequence) == text
    assert (avoidable_axes(sequence), sequence.is_ordered) == (avoidable, ordered)


@pytest.mark.parametrize(
    "text", ["", "XyZ", "XYx", "xxXY", "XYY", "xYZ", "aXYZ", "x1XYZ", "yx", "XYZxyz", "W"]
)
def test_what_is_no_sequence_is_refused(text: str) -> None:
    with pytest.raises(ExperimentError, match="write the wild hops in lower case, then every axis once"):
        parse_sequence(text)


def test_the_default_has_wild_hops_along_all_axes_but_the_first() -> None:
    assert str(default_sequence((X, Y, Z))) == "zyXYZ"
    assert str(default_sequence((Z, X, Y))) == "yxZXY"
    assert str(default_sequence((Y, X))) == "xYX"
    assert str(default_sequence((X,))) == "X"
    for order in ((X, Y, Z), (Z, X, Y)):
        assert default_sequence(order).is_ordered and avoidable_axes(default_sequence(order)) == set(
            order[:2]
        )


@pytest.mark.parametrize(
    ("healthy", "dead", "order"),
    [
        ((X, Y, Z), (0, 0, 0), (X, Y, Z)),
        ((X, Y, Z), (2, 0, 0), (X, Y, Z)),
        ((X, Y, Z), (0, 0, 2), (X, Z, Y)),
        ((Z, X, Y), (2, 0, 0), (Z, X, Y)),
        ((Z, X, Y), (0, 2, 0), (Z, Y, X)),
        ((Z, X, Y), (1, 4, 2), (Z, Y, X)),
        ((X, Y, Z), (4, 2, 6), (X, Z, Y)),
        ((X,), (1,), (X,)),
    ],
)
def test_the_axis_with_the_fewest_faults_goes_last(
    healthy: tuple[int, ...], dead: tuple[int, ...], order: tuple[int, ...]
) -> None:
    assert order_around(healthy, dead) == order
    if len(healthy) == 3 and min(dead) == 0:
        avoidable = avoidable_axes(default_sequence(order))
        assert {axis for axis in range(3) if dead[axis]} <= avoidable


def test_a_sequence_against_the_order_rule_is_refused_with_the_mend() -> None:
    with pytest.raises(ExperimentError) as refusal:
        WildFirstRouting().configured({"sequence": "yxZYX"})
    assert "wild hops must come in the reverse of the dimension order" in str(refusal.value)
    assert str(refusal.value).endswith("Use xyZYX.") and refusal.value.exit_code == 2
