"""What repeats and seeds say together: medians, variation, bootstrap intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
"""Samples of a bootstrap: the standard error of either end is 1.5 % of the interval's width."""
PERCENT = 95
"""Of samples that lie in the interval."""
MOST_DRAWN = 1000
"""Values up to which resamples are kept for others as many; from there on they are drawn a few at a time, and
of medians alone only the middle of each."""


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
    drawn = _medians(array, 0) if len(array) <= MOST_DRAWN else _middles(np.sort(array))
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
    return Spread(n, middle, None, *_ends(_medians(first, 0) / _medians(second, 0 if paired else 1)))


def _medians(values: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Of RESAMPLES samples, with replacement; of as many values with one seed the same places are drawn."""
    n = len(values)
    if n <= MOST_DRAWN:
        return np.asarray(np.median(values[_drawn(n, seed)], axis=1))
    draw = np.random.default_rng(seed)
    return np.array([np.median(values[draw.integers(0, n, n)]) for _ in range(RESAMPLES)])


def _middles(ascending: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same without the samples: places drawn with replacement are uniform numbers rounded down, so the
    two in the middle are order statistics of n uniform numbers (David and Nagaraja, Order statistics, 2003,
    section 2.1): the lower one is Beta, and above it the least of the others."""
    n, draw = len(ascending), np.random.default_rng(0)
    lower = (n + 1) // 2
    first = draw.beta(lower, n + 1 - lower, RESAMPLES)
    second = first if n % 2 else first + (1 - first) * draw.beta(1, n - lower, RESAMPLES)
    low, high = (ascending[np.minimum((n * place).astype(np.int64), n - 1)] for place in (first, second))
    return np.asarray((low + high) / 2)


def _ends(drawn: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.percentile(drawn, [(100 - PERCENT) / 2, (100 + PERCENT) / 2])
    return float(low), float(high)


@cache
def _drawn(n: int, seed: int = 0) -> NDArray[np.int64]:
    """RESAMPLES samples of n of n, with replacement."""
    return np.random.default_rng(seed).integers(0, n, (RESAMPLES, n))
