"""Spares in pictures: as many dashed boxes as there are, and their number in the legend."""

from __future__ import annotations

from typing import Any

import pytest

import railweave as rw
from railweave.framework.drawing import svg


@pytest.mark.parametrize(
    "name, keys, boxes, words",
    [
        ("torus", {"shape": "4x4x4", "spare_cubes": 2}, 2, "2 spare cubes, dark"),
        ("torus", {"shape": "4x4x4", "spare_cubes": 5}, 3, "5 spare cubes, dark"),
        ("rail-only", {"domains": 3, "rails": 2, "spares": 2}, 6, "2 spare GPUs, dark"),
        ("rail-only", {"domains": 3, "rails": 2, "spare_domains": 1}, 1, "1 spare HB domain, dark"),
        ("rail-only", {"domains": 3, "rails": 2}, 0, ""),
    ],
)
def test_spares_are_dashed_boxes(name: str, keys: dict[str, Any], boxes: int, words: str) -> None:
    picture = svg(rw.topology(name, **keys))
    assert picture.count("dark until it takes the place of another") == boxes
    assert words in picture and ("spare" in picture) == bool(boxes)
