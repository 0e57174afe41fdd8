"""When packets that waited left, from frequent samples of queues, in bursts however short."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from railweave.framework.lab.measuring.queue_counters import QueueCounters
from railweave.framework.lab.switching.shaping import SHORT_BYTES
from railweave.framework.model.arrays import Bool, Float

RESOLVED = 3
"""Intervals between samples that a burst must last at line rate to count, or be behind it by, unless packets
are further apart than samples: of shorter ones, those that samples happen to see lasted longer than they
seem, or less."""
IDLE = 0.25
"""Of the time between two departures at the rate known, for which nothing needs to have waited."""
IMPOSSIBLE = 1.1
"""Of the line rate."""


class Gaps(NamedTuple):
    """Sums over the gaps that samples show, (n,) each: `known`, whether there are any; what was paid for in
    them, in how many packets and which time; the variance of that time, and the part of it that is due to
    the last departure while others wait, which the next gap will make up for; how much of that time samples
    came late by. `waited_bytes`: sent of packets that a sample had seen waiting."""

    known: Bool
    paid_bytes: Float
    packets: Float
    busy_s: Float
    error_s2: Float
    last_error_s2: Float
    late_s: Float
    waited_bytes: Float


class _Departure(NamedTuple):
    """The last packet that left between two samples, of each link: whether the next gap may begin with it;
    when, and the variance of that; bytes sent before it; 1 if no gap ends with it, as the sum of variances
    needs to know; bytes sent before its burst, and when that was; by how much samples had come late before
    it, in all."""

    counts: Float
    t_s: Float
    error_s2: Float
    sent_before: Float
    first: Float
    burst_began: Float
    burst_began_s: Float
    late_s: Float


class Departures:
    """Follows n links at `line_bps` (n,), samples of which begin with `first`. `largest_bytes` (n,): the
    longest packet that was seen to leave alone or the longest mean of a queue, `packet_bytes` at first.

    A token bucket lets a packet go as soon as those before it are paid for. So if a packet waited, the time
    since the one before it left is that of the bytes of the latter, whether that had waited or not. A
    departure comes within its own packet time before the next sample if others wait then, and anywhere
    between the samples if not; its time is taken as the middle of that, its variance as that of any time
    within, t^2 / 12. Packets that pass on the bucket's credit do not wait and end no gap.
    """

    def __init__(self, line_bps: Float, packet_bytes: float, first: QueueCounters) -> None:
        n = len(line_bps)
        self._line_bps, self._last = line_bps, first
        self._departure, self._empty_s = _Departure(*np.zeros((8, n))), np.zeros(n)
        self.largest_bytes = np.full(n, packet_bytes)

    def gaps(self, samples: QueueCounters, rate_bps: Float, late_s: Float) -> Gaps:
        """Of samples (m, n) after those before. `rate_bps` (n,): what is known of the links. `late_s`
        (m, n): how late each sample came for each."""
        t, sent, packets, _drops, queue, queued = (
            np.concatenate((last[None], new)) for last, new in zip(self._last, samples, strict=True)
        )
        self._last = QueueCounters(*(counter[-1] for counter in samples))
        queue = np.where(queue < SHORT_BYTES, 0.0, queue)
        took_s, left, count = np.diff(t, axis=0), np.diff(sent, axis=0), np.diff(packets, axis=0)
        waited, queued, waits = queue[:-1], queued[:-1], queue[1:] > 0
        departed = left > SHORT_BYTES
        alone = np.where(departed & (count == 1), left, 0.0)
        mean = np.divide(queue[1:], samples.queue_packets, out=np.zeros_like(left), where=waits)
        before_bytes = self.largest_bytes
        largest = self.largest_bytes = np.maximum(before_bytes, np.maximum(alone, mean).max(axis=0))
        grew = largest > before_bytes + SHORT_BYTES
        ended = departed & (waited > 0) & (left >= waited)
        inside = departed & (waited > 0) & ~ended

        def last_of(size: Float, of: Float) -> Float:
            """Short packets overtake, so the last of several is a long one."""
            return np.where(of == 1, size, np.minimum(size, largest))

        size, of = np.where(ended, waited, left), np.where(ended, queued, count)
        single = (of == 1) | ((of == 2) & (np.abs(size - largest) <= SHORT_BYTES))
        apart = single & (last_of(left, count) * 8 >= took_s * self._line_bps)

        within_s = np.where(waits | inside, np.minimum(took_s, largest * 8 / rate_bps), took_s)
        counts = departed & (waits | inside | apart)
        over = (left != 0) & ~counts & ~((waited > 0) & waits)
        rows, before = np.arange(len(t))[:, None], self._departure
        latest = _latest(rows, np.concatenate((before.counts[None] > 0, counts)))
        goes_on = latest > _latest(rows, np.concatenate((before.counts[None] == 0, over)))
        first = counts & ~(goes_on[:-1] & inside)
        all_late_s, late_share = np.cumsum(late_s, axis=0), late_s / took_s
        each = _Departure(
            1.0 * counts,
            t[1:] - within_s / 2,
            within_s**2 / 12,
            sent[1:] - last_of(left, count),
            1.0 * first,
            sent[:-1] + waited * ended,
            t[:-1],
            all_late_s - late_share * within_s / 2,
        )
        # (m + 1, n): as it was before the samples and after each
        since = _Departure(*_taken(np.stack(before), np.stack(each), latest))
        burst = _latest(rows, np.concatenate((before.counts[None] > 0, first)))
        burst_began, burst_began_s = _taken(
            np.stack((before.burst_began, before.burst_began_s)),
            np.stack((each.burst_began, each.burst_began_s)),
            burst,
        )
        empty = _latest(rows, np.concatenate((np.ones((1, t.shape[1]), bool), ~waits)))
        empty_s = _taken(self._empty_s, t[1:], empty)
        self._departure = _Departure(*(kept[-1] for kept in since))._replace(
            counts=1.0 * goes_on[-1],
            burst_began=burst_began[-1],
            burst_began_s=burst_began_s[-1],
            late_s=since.late_s[-1] - all_late_s[-1],
        )
        self._empty_s = empty_s[-1]

        to_s = np.where(ended, t[1:] - took_s / 2, each.t_s)
        to_bytes = np.where(ended, sent[:-1] + waited - last_of(waited, queued), each.sent_before)
        busy_s, paid = to_s - since.t_s[:-1], to_bytes - since.sent_before[:-1]
        lasts = np.where(ended, to_bytes, sent[1:] + queue[1:]) - burst_began[:-1]
        behind_s = t[:-1] - burst_began_s[:-1] - (sent[:-1] - burst_began[:-1]) * 8 / self._line_bps
        known = (inside | ended) & goes_on[:-1] & ~grew  # what began earlier was taken for shorter packets
        known &= apart | (lasts * 8 >= RESOLVED * took_s * self._line_bps) | (behind_s >= RESOLVED * took_s)
        known &= (empty_s[:-1] - since.t_s[:-1]) * rate_bps <= IDLE * paid * 8
        # no link is faster than its rate: what seems so is something else
        longest_s = busy_s + np.sqrt(3 * since.error_s2[:-1]) + np.where(ended, took_s, within_s) / 2
        known &= paid * 8 <= IMPOSSIBLE * longest_s * self._line_bps
        error_s2 = since.error_s2[:-1] * since.first[:-1] + np.where(ended, took_s**2 / 12, 0.0)
        late = all_late_s - late_share * np.where(ended, took_s, within_s) / 2 - since.late_s[:-1]
        paid, packets, busy_s, error_s2, late = (
            np.where(known, part, 0.0).sum(axis=0) for part in (paid, of, busy_s, error_s2, late)
        )
        last_error_s2 = np.where(goes_on[-1] & (since.first[-1] == 0), since.error_s2[-1], 0.0)
        waited_bytes = np.clip(left, 0.0, waited).sum(axis=0)
        return Gaps(
            np.logical_or.reduce(known), paid, packets, busy_s, error_s2, last_error_s2, late, waited_bytes
        )


def _latest(rows: NDArray[np.int64], where: Bool) -> NDArray[np.int64]:
    """(m + 1, n): the last row so far in which it is so; -1 where there is none."""
    return np.maximum.accumulate(np.where(where, rows, -1))


def _taken(old: Float, new: Float, rows: NDArray[np.int64]) -> Float:
    """(..., m + 1, n): those rows of `old` (..., n), which is the first, and `new` (..., m, n)."""
    both = np.concatenate((old[..., None, :], new), axis=-2)
    return both[..., np.maximum(rows, 0), np.arange(old.shape[-1])]
