"""The loads of links over the run's time."""

import numpy as np

from railweave.framework.model.arrays import Float
from railweave.framework.model.findings import LinkTrace

MOST_INSTANTS, MOST_VALUES = 10_000, 1 << 26
"""Intervals that are kept at most, and bytes of all links in them: 256 MB."""
SHORT = 1e-6
"""Share of an interval below which the rest at the end counts to the interval before."""


class TraceRecorder:
    """What every link sends in each interval. When there are as many as are kept, every two become one, and
    intervals are twice as long from then on."""

    def __init__(self, interval_s: float, n_links: int) -> None:
        self.interval_s = interval_s
        most = max(2, min(MOST_INSTANTS, MOST_VALUES // max(n_links, 1)) // 2 * 2)
        self._sent, self._whole = np.empty((most, n_links), np.float32), 0
        self._before_bytes = np.zeros(n_links)

    @property
    def next_s(self) -> float:
        """When the interval under way ends."""
        return (self._whole + 1) * self.interval_s

    def add(self, sent_bytes: Float) -> None:
        """Links have sent so much, (L,), up to `next_s`."""
        self._note(sent_bytes)
        self._whole += 1
        if self._whole == len(self._sent):
            self._whole //= 2
            self._sent[: self._whole] = self._sent[::2] + self._sent[1::2]
            self.interval_s *= 2

    def ended(self, now_s: float, sent_bytes: Float) -> LinkTrace:
        """All of it, at the end of the run."""
        n = self._whole
        t_s = np.arange(1.0, n + 1) * self.interval_s
        self._note(sent_bytes)
        if not n or now_s - t_s[-1] > SHORT * self.interval_s:
            return LinkTrace(np.append(t_s, now_s), self._sent[: n + 1])
        self._sent[n - 1] += self._sent[n]
        return LinkTrace(t_s, self._sent[:n])

    def _note(self, sent_bytes: Float) -> None:
        self._sent[self._whole] = sent_bytes - self._before_bytes
        self._before_bytes = sent_bytes
