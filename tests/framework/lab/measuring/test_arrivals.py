"""Lost packets from what was sent and what arrived, against a link of which every packet is known."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.lab.measuring.arrivals import LossMeter
from railweave.framework.model.arrays import Bool, Float


class Link:
    """One link; `arrived` since the last reading, unknown while `blind`."""

    def __init__(self) -> None:
        self.sent = self.arrived = self.lost = 0
        self.blind = False

    def carry(self, packets: int, lost: int) -> None:
        self.sent += packets
        self.lost += lost
        self.arrived += packets - lost

    def read(self) -> tuple[Float, Bool]:
        arrived, self.arrived = self.arrived, 0
        return np.array([float(arrived)]), np.array([not self.blind])


PACKETS = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: (max(pair), min(pair)))


@given(st.lists(st.tuples(PACKETS, PACKETS), max_size=20))
def test_packets_that_arrive_between_the_two_readings_are_never_taken_for_lost(
    steps: list[tuple[tuple[int, int], tuple[int, int]]],
) -> None:
    link = Link()
    meter = LossMeter(link, np.zeros(1), 0.0)
    for before, between in steps:
        link.carry(*before)
        sent = np.array([float(link.sent)])
        link.carry(*between)
        known = meter.total[0]
        meter.count(sent)
        assert known <= meter.total[0] <= link.lost
    for _ in range(2):
        meter.count(np.array([float(link.sent)]))
    assert meter.total[0] == link.lost


@given(st.lists(st.tuples(PACKETS, st.integers(0, 50)), max_size=20))
def test_packets_that_arrive_after_a_reading_now_and_then_are_never_taken_for_lost(
    steps: list[tuple[tuple[int, int], int]],
) -> None:
    """`late`: of those that arrive, which the counter of arrivals has after its reading only; every other
    reading has none."""
    link = Link()
    meter = LossMeter(link, np.zeros(1), 0.0)
    for (sent, lost), late in steps:
        link.carry(sent, lost)
        late = min(late, sent - lost)
        link.arrived -= late
        meter.count(np.array([float(link.sent)]))
        link.arrived += late
        meter.count(np.array([float(link.sent)]))
        assert meter.total[0] <= link.lost and meter.counted[0] <= link.sent
    for _ in range(2):
        meter.count(np.array([float(link.sent)]))
    assert (meter.total[0], meter.counted[0]) == (link.lost, link.sent)


def test_what_happens_while_a_switch_is_down_is_unknown() -> None:
    link = Link()
    meter = LossMeter(link, np.zeros(1), 0.0)
    link.carry(100, 10)
    meter.count(np.array([100.0]))
    link.blind = True
    link.carry(100, 100)
    meter.count(np.array([200.0]))
    link.blind = False
    link.carry(100, 20)
    for _ in range(2):
        meter.count(np.array([300.0]))
    assert meter.total[0] == 30
