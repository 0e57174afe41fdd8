"""Links that come and go: what is expected of them, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railweave.framework.health.options import HealthOptions
from railweave.framework.health.outlook import Outlook
from railweave.framework.health.publishing import aggregate
from railweave.framework.health.relapses import Relapses
from railweave.framework.model import Fabric, HealthSnapshot

SLOW = 0.2


def snapshot(fabric: Fabric, version: int, scores: dict[int, float]) -> HealthSnapshot:
    healthy = HealthSnapshot.healthy(fabric, version=version, margin=1.25)
    link = healthy.link_score.copy()
    for number, score in scores.items():
        link[number] = score
    return replace(healthy, link_score=link, element_score=aggregate(fabric, link, "mean"))


class Course:
    """A link that flaps as it is measured all the time, by samples of 25 ms."""

    def __init__(self, fabric: Fabric, links: tuple[int, ...] = (5,)) -> None:
        self.fabric, self.links = fabric, links
        self.relapses, self.now_s, self.version = Relapses(fabric, HealthOptions()), 0.0, 0
        self.outlook = Outlook.steady(snapshot(fabric, 0, {}))

    def stay(self, seconds: float, score: float) -> Outlook:
        """For so long at this score."""
        self.version += 1
        scores = {link: score for link in self.links if score < 1}
        health = self.health = snapshot(self.fabric, self.version, scores)
        for _ in range(round(seconds / 0.025)):
            self.now_s += 0.025
            measured_s = np.full(self.fabric.n_links, self.now_s)
            self.outlook = self.relapses.outlook(health, measured_s, self.now_s)
        return self.outlook

    @property
    def expected(self) -> float:
        return float(self.outlook.health.link_score[self.links[0]])


def test_a_first_fault_is_what_it_is(fabric: Fabric) -> None:
    course = Course(fabric)
    for seconds, score in ((5, 1.0), (2, SLOW), (4, 1.0)):
        outlook = course.stay(seconds, score)
        assert course.expected == score and len(outlook.prospects) == 1
        assert outlook.prospects[0][1] is outlook.health


@pytest.mark.parametrize("slow_s, well_s", [(0.3, 2.7), (1.5, 1.5), (2.4, 0.6)])
def test_from_the_second_onset_on_a_link_is_what_it_was_on_average(
    fabric: Fabric, slow_s: float, well_s: float
) -> None:
    """Slow for s of each s + w seconds: mean score (0.2 s + w) / (s + w), in both states, and both as
    prospects with these shares of the time; of its switch the mean of all links."""
    course = Course(fabric)
    course.stay(5, 1.0)
    course.stay(slow_s, SLOW)
    course.stay(well_s, 1.0)
    mean = (SLOW * slow_s + well_s) / (slow_s + well_s)
    for _ in range(3):
        for seconds, score in ((slow_s, SLOW), (well_s, 1.0)):
            outlook = course.stay(seconds, score)
            assert course.expected == pytest.approx(mean, abs=0.03)
            (bad, worse), (good, better) = outlook.prospects
            assert bad + good == pytest.approx(1) and bad == pytest.approx(
                slow_s / (slow_s + well_s), abs=0.03
            )
            assert worse.link_score[5] == SLOW and better.link_score[5] == 1
            element = fabric.link_element[5]
            own = fabric.element_links(element)
            score_of = (course.expected + len(own) - 1) / len(own)
            assert outlook.health.element_score[element] == pytest.approx(score_of)


def test_a_state_that_outlives_the_past_is_for_good(fabric: Fabric) -> None:
    course = Course(fabric)
    course.stay(5, 1.0)
    course.stay(0.5, SLOW)
    course.stay(2.5, 1.0)
    course.stay(0.9, SLOW)
    assert course.expected > 0.8
    course.stay(0.3, SLOW)  # twice 0.5 s are over
    assert course.expected == SLOW
    course.stay(20, 1.0)
    assert course.expected == 1


def test_nothing_new_is_the_same_object(fabric: Fabric) -> None:
    """By which the health loop knows that no route is to be asked for."""
    course = Course(fabric)
    course.stay(5, 1.0)
    course.stay(0.5, SLOW)
    course.stay(2.5, 1.0)
    outlook = course.stay(0.1, SLOW)
    measured_s = np.full(fabric.n_links, course.now_s)
    assert course.relapses.outlook(course.health, measured_s, course.now_s + 0.025) is outlook


def test_links_that_are_down_have_no_past(fabric: Fabric) -> None:
    relapses, healthy = Relapses(fabric, HealthOptions()), snapshot(fabric, 0, {})
    down = np.zeros(fabric.n_links, bool)
    down[5] = True
    cut = replace(snapshot(fabric, 1, {5: 0.0}), down=down)
    for turn in range(8):
        health = cut if turn % 2 else healthy
        outlook = relapses.outlook(health, np.full(fabric.n_links, float(turn)), float(turn))
        assert outlook.health is health


def test_what_nobody_saw_is_bounded_by_the_other_links_of_the_switch(fabric: Fabric) -> None:
    """Two links of a rail turn slow together. One is measured all the time and recovers after 0.5 s; the
    other, idle, is measured again after 4 s. Both are expected to be slow for about half a second."""
    rail = int(fabric.link_element[5])
    busy, idle = fabric.element_links(rail)[:2].tolist()
    relapses, seen_s = Relapses(fabric, HealthOptions()), np.full(fabric.n_links, 1.0)
    both, one = snapshot(fabric, 1, {busy: SLOW, idle: SLOW}), snapshot(fabric, 2, {idle: SLOW})
    unseen, healthy = snapshot(fabric, 0, {}), snapshot(fabric, 3, {})
    for now_s, health, measured_s in (
        (0.9, unseen, 0.9),
        (1.0, both, 1.0),
        (1.5, one, 1.0),
        (5.0, healthy, 5.0),
        (5.9, healthy, 5.9),
        (6.0, both, 6.0),
    ):
        seen_s[busy], seen_s[idle] = now_s, measured_s
        outlook = relapses.outlook(health, seen_s, now_s)
    scores = outlook.health.link_score
    assert scores[busy] > 0.8 and scores[idle] > 0.8


def test_links_that_are_fed_slowly_share_what_their_feeders_show(fabric: Fabric) -> None:
    """A rail is slow for 1.5 s of each 3 s. What feeds it is seen at once; what it feeds is seen by a train
    1.4 s later, 0.1 s before it recovers: half of the time is expected of all of them, not a thirtieth."""
    rail = int(fabric.link_element[5])
    feeder, fed = fabric.element_links(rail)[:2].tolist()
    relapses, measured_s = Relapses(fabric, HealthOptions()), np.zeros(fabric.n_links)
    states = [(1.5, {}), (1.4, {feeder: SLOW}), (0.1, {feeder: SLOW, fed: SLOW})]
    now_s = 0.0
    for turn in range(4):
        for number, (seconds, scores) in enumerate(states):
            health = snapshot(fabric, 3 * turn + number, scores)
            for _ in range(round(seconds / 0.025)):
                now_s += 0.025
                measured_s[:] = now_s
                outlook = relapses.outlook(health, measured_s, now_s)
    assert outlook.prospects[0][0] == pytest.approx(0.5, abs=0.05)
    assert outlook.health.link_score[[feeder, fed]] == pytest.approx([0.6, 0.6], abs=0.05)


def test_a_link_that_is_nearly_well_is_not_slow_any_more(fabric: Fabric) -> None:
    """At 0.2 for 0.5 s, then read as 0.9 for 2.5 s, as after a short train: still slow for a sixth of the
    time, where all of it would be for good."""
    course = Course(fabric)
    course.stay(5, 1.0)
    for _ in range(4):
        course.stay(0.5, SLOW)
        outlook = course.stay(2.5, 0.9)
    assert outlook.prospects[0][0] == pytest.approx(1 / 6, abs=0.03)
