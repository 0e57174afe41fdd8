"""A mean over seeds and its 95 % interval."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from railweave.framework.model.arrays import Float

RESAMPLES = 2000
"""Samples of a bootstrap: the standard error of either end is 1.5 % of the interval's width."""
PERCENT = 95
"""Of samples that lie in the interval."""


@dataclass(frozen=True, slots=True)
class SeedMean:
    """The mean of one value per seed, and the ends of its 95 % interval."""

    mean: float
    low: float
    high: float


def seed_mean(values: Float) -> SeedMean:
    """Of (seeds,) values, 2 or more. The interval is the percentile bootstrap of Efron and Tibshirani (1993,
    section 13.3), drawn the same way each time."""
    means = _weights(values.size) @ values
    low, high = np.percentile(means, [(100 - PERCENT) / 2, (100 + PERCENT) / 2])
    return SeedMean(float(values.mean()), float(low), float(high))


@cache
def _weights(seeds: int) -> Float:
    """(RESAMPLES, seeds): the share of each seed in a sample of as many seeds, with replacement."""
    generator = np.random.default_rng(0)
    return generator.multinomial(seeds, np.full(seeds, 1 / seeds), RESAMPLES) / seeds
