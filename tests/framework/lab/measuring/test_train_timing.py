"""What the times of trains say, on links whose rate and delay are known."""

from __future__ import annotations

import numpy as np
import pytest

from railweave.framework.lab.measuring.train_timing import (
    AT_ONCE,
    LOST_S,
    SHARE,
    SOON_S,
    TRAIN_S,
    TrainTiming,
)
from railweave.framework.lab.switching.controller_link import Train
from tests.framework.lab.scenes import rail_fabric

DOMAIN_BPS, RAIL_BPS = 36e6, 4e6
EMULATOR_S = 0.004
SAMPLE_S = 0.025
TRAINS = 3
"""Trains after which what they show is known: one may have been late."""


class Link:
    """Answers the trains of one link: `share` of its rate, `waiting_s` in its queue, jitter of a seeded
    generator."""

    def __init__(self, rail: bool = True, jitter_s: float = 0.0, seed: int = 1) -> None:
        self.fabric = rail_fabric(2, 2, DOMAIN_BPS, RAIL_BPS)
        self.times = TrainTiming(self.fabric)
        kind = self.fabric.kinds.index("r" if rail else "d")
        self.link = int(np.flatnonzero(self.fabric.link_kind == kind)[0])
        self.up = np.zeros(self.fabric.n_links, bool)
        self.up[self.link] = True
        self.share, self.waiting_s, self.now = 1.0, 0.0, 0.0
        self._jitter_s, self._random = jitter_s, np.random.default_rng(seed)
        self.sent: list[float] = []

    def depart(self) -> list[Train]:
        """The trains of the next sample."""
        self.now += SAMPLE_S
        return self.times.departures(self.now, self.up)

    def turn(self) -> tuple[float, float] | None:
        """The next train goes and comes: (service rate over capacity, delay beyond the least), or None."""
        while not (going := self.depart()):
            pass
        (train,) = going
        self.sent.append(self.now)
        capacity = float(self.fabric.capacity_bps[self.link])
        took = (train.packets - 1) * train.size_bytes * 8 / (capacity * self.share)
        late = self._random.exponential(self._jitter_s, 2) if self._jitter_s else (0.0, 0.0)
        first = self.now + EMULATOR_S + self.waiting_s + late[0]
        last = self.now + EMULATOR_S + self.waiting_s + took + late[1]
        found = self.times.arrived(train.timed, self.now, first, last)
        self.now = last
        return None if found is None else (found[1] / capacity, found[2])

    def figures(self, trains: int) -> list[tuple[float, float] | None]:
        return [self.turn() for _ in range(trains)]

    @property
    def rate(self) -> float | None:
        """What the next train says, over the capacity."""
        found = self.turn()
        return None if found is None else found[0]


@pytest.mark.parametrize("rail", [True, False])
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_a_slow_link_is_stated_once_a_second_train_says_so(rail: bool, share: float) -> None:
    link = Link(rail)
    link.share = share
    assert link.rate is None
    assert link.figures(TRAINS)[-1] == pytest.approx((share, 0.0), abs=0.1)


@pytest.mark.parametrize("rail", [True, False])
def test_a_healthy_link_serves_its_rate_from_the_first_train_on(rail: bool) -> None:
    assert Link(rail).rate == pytest.approx(1.0)


def test_the_emulator_s_constant_delay_is_no_delay() -> None:
    link = Link()
    assert [found and found[1] for found in link.figures(2)] == pytest.approx([0.0, 0.0])


def test_what_waits_is_delay_times_rate() -> None:
    link = Link()
    link.turn()
    link.waiting_s = 0.2
    found = link.turn()
    assert found is not None
    assert found[1] == pytest.approx(0.2)
    assert link.times.queue_bytes[link.link] == pytest.approx(0.2 * RAIL_BPS / 8)


@pytest.mark.parametrize(("share", "within"), [(0.2, 0.05), (0.5, 0.1)])
def test_jitter_of_milliseconds_leaves_the_score_of_a_slow_link_within_a_tenth(
    share: float, within: float
) -> None:
    link = Link(jitter_s=0.008)
    link.share = share
    rates = [found[0] for found in link.figures(200) if found is not None]
    assert len(rates) > 150
    assert np.percentile(np.abs(np.array(rates) - share), 95) < within


@pytest.mark.parametrize("rail", [True, False])
def test_jitter_never_lets_a_healthy_link_seem_slow(rail: bool) -> None:
    link = Link(rail, jitter_s=0.006)
    assert all(found[0] == pytest.approx(1.0) for found in link.figures(1000) if found is not None)


def test_one_late_packet_does_not_let_a_slow_link_seem_healthy() -> None:
    link = Link()
    link.share = 0.2
    link.figures(TRAINS)
    (train,) = next(going for going in iter(link.depart, None) if going)
    link.times.arrived(train.timed, link.now, link.now + 1.0, link.now + 1.001)
    assert link.rate == pytest.approx(0.2, rel=0.1)


def test_a_link_that_became_slow_gets_the_next_trains_soon() -> None:
    link = Link()
    link.turn()
    link.share, began = 0.2, link.now
    while link.rate != pytest.approx(0.2, rel=0.1):
        pass
    slow_s = TRAIN_S / 0.2 + 2 * SOON_S + SAMPLE_S
    assert link.now - began < link.times.turn_s + TRAINS * slow_s


def test_a_link_that_recovered_is_believed_with_two_trains() -> None:
    link = Link()
    link.share = 0.2
    link.figures(TRAINS)
    link.share = 1.0
    link.turn()
    began = link.now
    assert link.rate == pytest.approx(1.0, abs=0.2)
    assert link.now - began < 2 * SOON_S + TRAIN_S + SAMPLE_S


def test_trains_take_their_share_of_the_time_and_no_more() -> None:
    """All links together, because a synchronous collective waits for each of them."""
    fabric = rail_fabric(4, 4, DOMAIN_BPS, RAIL_BPS)
    times, up, busy_s, end = TrainTiming(fabric), np.ones(fabric.n_links, bool), 0.0, 0.0
    for sample in range(2400):
        now = sample * SAMPLE_S
        for train in times.departures(now, up):
            link = int(
                np.flatnonzero((fabric.link_src == train.switch) & (fabric.link_port == train.port))[0]
            )
            size_bits = train.size_bytes * 8 / fabric.capacity_bps[link]
            first, last = now + EMULATOR_S, now + EMULATOR_S + (train.packets - 1) * size_bits
            busy_s += max(0.0, now + train.packets * size_bits - max(end, now))
            end = max(end, now + train.packets * size_bits)
            assert times.arrived(train.timed, now, first, last) is not None
    assert 0.5 * SHARE < busy_s / (2400 * SAMPLE_S) < 1.1 * SHARE


def test_large_fabrics_are_measured_in_several_groups() -> None:
    fabric = rail_fabric(8, 8, DOMAIN_BPS, RAIL_BPS)
    times, up, begun = TrainTiming(fabric), np.ones(fabric.n_links, bool), dict[int, int]()
    for sample in range(int(times.turn_s / SAMPLE_S)):
        for train in times.departures(sample * SAMPLE_S, up):
            second = int(sample * SAMPLE_S)
            begun[second] = begun.get(second, 0) + 1
            link = np.flatnonzero((fabric.link_src == train.switch) & (fabric.link_port == train.port))[0]
            took_s = (train.packets - 1) * train.size_bytes * 8 / fabric.capacity_bps[link]
            times.arrived(train.timed, 0.0, EMULATOR_S, EMULATOR_S + took_s)
    assert sum(begun.values()) == fabric.n_links
    assert max(begun.values()) == AT_ONCE


def test_one_train_at_a_time_and_a_lost_one_is_given_up() -> None:
    link = Link()
    while not (going := link.depart()):
        pass
    (train,) = going
    assert link.times.departures(link.now + LOST_S, link.up) == []
    assert link.times.departures(link.now + LOST_S + 0.1, link.up) != []
    assert link.times.arrived(train.timed, 0.0, 1.0, 2.0) is None


def test_links_without_carrier_get_no_train() -> None:
    link = Link()
    nothing = np.zeros(link.fabric.n_links, bool)
    assert link.times.departures(100.0, nothing) == []
