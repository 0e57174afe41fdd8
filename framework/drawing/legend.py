"""What the lines of a picture mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railweave.framework import quantities
from railweave.framework.model import Fabric

Legend = list[tuple[str, str, str]]
"""(colour, dash pattern, words) of every kind of line; a colour of "" is a remark."""


def rate_words(fabric: Fabric, kinds: Sequence[str]) -> str:
    """`400Gb/s`, or from lowest to highest, of the links of these kinds."""
    chosen = np.isin(fabric.link_kind, [fabric.kinds.index(kind) for kind in kinds if kind in fabric.kinds])
    rates = np.unique(fabric.capacity_bps[chosen])
    low, high = quantities.rate(float(rates[0])), quantities.rate(float(rates[-1]))
    return low if low == high else f"{low} to {high}"


def shown(length: int, most: int) -> list[int | None]:
    """The positions to draw of `length`: all, or the first ones, a gap (None) and the last."""
    if length <= most:
        return list(range(length))
    return [*range(most - 2), None, length - 1]
