"""Links that go down and come back: which are expected back, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railweave.framework.health.options import HealthOptions
from railweave.framework.health.outages import Outages
from railweave.framework.health.outlook import Outlook
from railweave.framework.health.publishing import aggregate
from railweave.framework.model import Fabric, HealthSnapshot

SCALE = 1e-3


class Course:
    """Links that go down together, seen every 25 ms."""

    def __init__(self, fabric: Fabric, links: tuple[int, ...] = (5,)) -> None:
        self.fabric, self.links = fabric, links
        self.outages, self.now_s, self.version = Outages(fabric, HealthOptions(), SCALE), 0.0, 0

    def stay(self, seconds: float, *down: int) -> Outlook:
        self.version += 1
        healthy = HealthSnapshot.healthy(self.fabric, version=self.version, margin=1.25)
        score, is_down = healthy.link_score.copy(), healthy.down.copy()
        score[list(down)], is_down[list(down)] = 0.0, True
        elements = aggregate(self.fabric, score, "mean")
        self.seen = Outlook.steady(replace(healthy, link_score=score, down=is_down, element_score=elements))
        for _ in range(round(seconds / 0.025)):
            self.now_s += 0.025
            outlook = self.outages.outlook(self.seen, self.now_s)
        return outlook


def test_a_first_outage_says_nothing_of_its_end(fabric: Fabric) -> None:
    course = Course(fabric)
    for seconds, down in ((5.0, ()), (2.0, (5,)), (4.0, ())):
        assert course.stay(seconds, *down) is course.seen
        assert not course.outages.waiting


def test_from_the_second_outage_on_a_link_is_expected_back(fabric: Fabric) -> None:
    """After 0.5 s and then 1 s: the latest counts half, so 0.75 s, declared in thousandths."""
    course = Course(fabric)
    course.stay(1, 5), course.stay(2)
    course.stay(0.5, 5), course.stay(2)
    outlook = course.stay(0.5, 5)
    outage = outlook.outage
    assert outage is not None and outage.otherwise is course.seen and course.outages.waiting
    assert outage.lasts_s == pytest.approx(0.75 * SCALE) and outage.most_s == pytest.approx(1.5 * SCALE)
    for health in (outlook.health, outlook.prospects[-1][1]):
        assert not health.down.any() and (health.link_score == 1).all() and (health.element_score == 1).all()
    assert course.stay(1) is course.seen


def test_a_link_that_stays_down_for_twice_as_long_is_expected_no_more(fabric: Fabric) -> None:
    course = Course(fabric)
    course.stay(0.5, 5), course.stay(2)
    assert course.stay(0.95, 5).outage is not None
    later = [course.outages.outlook(course.seen, course.now_s + after_s) for after_s in (0.04, 0.1)]
    assert later[0].outage is not None and later[1] is course.seen


def test_nothing_new_is_the_same_object(fabric: Fabric) -> None:
    """By which the health loop knows that no route is to be asked for."""
    course = Course(fabric)
    course.stay(0.5, 5), course.stay(2)
    outlook = course.stay(0.1, 5)
    assert course.outages.outlook(course.seen, course.now_s + 0.025) is outlook


def test_what_was_never_seen_to_come_back_stays_down(fabric: Fabric) -> None:
    """Of two links that are down, one was before."""
    course = Course(fabric)
    course.stay(0.5, 5), course.stay(2)
    outlook = course.stay(0.25, 5, 8)
    assert outlook.outage is not None
    assert np.flatnonzero(outlook.health.down).tolist() == [8]
    assert np.flatnonzero(outlook.outage.otherwise.health.down).tolist() == [5, 8]
    element = fabric.link_element[8]
    links = fabric.element_links(element)
    assert outlook.health.element_score[element] == pytest.approx(1 - 1 / len(links))
