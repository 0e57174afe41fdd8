"""Best-fit lookups in the sorted scores, against a plain scan; a snapshot in another order is noticed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import HealthError
from railweave.framework.health.options import HealthOptions
from railweave.framework.health.publishing import publish
from railweave.framework.model import HealthSnapshot
from railweave.framework.routing.rails.links import RailLinks
from railweave.framework.routing.rails.scores import Scores
from tests.fakes.small_fabrics import rail_only

TWENTIETHS = st.integers(0, 20).map(lambda n: n / 20)
SETUP_A = [0.4, 0.5, 0.7, 0.9, 0.64]
"""The source's rails 1..5, here 0..4."""


def snapshot(rails: list[float], margin: float = 1.0) -> HealthSnapshot:
    """Published from links that all score as their rail."""
    fabric = rail_only(2, len(rails))
    raw = np.ones(fabric.n_links)
    for rail, score in enumerate(rails):
        raw[fabric.element_links(fabric.node_ids[f"rail{rail}"])] = score
    healthy = HealthSnapshot.healthy(fabric, margin=margin)
    options = HealthOptions(step=0.01, margin=margin)
    news = publish(fabric, healthy, raw, np.ones(fabric.n_links, bool), t_s=1.0, options=options)
    return news or healthy


def best_fit(rails: list[float], m: float, margin: float = 1.0) -> int | None:
    fabric = rail_only(2, len(rails))
    scores = Scores.of(fabric, snapshot(rails, margin), RailLinks.of(fabric, "hscore"))
    at = int(scores.at_or_below(np.array([m]))[0])
    return int(scores.order[at]) if at < len(rails) else None


def test_best_fit_is_the_lowest_rail_above_not_the_best() -> None:
    """H-O2: m = 0.625 on setup A gives rail 5 (here 4) of 0.64, not rail 4 of 0.9."""
    assert snapshot(SETUP_A).rail_order.tolist() == [0, 1, 4, 2, 3]
    assert best_fit(SETUP_A, 0.625) == 4
    assert best_fit(SETUP_A, 0.9) is None and best_fit(SETUP_A, math.inf) is None
    assert best_fit(SETUP_A, 0.625, margin=1.1) == 2
    assert best_fit(SETUP_A, 0.625, margin=1.44) is None  # 0.625 x 1.44 = 0.9, and equal is not above


@settings(max_examples=60)
@given(st.lists(TWENTIETHS, min_size=1, max_size=30), st.floats(0, 2), st.floats(1, 2))
def test_best_fit_agrees_with_a_scan(rails: list[float], m: float, margin: float) -> None:
    above = [(h, rail) for rail, h in enumerate(rails) if h > m * margin + 1e-12]
    assert best_fit(rails, m, margin) == (min(above)[1] if above else None)


def test_float_noise_does_not_break_ties() -> None:
    m = 0.3 * 3  # 0.8999999999999999
    assert m < 0.9 and best_fit([0.9], m) is None
    assert best_fit([0.7, 0.7, 0.7], 0.5) == 0


def test_a_lost_rail_is_out_of_every_lookup_after_one_update() -> None:
    assert best_fit([0.4, 0.5, 0.7, 0.9, 0.0], 0.625) == 2


def test_scores_in_the_order_of_another_version_are_refused() -> None:
    fabric, old, new = rail_only(2, 5), snapshot(SETUP_A), snapshot([0.4, 0.5, 0.7, 0.9, 0.2])
    with pytest.raises(HealthError, match=r"rail order \[0, 1, 4, 2, 3\] of health version 1 is not by"):
        Scores.of(fabric, replace(new, rail_order=old.rail_order), RailLinks.of(fabric, "hscore"))
