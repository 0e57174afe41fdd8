"""A clock that moves only when it is waited for, and the event loop that goes with it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any


class HandClock:
    """The run's clock (runs/parts.py). `after(delay_s,
    call)` lets something happen when the time has come."""

    def __init__(self) -> None:
        self._time, self._started = 0.0, False
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def start(self) -> None:
        if not self._started:
            self._due = [(when - self._time, number, call) for when, number, call in self._due]
            self._time, self._started = 0.0, True

    def now_s(self) -> float:
        return self._time if self._started else 0.0

    def after(self, delay_s: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self._time + delay_s, next(self._numbers), call))

    def wait(self, until_s: float) -> None:
        """Go to what happens next, or to `until_s` if that comes first."""
        if self._due and self._due[0][0] <= until_s:
            self._time, _, call = heapq.heappop(self._due)
            call()
        else:
            assert until_s < float("inf"), "waiting for ever: nothing will happen"
            self._time = max(self._time, until_s)

    def drive(self, done: Callable[[], bool]) -> None:
        """Let things happen until something is so."""
        while not done():
            assert self._due, "waiting for ever: nothing will happen"
            self._time, _, call = heapq.heappop(self._due)
            call()


class FakeWatch:
    """Where a link registers to hear its process: a fake calls `hear` itself."""

    def __init__(self) -> None:
        self.hear: Callable[[], None] = lambda: None

    def readable(self, source: Any, call: Callable[[], None]) -> None:
        self.hear = call
