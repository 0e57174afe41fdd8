"""What is gathered for the lab, without a switch."""

from __future__ import annotations

from typing import Any

from railweave.controllers.frames import FIRST, LAST
from railweave.controllers.reports import PortRounds, TimedTrains
from railweave.framework.model.events import Event, PortCounts, TrainTimed


class Heard(list[Any]):
    def __call__(self, event: Event) -> None:
        self.append(event)


def row(dpid: int, port: int) -> tuple[int, ...]:
    return (dpid, port, 10, 20, 2, 1000)


def test_a_round_is_told_when_every_switch_has_answered_whole() -> None:
    heard = Heard()
    rounds = PortRounds(heard)
    rounds.begin(7, {1: 100, 2: 200})
    rounds.answer(1, 100, [row(1, 1)], more=True)
    rounds.answer(2, 200, [row(2, 1)], more=False)
    assert heard == []
    rounds.answer(1, 100, [row(1, 2)], more=False)
    (counts,) = heard
    assert (type(counts), counts.number) == (PortCounts, 7)
    assert sorted(map(tuple, counts.rows.tolist())) == [row(1, 1), row(1, 2), row(2, 1)]


def test_answers_to_an_earlier_round_do_not_count() -> None:
    heard = Heard()
    rounds = PortRounds(heard)
    rounds.begin(1, {1: 100})
    rounds.begin(2, {1: 101})
    rounds.answer(1, 100, [row(1, 1)], more=False)
    assert heard == []
    rounds.answer(1, 101, [row(1, 2)], more=False)
    assert heard[0].rows.tolist() == [list(row(1, 2))]


def test_a_switch_that_is_gone_holds_nobody_up() -> None:
    heard = Heard()
    rounds = PortRounds(heard)
    rounds.begin(1, {1: 100, 2: 200})
    rounds.answer(1, 100, [row(1, 1)], more=False)
    rounds.gone(2)
    assert len(heard) == 1


def test_without_switches_a_round_is_empty() -> None:
    heard = Heard()
    PortRounds(heard).begin(1, {})
    assert heard[0].rows.shape == (0, 6)


def test_a_train_is_told_with_its_three_times() -> None:
    heard = Heard()
    trains = TimedTrains(heard)
    trains.sent(9, 1.0)
    trains.arrived(9, FIRST, 1.1)
    trains.arrived(9, LAST, 1.4)
    trains.arrived(9, LAST, 1.5)
    assert heard == [TrainTimed(9, 1.0, 1.1, 1.4)]


def test_a_train_that_lost_an_end_is_not_told() -> None:
    heard = Heard()
    trains = TimedTrains(heard)
    trains.sent(9, 1.0)
    trains.arrived(9, LAST, 1.4)
    trains.arrived(3, FIRST, 1.4)
    assert heard == []
    trains.sent(9, 2.0)  # the number comes round again
    trains.arrived(9, FIRST, 2.1)
    trains.arrived(9, LAST, 2.4)
    assert heard[0].sent_s == 2.0
