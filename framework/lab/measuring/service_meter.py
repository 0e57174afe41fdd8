"""Service rates from the gaps between departures: what was paid for in them over their time."""

import numpy as np

from railweave.framework.health.rate_filter import RateFilter
from railweave.framework.lab.measuring.departures import Departures
from railweave.framework.lab.measuring.queue_counters import QueueCounters
from railweave.framework.lab.switching.shaping import SHORT_BYTES
from railweave.framework.model.arrays import Float, Int32

USUAL = 8
"""Batches of samples over which the usual interval between two is averaged."""
CLOCK_S2 = 1e-10
"""Variance of any measured time, in square seconds: 10 us."""


class ServiceMeter:
    """The service rate of n links: `rates`; `rate_bps` (n,), NaN before any evidence; `all_waited_bytes`
    (n,), sent so far of packets that a sample had seen waiting.

    Bytes and time of gaps (departures.py) add up to a full packet at least, which is one observation. Samples
    come late by what they took beyond the usual, and by what was stolen: links may have stood still then.
    """

    def __init__(
        self, line_bps: Float, packet_bytes: float, first: QueueCounters, switch: Int32 | None = None
    ) -> None:
        n = len(line_bps)
        self.rates = RateFilter(line_bps, switch)
        self._departures = Departures(line_bps, packet_bytes, first)
        self._paid_bytes, self._busy_s, self._error_s2, self._late_s = np.zeros((4, n))
        """Of gaps since the last observation."""
        self._began_s = np.zeros(n)
        """When the first of those began, or earlier."""
        self._last_s, self._usual_s = first.t_s, np.nan
        self.all_waited_bytes = np.zeros(n)

    @property
    def rate_bps(self) -> Float:
        return np.where(np.isfinite(self.rates.stated_s), self.rates.rate_bps, np.nan)

    def add(self, samples: QueueCounters, stolen_s: float = 0.0) -> None:
        """Samples (m, n) after those before: when each link was read, and its counters then. `stolen_s`: for
        how long no link may have been served meanwhile, as a processor was taken from this machine."""
        before_s, self._last_s = self._last_s, samples.t_s[-1]
        late_s = self._late(np.diff(np.concatenate((before_s[None], samples.t_s)).max(axis=1)))
        late_s[-1] += stolen_s
        every_late_s = np.broadcast_to(late_s[:, None], samples.t_s.shape)
        gaps = self._departures.gaps(samples, self.rates.rate_bps, every_late_s)
        self.all_waited_bytes += gaps.waited_bytes
        self._began_s = np.where(self._paid_bytes > 0, self._began_s, before_s - gaps.busy_s)
        sums = self._paid_bytes, self._busy_s, self._error_s2, self._late_s
        for total, part in zip(sums, (gaps.paid_bytes, gaps.busy_s, gaps.error_s2, gaps.late_s), strict=True):
            total += part
        news = gaps.known & (self._paid_bytes >= self._departures.largest_bytes - SHORT_BYTES)
        at = np.flatnonzero(news)
        if len(at):
            paid_bytes, busy_s, begin_s2, all_late_s = (total[at] for total in sums)
            when_s, end_s2 = (self._began_s[at], samples.t_s[-1][at]), gaps.last_error_s2[at]
            self.rates.add(at, *when_s, 8 * paid_bytes, busy_s, all_late_s, begin_s2 + CLOCK_S2, end_s2)
            for total in sums:
                total[at] = 0.0

    def _late(self, took_s: Float) -> Float:
        """(m,): by how much each sample came too late. `took_s` (m,): the intervals that they end."""
        usual_s = float(np.median(took_s))
        self._usual_s = (
            usual_s if np.isnan(self._usual_s) else self._usual_s + (usual_s - self._usual_s) / USUAL
        )
        return np.maximum(took_s - self._usual_s, 0.0)
