"""Collects what the lab requests: the port counters of all switches, and the times of measuring trains."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from railweave.controllers.frames import FIRST, NUMBERS
from railweave.framework.model.events import Event, PortCounts, TrainTimed

PORT_COLUMNS = 6
"""dpid, port, received bytes, sent bytes, sent packets, age of the port in ms."""


class PortRounds:
    """Collects the answers of all switches to one poll, then calls `report(PortCounts(...))`.

    `rows`: (n, 6) int64 of PORT_COLUMNS. A new round replaces one that is still incomplete.
    """

    def __init__(self, report: Callable[[Event], None]) -> None:
        self._report = report
        self._waiting: dict[int, int] = {}

    def begin(self, number: int, requests: Mapping[int, int]) -> None:
        """`requests`: the number of each switch's request, by datapath id."""
        self._number = number
        self._waiting = dict(requests)
        self._rows: list[Sequence[int]] = []
        self._report_if_complete()

    def answer(self, dpid: int, request: int, rows: Iterable[Sequence[int]], more: bool) -> None:
        """A part of a switch's answer, the last one unless `more` follow."""
        if self._waiting.get(dpid) == request:
            self._rows += rows
            if not more:
                self.gone(dpid)

    def gone(self, dpid: int) -> None:
        """The switch will not answer (any more)."""
        if self._waiting.pop(dpid, None) is not None:
            self._report_if_complete()

    def _report_if_complete(self) -> None:
        if not self._waiting:
            rows = np.array(self._rows, np.int64).reshape(-1, PORT_COLUMNS)
            self._report(PortCounts(self._number, rows))


class TimedTrains:
    """Notes when trains are sent and when their ends return, then calls `report(TrainTimed(...))`.

    A train that never returns is forgotten when its number is used again.
    """

    def __init__(self, report: Callable[[Event], None]) -> None:
        self._report = report
        self._sent: dict[int, float] = {}
        self._first: dict[int, float] = {}

    def sent(self, number: int, now_s: float) -> None:
        self._sent[number % NUMBERS] = now_s
        self._first.pop(number % NUMBERS, None)

    def arrived(self, number: int, mark: int, now_s: float) -> None:
        if number not in self._sent:
            return
        if mark == FIRST:
            self._first[number] = now_s
        elif number in self._first:
            sent_s, first_s = self._sent.pop(number), self._first.pop(number)
            self._report(TrainTimed(number, sent_s, first_s, now_s))
