"""What was reported degraded against what was, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railweave.framework.analysis.assumed_health import assumed_health
from railweave.framework.experiment.faults import parse, resolve
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.events import RoutesChanged
from railweave.framework.parameters import resolve as parsed
from railweave.framework.results.detection import Judged, accuracy, response, truth_at
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
