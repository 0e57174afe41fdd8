"""What the times of trains say, on links whose rate and delay are known."""

from __future__ import annotations

import numpy as np
import pytest

from railweave.framework.lab.measuring.train_timing import (
    CALIBRATION,
    KEPT,
    LOST_S,
    SHARE,
    SOON_S,
    TrainTiming,
)
from tests.framework.lab.scenes import rail_fabric

DOMAIN_BPS, RAIL_BPS = 36e6, 4e6
EMULATOR_S = 0.004
SAMPLE_S = 0.025


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

    def turn(self) -> tuple[float, float] | None:
        """The next train goes and comes: (service rate over capacity, delay beyond the least), or None."""
        while not (going := self.times.departures(self.now, self.up)):
            self.now += SAMPLE_S
        (train,) = going
        self.sent.append(self.now)
        capacity = float(self.fabric.capacity_bps[self.link])
        took = (train.packets - 1) * self.times.packet_bytes * 8 / (capacity * self.share)
        late = self._random.exponential(self._jitter_s, 2) if self._jitter_s else (0.0, 0.0)
        first = self.now + EMULATOR_S + self.waiting_s + late[0]
        last = self.now + EMULATOR_S + self.waiting_s + took + late[1]
        found = self.times.arrived(train.timed, self.now, first, last)
        self.now = last
        return None if found is None else (found[1] / capacity, found[2])

    def calibrated(self) -> Link:
        for _ in range(CALIBRATION - 1):
            assert self.turn() is None
        return self


@pytest.mark.parametrize("rail", [True, False])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.2])
def test_the_rate_is_exact_without_jitter(rail: bool, share: float) -> None:
    link = Link(rail)
    link.share = share
    found = link.calibrated().turn()
    assert found is not None
    assert found[0] == pytest.approx(share)


def test_the_emulator_s_constant_delay_is_no_delay() -> None:
    link = Link().calibrated()
    found = link.turn()
    assert found is not None
    assert found[1] == pytest.approx(0.0)


def test_what_waits_is_delay_times_rate() -> None:
    link = Link().calibrated()
    link.waiting_s = 0.2
    found = link.turn()
    assert found is not None
    assert found[1] == pytest.approx(0.2)
    assert link.times.queue_bytes[link.link] == pytest.approx(0.2 * RAIL_BPS / 8)


def test_jitter_of_milliseconds_leaves_a_slow_link_within_a_tenth() -> None:
    link = Link(jitter_s=0.004).calibrated()
    link.share = 0.2
    found = [one[0] / 0.2 for one in (link.turn() for _ in range(100)) if one is not None]
    assert len(found) > 80
    assert np.percentile(np.abs(np.array(found) - 1), 90) < 0.1


def test_jitter_never_lets_a_healthy_rail_link_seem_slow() -> None:
    link = Link(jitter_s=0.004).calibrated()
    assert all(one[0] > 0.85 for one in (link.turn() for _ in range(200)) if one is not None)


def test_a_link_that_became_slow_is_asked_again_soon() -> None:
    link = Link().calibrated()
    link.turn()
    link.share = 0.2
    began = link.now
    found = [link.turn() for _ in range(KEPT)]
    assert found[-1] is not None
    assert found[-1][0] == pytest.approx(0.2)
    healthy_s = int(link.times.packets[link.link] - 1) * link.times.packet_bytes * 8 / RAIL_BPS
    took = KEPT * (healthy_s / 0.2 + SOON_S + 2 * SAMPLE_S)
    assert link.now - began < healthy_s / SHARE + took  # one period, and the trains themselves


def test_a_link_that_recovered_is_believed_with_one_train() -> None:
    link = Link().calibrated()
    link.share = 0.2
    for _ in range(5):
        link.turn()
    link.share = 1.0
    found = link.turn()
    assert found is not None
    assert found[0] == pytest.approx(1.0)


def test_trains_take_their_share_of_a_link_and_no_more() -> None:
    link = Link().calibrated()
    link.sent.clear()
    for _ in range(30):
        link.turn()
    train_s = int(link.times.packets[link.link]) * link.times.packet_bytes * 8 / RAIL_BPS
    assert 29 * train_s / (link.sent[-1] - link.sent[0]) <= 1.5 * SHARE


def test_one_train_at_a_time_and_a_lost_one_is_given_up() -> None:
    link = Link()
    while not (going := link.times.departures(link.now, link.up)):
        link.now += SAMPLE_S
    (train,) = going
    assert link.times.departures(link.now + LOST_S, link.up) == []
    assert link.times.departures(link.now + LOST_S + 0.1, link.up) != []
    assert link.times.arrived(train.timed, 0.0, 1.0, 2.0) is None


def test_links_without_carrier_get_no_train() -> None:
    link = Link()
    nothing = np.zeros(link.fabric.n_links, bool)
    assert link.times.departures(100.0, nothing) == []


def test_every_link_has_its_turn() -> None:
    link = Link()
    everything = np.ones(link.fabric.n_links, bool)
    seen = set()
    for sample in range(200):
        for train in link.times.departures(sample * SAMPLE_S, everything):
            seen.add((train.switch, train.port))
            link.times.arrived(train.timed, 0.0, 0.01, 0.07)
    fabric = link.fabric
    assert seen == set(zip(fabric.link_src.tolist(), fabric.link_port.tolist(), strict=True))
