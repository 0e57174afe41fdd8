"""The three sources of health on the same degraded, loaded fabric: what they say against what it was shaped
to."""

from __future__ import annotations

import json
from functools import cache
from statistics import median
from typing import Any

import pytest

from tests.framework.lab.inside import inside

pytestmark = pytest.mark.lab
SOURCES = ("auto", "counters", "probe")


@cache
def seen(measure: str, *, feedback: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = inside("degraded", json.dumps(measure), json.dumps(feedback))
    return found


@pytest.mark.quiet
@pytest.mark.parametrize("measure", SOURCES)
def test_the_service_rate_of_slow_links_is_right_to_a_tenth(measure: str) -> None:
    """While traffic stays there: what leaves a link early leaves bounds of its rate."""
    found = seen(measure, feedback=False)["ratios"]
    assert found, "no link of the slow rail was measured"
    for link, ratios in found.items():
        assert abs(median(ratios) - 1) <= 0.10, (link, ratios)


@pytest.mark.parametrize("measure", SOURCES)
def test_the_slow_rail_scores_low_and_is_left(measure: str) -> None:
    scores, taken = seen(measure)["scores"], seen(measure)["rails_taken"]
    assert scores[1] < 0.8 * min(scores[:1] + scores[2:])
    assert 1 not in taken


def test_all_choose_the_same_rail() -> None:
    assert len({tuple(seen(measure)["rails_taken"]) for measure in SOURCES}) == 1
