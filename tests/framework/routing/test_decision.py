"""Which arrangement is taken: by brute force over all offers, with no more simulations than that needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from railweave.framework.model.arrays import Float
from railweave.framework.routing.decision import HARMLESS, Arrangement, Offer, best
from railweave.framework.routing.forecast import SAME_TIME, Forecast, gain

SECONDS = st.floats(0.1, 10.0)
DRAWN = st.tuples(
    st.lists(SECONDS, min_size=2, max_size=2), st.floats(0.3, 1.0), st.sampled_from([1.0, 1.01, 1.05])
)
"""Of an arrangement: when two jobs end on it, a bound as a part of that, and its margin."""


class KnownTimes:
    """Forecasts of arrangements that are numbers, in place of simulations, and which were asked for."""

    def __init__(self, jobs: int, drawn: Sequence[tuple[list[float], float, float]]) -> None:
        self.ends_s = [np.array(seconds[:jobs]) for seconds, _, _ in drawn]
        self.least_s = [ends_s * share for ends_s, (_, share, _) in zip(self.ends_s, drawn, strict=True)]
        self.simulated: list[int] = []

    def least(self, blocks: list[int], _: object) -> Float:
        return self.least_s[blocks[0]]

    def seconds(self, blocks: list[int], _: object) -> Float:
        self.simulated.append(blocks[0])
        return self.ends_s[blocks[0]]


def arrangement(number: int) -> Arrangement:
    return Arrangement(cast(Any, [number]), [])


@settings(max_examples=500)
@example(2, [([5.0, 7.0], 1.0, 1.0), ([1.0, 7.0], 0.5, 1.0), ([1.0, 1.5], 1.0, 1.0)])
@given(jobs=st.sampled_from([1, 2]), drawn=st.lists(DRAWN, min_size=1, max_size=8))
def test_what_pays_most_is_taken(jobs: int, drawn: list[tuple[list[float], float, float]]) -> None:
    """The first is what there is. Offers that one job would pay for by more than HARMLESS pay nothing. In the
    example one job gains 5 times, the other nothing, so it does not count; by its bound it would."""
    times = KnownTimes(jobs, drawn)
    offers = [Offer(arrangement(number), drawn[number][2]) for number in range(1, len(drawn))]
    chosen = best(arrangement(0), offers, cast(Forecast, times), ()).blocks[0]
    base_s = times.ends_s[0]
    pays = [
        0.0 if (ends_s > HARMLESS * base_s).any() else gain(base_s, ends_s) / factor
        for ends_s, (_, _, factor) in zip(times.ends_s, drawn, strict=True)
    ]
    pays[0] = 1.0
    assert pays[cast(int, chosen)] == pytest.approx(max(pays), rel=3 * SAME_TIME)


def test_only_what_promises_more_than_the_best_pays_is_simulated() -> None:
    """One offer ends in half of the time, by its bound, too; the bounds of ten others are above that, and the
    one of what there is says enough."""
    times = KnownTimes(1, [([10.0], 0.9, 1.0), *([([8.0], 0.8, 1.01)] * 10), ([4.5], 1.0, 1.05)])
    offers = [Offer(arrangement(number), 1.01) for number in range(1, 12)]
    assert cast(Any, best(arrangement(0), offers, cast(Forecast, times), ()).blocks) == [11]
    assert times.simulated == [11]


def test_behind_an_offer_that_ends_as_its_bound_says_no_equal_one_is_simulated() -> None:
    times = KnownTimes(1, [([10.0], 0.9, 1.0), *([([5.0], 1.0, 1.01)] * 10)])
    offers = [Offer(arrangement(number), 1.01) for number in range(1, 11)]
    assert cast(Any, best(arrangement(0), offers, cast(Forecast, times), ()).blocks) == [1]
    assert times.simulated == [1]


def test_of_equal_offers_the_first_is_taken() -> None:
    times = KnownTimes(1, [([10.0], 0.5, 1.0), *([([5.0], 0.9, 1.01)] * 3)])
    offers = [Offer(arrangement(number), 1.01) for number in range(1, 4)]
    assert cast(Any, best(arrangement(0), offers, cast(Forecast, times), ()).blocks) == [1]


def test_nothing_is_simulated_without_offers() -> None:
    times = KnownTimes(1, [([10.0], 0.5, 1.0)])
    assert cast(Any, best(arrangement(0), [], cast(Forecast, times), ()).blocks) == [0]
    assert times.simulated == []
