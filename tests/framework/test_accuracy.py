"""What was called sick against what was, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railweave.framework.accuracy import Judged, accuracy, detection_s, truth_at
from railweave.framework.faults import parse, resolve
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.parameters import resolve as parsed
from railweave.framework.supposed_health import supposed
from railweave.topologies.torus import Torus


def test_a_rail_at_a_fifth_is_sick_and_its_domains_are_not(fabric: Fabric) -> None:
    judged = Judged(fabric, 1.25)
    health = supposed(fabric, faults=[resolve(parse("at=1s degrade rail:1 to=20%"), fabric)])
    sick = judged.ids[judged.sick(judged.of(health.link_score, health.element_score))]
    assert [fabric.node_name(int(node)) for node in sick] == ["r1"]


def test_all_slow_alike_is_not_sick(fabric: Fabric) -> None:
    judged = Judged(fabric, 1.25)
    busy = replace(HealthSnapshot.healthy(fabric), element_score=np.full(fabric.n_nodes, 0.4))
    assert not judged.sick(judged.of(busy.link_score, busy.element_score)).any()


def test_links_are_judged_where_no_switch_has_a_score() -> None:
    torus = Torus().build(parsed("torus", Torus.parameters, {"shape": "4x4"}))
    judged = Judged(torus, 1.25)
    health = supposed(torus, faults=[resolve(parse(f"at=1s down link:{torus.link_name(3)}"), torus)])
    assert judged.by_links and np.flatnonzero(
        judged.sick(judged.of(health.link_score, health.element_score))
    ).tolist() == [2, 3]


def test_precision_recall_and_delay_by_hand() -> None:
    times = np.arange(6.0)
    truth = truth_at(times, [(2.0, np.array([True, False])), (5.0, np.array([False, False]))], 2)
    called = np.array([[0, 0], [0, 1], [0, 0], [1, 0], [1, 0], [1, 0]], bool)
    found = accuracy(called, truth)  # called 4, true 3 (t = 2, 3, 4), both 2
    assert (found.precision, found.recall) == (pytest.approx(0.5), pytest.approx(2 / 3))
    healthy, sick = np.array([False, False]), np.array([True, False])
    assert detection_s(times, called, healthy, sick, 2.0) == 1.0
    assert detection_s(times, called, sick, healthy, 5.0) is None
    assert detection_s(times, called, healthy, healthy, 2.0) is None
    assert accuracy(np.zeros((2, 2), bool), np.zeros((2, 2), bool)).precision is None
