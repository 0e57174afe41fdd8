"""What the lab asks the controller to see for it: rounds of port counters, and trains by their ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from railweave.controllers.frames import FIRST, NUMBERS

PORT_COLUMNS = 6
"""dpid, port, received bytes, sent bytes, sent packets, age of the port in ms."""


@dataclass
class _Round:
    number: int
    waiting: dict[int, int]
    rows: list[Sequence[int]] = field(default_factory=list)


class PortRounds:
    """Gathers the answers of all switches to one poll; `report("ports", number=, rows=)` once none is missing.

    `rows`: (n, 6) int64 of PORT_COLUMNS. One round at a time: a new one takes the place of one not yet answered.
    """

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report
        self._round: _Round | None = None

    def begin(self, number: int, asked: Mapping[int, int]) -> None:
        """`asked`: the request's number, by datapath id."""
        self._round = _Round(number, dict(asked))
        self._end_if_whole()

    def answer(self, dpid: int, request: int, rows: Iterable[Sequence[int]], more: bool) -> None:
        """A part of a switch's answer, the last unless `more` follow."""
        if self._round is None or self._round.waiting.get(dpid) != request:
            return
        self._round.rows += rows
        if not more:
            del self._round.waiting[dpid]
            self._end_if_whole()

    def gone(self, dpid: int) -> None:
        """The switch will not answer."""
        if self._round is not None and self._round.waiting.pop(dpid, None) is not None:
            self._end_if_whole()

    def _end_if_whole(self) -> None:
        if self._round is not None and not self._round.waiting:
            rows = np.array(self._round.rows, np.int64).reshape(-1, PORT_COLUMNS)
            number, self._round = self._round.number, None
            self._report("ports", number=number, rows=rows)


class TimedTrains:
    """When trains were sent and their ends came back; `report("timed", number=, sent_s=, first_s=, last_s=)` then.

    A train that never comes back is forgotten when its number is used again.
    """

    def __init__(self, report: Callable[..., None]) -> None:
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
            times = {"sent_s": self._sent.pop(number), "first_s": self._first.pop(number), "last_s": now_s}
            self._report("timed", number=number, **times)
