"""Samples for those who watch: few enough that they cost a run nothing."""

import time
from collections.abc import Callable
from math import inf

import numpy as np

from railweave.framework.model import HealthSnapshot, Measurement
from railweave.framework.model.events import RunEvent, Sampled

EVERY_S = 0.25
"""Wall-clock seconds between two samples; a page is to show a fault within one."""


class LiveSamples:
    """Sums measurements up into events for terminals and pages. `wall_s`: the wall clock, because the clock
    of an engine that computes may be far ahead of it."""

    def __init__(
        self, n_links: int, emit: Callable[[RunEvent], None], wall_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._emit, self._wall_s = emit, wall_s
        self._sums, self._since_s, self._next_s = np.zeros((4, n_links)), 0.0, -inf

    def add(self, measurement: Measurement, health: HealthSnapshot) -> None:
        """Take in a measurement and the scores in force after it."""
        paused_s = measurement.paused_s
        new = measurement.sent_bytes, measurement.sent_packets, measurement.lost, paused_s
        for sum_, values in zip(self._sums, new, strict=True):
            sum_ += values if len(values) else 0
        if (now := self._wall_s()) < self._next_s:
            return
        sent_bytes, sent_packets, lost, paused = self._sums.copy()
        self._emit(
            Sampled(
                measurement.t_s,
                measurement.t_s - self._since_s,
                measurement.queue_bytes,
                sent_bytes,
                sent_packets,
                lost,
                health.link_score,
                health.element_score,
                paused if len(paused_s) else paused_s,
            )
        )
        self._sums[:], self._since_s, self._next_s = 0, measurement.t_s, now + EVERY_S
