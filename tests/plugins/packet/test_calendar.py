"""The calendar of events against Python's heap."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from railweave.plugins.packet.calendar import TIMER, pop, push, turn
from railweave.plugins.packet.layout import DAYS, SHIFT, TODAY
from railweave.plugins.packet.room import grown
from tests.plugins.packet.cases import Case, Message, between, three_switches


@pytest.mark.parametrize("seed", range(8))
def test_events_come_in_the_order_of_time_and_of_what_they_are(seed: int) -> None:
    """Pushes and pops in a drawn order; times of today, of the calendar and beyond it, many of them equal."""
    rng = np.random.default_rng(seed)
    fabric, paths = three_switches(0.0)
    s = Case(fabric, between(fabric, {(0, 2): [paths[0]]}), [Message(0, 2, 1)]).simulation()[0].s
    day = 1 << int(s.globals[SHIFT])
    spans = (1, day, 40 * day, DAYS * day, 3 * DAYS * day)
    heap, now = list[tuple[int, int]](), 0
    pushes, turns = 0, 0
    while pushes < 2000 or heap:
        if heap and (pushes >= 2000 or rng.random() < (0.2, 0.6)[pushes // 300 % 2]):
            turns += not s.globals[TODAY]
            assert s.globals[TODAY] or turn(s, 1 << 60)
            first = s.events[0]["time"], s.events[0]["what"]
            pop(s)
            assert first == heapq.heappop(heap)
            now = int(first[0])
            continue
        s = grown(s)
        event = now + int(rng.integers(spans[rng.integers(len(spans))])), TIMER << 60 | int(rng.integers(9))
        push(s, *event)
        heapq.heappush(heap, event)
        pushes += 1
    assert turns > 50


def test_no_day_begins_whose_events_are_not_due() -> None:
    """What is pushed while the next event lies far ahead finds its place before it."""
    fabric, paths = three_switches(0.0)
    s = Case(fabric, between(fabric, {(0, 2): [paths[0]]}), [Message(0, 2, 1)]).simulation()[0].s
    day = 1 << int(s.globals[SHIFT])
    for at in (5 * day, 2 * DAYS * day):
        push(s, at, TIMER << 60)
        assert not turn(s, at - day)
        push(s, at - 2 * day, TIMER << 60)
        for expected in (at - 2 * day, at):
            assert turn(s, at) and s.events[0]["time"] == expected
            pop(s)
