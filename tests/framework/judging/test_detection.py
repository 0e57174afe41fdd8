"""What was reported degraded against what was, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.analysis.assumed_health import assumed_health
from railweave.framework.experiment.faults import parse, resolve
from railweave.framework.judging.detection import (
    Judged,
    accuracy,
    allowance_s,
    asked_below,
    published_s,
    response,
    truth_at,
)
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.events import RoutesChanged
from railweave.framework.parameters import resolve as parsed
from railweave.topologies.torus import Torus


def test_a_rail_at_a_fifth_is_degraded_and_its_domains_are_not(fabric: Fabric) -> None:
    judged = Judged(fabric, 1.25)
    health = assumed_health(fabric, faults=[resolve(parse("at=1s degrade rail:1 to=20%"), fabric)])
    degraded = judged.ids[judged.degraded(judged.of(health.link_score, health.element_score))]
    assert [fabric.node_name(int(node)) for node in degraded] == ["r1"]


def test_all_slow_alike_is_not_degraded(fabric: Fabric) -> None:
    judged = Judged(fabric, 1.25)
    busy = replace(HealthSnapshot.healthy(fabric), element_score=np.full(fabric.n_nodes, 0.4))
    assert not judged.degraded(judged.of(busy.link_score, busy.element_score)).any()


def test_links_are_judged_where_no_switch_has_a_score() -> None:
    torus = Torus().build(parsed("torus", Torus.parameters, {"shape": "4x4"}))
    judged = Judged(torus, 1.25)
    health = assumed_health(torus, faults=[resolve(parse(f"at=1s down link:{torus.link_name(3)}"), torus)])
    assert judged.by_links and np.flatnonzero(
        judged.degraded(judged.of(health.link_score, health.element_score))
    ).tolist() == [2, 3]


def test_precision_recall_and_delay_by_hand() -> None:
    times = np.arange(6.0)
    truth = truth_at(times, [(2.0, np.array([True, False])), (5.0, np.array([False, False]))], 2)
    reported = np.array([[0, 0], [0, 1], [0, 0], [1, 0], [1, 0], [1, 0]], bool)
    counted = accuracy(reported, truth)  # reported 4, true 3 (t = 2, 3, 4), both 2
    assert (counted.precision, counted.recall) == (pytest.approx(0.5), pytest.approx(2 / 3))
    assert accuracy(np.zeros((2, 2), bool), np.zeros((2, 2), bool)).precision is None


@pytest.mark.parametrize(
    ("reroutes", "detected_s", "recovered_s"),
    [
        ((), 3.0, None),  # reported at 3 s, of a fault at 0.5 s
        (((1.0, "rail:2 1.00 -> 0.90"), (4.0, "rail:1 0.90 -> 0.20")), 3.0, 4.0),
        (((1.0, "rail:1 1.00 -> 0.80"),), 1.0, 1.0),
        (((1.0, "domain:0 1.00 -> 0.90, rail:1 1.00 -> 0.80"),), 1.0, 1.0),
        (((0.0, "rail:1 1.00 -> 0.80"),), 3.0, None),
    ],
)
def test_an_answer_follows_what_was_seen(
    fabric: Fabric, reroutes: tuple[tuple[float, str], ...], detected_s: float, recovered_s: float | None
) -> None:
    judged, times = Judged(fabric, 1.25), np.arange(6.0)
    healthy = np.zeros(len(judged.ids), bool)
    degraded = judged.ids == fabric.node_ids["r1"]
    reported = np.tile(healthy, (6, 1))
    reported[3:] = degraded
    events = [RoutesChanged(t_s, 1, 12, why) for t_s, why in reroutes]
    seen = response(judged, times, reported, healthy, degraded, events, 0.5)
    assert (seen.visible, seen.detected_s) == (True, detected_s - 0.5)
    assert seen.recovered_s == (None if recovered_s is None else recovered_s - 0.5)
    unseen = response(judged, times, np.tile(healthy, (6, 1)), healthy, degraded, [], 0.5)
    assert (unseen.visible, unseen.detected_s, unseen.recovered_s) == (True, None, None)
    assert not response(judged, times, reported, healthy, healthy, events, 0.5).visible


def test_half_the_way_to_the_truth_has_to_be_published() -> None:
    """The levels of the issue: 0.5 at 20 %, 0.75 at 50 %."""
    assert asked_below(np.array([0.2, 0.5, 0.8, 0.0])) == pytest.approx([0.5, 0.75, 0.9, 0.3])


@pytest.mark.parametrize(
    ("scores", "before", "after", "seconds"),
    [
        ([1.0, 0.75, 0.5, 0.45, 0.2], 1.0, 0.2, 2.5),  # 0.5 itself is not below 0.5
        ([1.0, 0.8, 0.7, 0.7, 0.7], 1.0, 0.5, 1.5),
        ([1.0, 1.0, 0.5, 0.5, 0.5], 1.0, 0.2, None),
        ([0.2, 0.2, 0.8, 0.9, 1.0], 0.2, 1.0, 2.5),  # repaired: 0.9 is near enough
        ([0.2, 0.2, 0.2, 0.2, 0.2], 1.0, 1.0, None),  # a fault that changes no score
    ],
)
def test_when_a_score_was_published_by_hand(
    scores: list[float], before: float, after: float, seconds: float | None
) -> None:
    """Samples at 0..4 s of two elements, a fault of the first at 0.5 s."""
    published = np.array([[score, 1.0] for score in scores], np.float32)
    truth = np.array([before, 1.0]), np.array([after, 1.0])
    assert published_s(np.arange(5.0), published, *truth, 0.5) == seconds


def test_the_allowance_by_hand() -> None:
    """Samples each second, a fault at 0.5 s: the interval until 1 s is partly before it. 24 packets of 100
    bytes have waited at 3 s, 2.5 s after the fault, and 0.25 s more are allowed."""
    times, waited = np.arange(6.0), np.array([9000.0, 9000.0, 1200.0, 1200.0, 100.0, 0.0], np.float32)
    assert allowance_s(times, waited, 100, 0.5, np.inf) == 2.75
    assert allowance_s(times, waited, 100.001, 0.5, np.inf) == 3.75
    assert allowance_s(times, waited, 100, 0.5, 3.0) is None  # the next fault came first
    assert allowance_s(times, waited, 105, 0.5, np.inf) is None
    assert allowance_s(times, waited, 100, 9.0, np.inf) is None


@given(
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=8), st.floats(0, 1), st.floats(0, 1),
    st.floats(0, 8),
)  # fmt: skip
def test_nothing_is_published_before_its_fault(
    scores: list[float], before: float, after: float, fault_s: float
) -> None:
    published = np.array(scores, np.float32)[:, None]
    truth = np.array([before]), np.array([after])
    seconds = published_s(np.arange(float(len(scores))), published, *truth, fault_s)
    assert seconds is None or 0 <= seconds <= len(scores)
    if before == after:
        assert seconds is None


@given(
    st.lists(st.booleans(), min_size=1, max_size=8),
    st.lists(st.tuples(st.floats(0, 9), st.sampled_from(["rail:1 1.00 -> 0.80", "rail:2 1.00 -> 0.90"]))),
    st.floats(0, 9),
)
def test_no_answer_comes_before_what_it_answers_was_seen(
    fabric: Fabric, seen: list[bool], reroutes: list[tuple[float, str]], fault_s: float
) -> None:
    judged = Judged(fabric, 1.25)
    healthy, degraded = np.zeros(len(judged.ids), bool), judged.ids == fabric.node_ids["r1"]
    reported = np.array([degraded & one for one in seen])
    events = [RoutesChanged(t_s, 1, 12, why) for t_s, why in sorted(reroutes)]
    times = np.arange(float(len(seen)))
    found = response(judged, times, reported, healthy, degraded, events, fault_s)
    if found.detected_s is None:
        assert found.recovered_s is None
    else:
        assert found.detected_s >= 0
        assert found.recovered_s is None or found.recovered_s >= found.detected_s
