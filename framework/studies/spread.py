"""What repeats and seeds say together: medians, variation, bootstrap intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
PERCENT = 95


@dataclass(frozen=True, slots=True)
class Spread:
    """Of `n` values: `median`; `cv`, standard deviation over mean, and the ends of the 95 % interval of the
    median, None of one value."""

    n: int
    median: float
    cv: float | None = None
    low: float | None = None
    high: float | None = None


def spread(values: Sequence[float]) -> Spread | None:
    """None of no values. The interval is the percentile bootstrap of Efron and Tibshirani (1993, section
    13.3), drawn with the same seed each time."""
    if not values:
        return None
    array = np.array(values, float)
    middle = float(np.median(array))
    if len(array) == 1:
        return Spread(1, middle)
    drawn = np.median(array[_drawn(len(array))], axis=1)
    mean = float(array.mean())
    return Spread(len(array), middle, float(array.std(ddof=1) / mean) if mean else None, *_ends(drawn))


def ratio(ours: Sequence[float], theirs: Sequence[float], *, paired: bool = False) -> Spread | None:
    """Of the medians, ours over theirs, each drawn anew; of values `paired` (by seed), the pairs are. None
    where either is empty or the lower median is no number to divide by."""
    if not ours or not theirs or not (below := float(np.median(np.array(theirs, float)))):
        return None
    first, second = np.array(ours, float), np.array(theirs, float)
    middle = float(np.median(first)) / below
    n = min(len(first), len(second))
    if n < 2:
        return Spread(n, middle)
    again = _drawn(len(second)) if paired else _drawn(len(second), 1)
    drawn = np.median(first[_drawn(len(first))], axis=1) / np.median(second[again], axis=1)
    return Spread(n, middle, None, *_ends(drawn))


def _ends(drawn: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.percentile(drawn, [(100 - PERCENT) / 2, (100 + PERCENT) / 2])
    return float(low), float(high)


@cache
def _drawn(n: int, seed: int = 0) -> NDArray[np.int64]:
    """RESAMPLES samples of n of n, with replacement."""
    return np.random.default_rng(seed).integers(0, n, (RESAMPLES, n))
