"""When packets that waited left, from frequent samples of queues, in bursts however short."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from railweave.framework.lab.measuring.queue_counters import QueueCounters
from railweave.framework.lab.switching.shaping import SHORT_BYTES
from railweave.framework.model.arrays import Bool, Float

RESOLVED = 3
"""Intervals between samples that a burst must last at line rate, or be behind it by, to count, unless packets
are further apart than samples: of shorter bursts samples see mostly the ones longer than they seem."""
IDLE = 0.25
"""Part of the time between two departures at the known rate below which nothing needs to have waited."""
IMPOSSIBLE = 1.1
"""Part of the line rate above which a reading is an error."""


class Gaps(NamedTuple):
    """Sums over the gaps that samples show, (n,) each: `known`, whether there are any; what was paid for in
    them, and in which time; the variance of that time, and the part of it that is due to
    the last departure while others wait, which the next gap will make up for; how much of that time samples
    came late by. `waited_bytes`: sent of packets that a sample had seen waiting."""

    known: Bool
    paid_bytes: Float
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
    longest packet that was seen to leave alone or the longest mean of a queue, twice in a row, as the kernel
    may count bytes of a packet that it has not counted yet; `packet_bytes` at first.

    A token bucket lets a packet go as soon as those before it are paid for. So if a packet waited, the time
    since the packet before it left pays for that packet's bytes, whether it had waited or not. A
    departure comes within its own packet time before the next sample if others wait then, and anywhere
    between the samples if not; its time is taken as the middle of that, its variance as that of any time
    within, t^2 / 12. Packets that pass on the bucket's credit do not wait and end no gap.
    """

    def __init__(self, line_bps: Float, packet_bytes: float, first: QueueCounters) -> None:
        n = len(line_bps)
        self._line_bps, self._last = line_bps, first
        self._departure, self._empty_s = _Departure(*np.zeros((8, n))), np.zeros(n)
        self.largest_bytes, self._seen_bytes = np.full(n, packet_bytes), np.zeros(n)

    def gaps(self, samples: QueueCounters, rate_bps: Float, late_s: Float) -> Gaps:
        """Of samples (m, n) after those before. `rate_bps` (n,): what is known of the links. `late_s`
        (m, n): how late each sample came for each."""
        passed = _Intervals(self._last, samples)
        self._last = QueueCounters(*(counter[-1] for counter in samples))
        grew = self._grew(passed, samples.queue_packets)
        size, count = passed.before_departure()
        last_bytes = self._last_of(passed.left, passed.count)
        single = (count == 1) | ((count == 2) & (np.abs(size - self.largest_bytes) <= SHORT_BYTES))
        apart = single & (last_bytes * 8 >= passed.took_s * self._line_bps)
        within_s = np.where(
            passed.waits | passed.inside,
            np.minimum(passed.took_s, self.largest_bytes * 8 / rate_bps),
            passed.took_s,
        )
        delays = _Delays(np.cumsum(late_s, axis=0), late_s / passed.took_s)
        departures, latest, goes_on = self._departures(passed, apart, within_s, last_bytes, delays)
        since = self._since(departures, latest, goes_on, delays)
        gap = self._between(passed, departures, since, within_s)

        evident = (passed.inside | passed.ended) & goes_on[:-1] & ~grew  # earlier gaps count shorter packets
        evident &= apart | self._outlasts_samples(passed, gap, since)
        evident &= (self._emptied_s(passed) - since.t_s[:-1]) * rate_bps <= IDLE * gap.paid * 8
        # no link is faster than its rate: what seems so is something else
        longest_s = gap.busy_s + np.sqrt(3 * since.error_s2[:-1]) + gap.within_s / 2
        evident &= gap.paid * 8 <= IMPOSSIBLE * longest_s * self._line_bps
        late = delays.until(gap.within_s) - since.late_s[:-1]
        sums = (
            np.where(evident, part, 0.0).sum(axis=0) for part in (gap.paid, gap.busy_s, gap.error_s2, late)
        )
        paid, busy_s, error_s2, late = sums
        last_error_s2 = np.where(goes_on[-1] & (since.first[-1] == 0), since.error_s2[-1], 0.0)
        waited_bytes = np.clip(passed.left, 0.0, passed.waited).sum(axis=0)
        any_evident = np.logical_or.reduce(evident)
        return Gaps(any_evident, paid, busy_s, error_s2, last_error_s2, late, waited_bytes)

    def _grew(self, passed: "_Intervals", queue_packets: Float) -> Bool:
        """(n,): whether the longest packet seen became longer."""
        alone = np.where(passed.departed & (passed.count == 1), passed.left, 0.0)
        some = passed.waits & (queue_packets > 0)
        mean = np.divide(passed.queue[1:], queue_packets, out=np.zeros_like(passed.left), where=some)
        before_bytes = self.largest_bytes
        for seen in np.maximum(alone, mean):
            twice = np.minimum(seen, self._seen_bytes)
            self.largest_bytes = np.maximum(self.largest_bytes, twice)
            self._seen_bytes = np.where(seen > 0, seen, self._seen_bytes)
        return self.largest_bytes > before_bytes + SHORT_BYTES

    def _last_of(self, size: Float, count: Float) -> Float:
        """The last of `count` packets of `size` together. Short packets overtake, so of several it is a long
        one."""
        return np.where(count == 1, size, np.minimum(size, self.largest_bytes))

    def _departures(
        self, passed: "_Intervals", apart: Bool, within_s: Float, last_bytes: Float, delays: "_Delays"
    ) -> tuple[_Departure, NDArray[np.int64], Bool]:
        """(the last departure in each interval; (m + 1, n): the row of the latest one before the samples and
        after each; whether a gap may begin with it, as nothing has left since that cannot be told from it).
        """
        counts = passed.departed & (passed.waits | passed.inside | apart)
        over = (passed.left != 0) & ~counts & ~((passed.waited > 0) & passed.waits)
        before = self._departure.counts[None]
        latest = _latest(np.concatenate((before > 0, counts)))
        goes_on = latest > _latest(np.concatenate((before == 0, over)))
        first = counts & ~(goes_on[:-1] & passed.inside)
        departures = _Departure(
            counts.astype(np.float64),
            passed.t_s[1:] - within_s / 2,
            within_s**2 / 12,
            passed.sent[1:] - last_bytes,
            first.astype(np.float64),
            passed.sent[:-1] + passed.waited * passed.ended,
            passed.t_s[:-1],
            delays.until(within_s),
        )
        return departures, latest, goes_on

    def _since(
        self, departures: _Departure, latest: NDArray[np.int64], goes_on: Bool, delays: "_Delays"
    ) -> _Departure:
        """(m + 1, n) each: the `latest` departure before the samples and after each, the last of which is
        kept for the next samples."""
        before = self._departure
        burst = _latest(np.concatenate((before.counts[None] > 0, departures.first > 0)))
        since = _Departure(*_taken(np.stack(before), np.stack(departures), latest))
        burst_began, burst_began_s = _taken(
            np.stack((before.burst_began, before.burst_began_s)),
            np.stack((departures.burst_began, departures.burst_began_s)),
            burst,
        )
        since = since._replace(burst_began=burst_began, burst_began_s=burst_began_s)
        self._departure = _Departure(*(values[-1] for values in since))._replace(
            counts=1.0 * goes_on[-1], late_s=since.late_s[-1] - delays.all_s[-1]
        )
        return since

    def _between(
        self, passed: "_Intervals", departures: _Departure, since: _Departure, within_s: Float
    ) -> "_Gap":
        """The gap from the latest departure before each interval to the one in it."""
        ended, took_s = passed.ended, passed.took_s
        to_s = np.where(ended, passed.t_s[1:] - took_s / 2, departures.t_s)
        last_waited = self._last_of(passed.waited, passed.queued)
        to_bytes = np.where(ended, passed.sent[:-1] + passed.waited - last_waited, departures.sent_before)
        return _Gap(
            to_s - since.t_s[:-1],
            to_bytes - since.sent_before[:-1],
            to_bytes,
            np.where(ended, took_s, within_s),
            since.error_s2[:-1] * since.first[:-1] + np.where(ended, took_s**2 / 12, 0.0),
        )

    def _outlasts_samples(self, passed: "_Intervals", gap: "_Gap", since: _Departure) -> Bool:
        """(m, n): whether the burst is RESOLVED intervals long at line rate, or so far behind it."""
        began, began_s, resolved_s = (
            since.burst_began[:-1],
            since.burst_began_s[:-1],
            RESOLVED * passed.took_s,
        )
        lasts = np.where(passed.ended, gap.to_bytes, passed.sent[1:] + passed.queue[1:]) - began
        behind_s = passed.t_s[:-1] - began_s - (passed.sent[:-1] - began) * 8 / self._line_bps
        return (lasts * 8 >= resolved_s * self._line_bps) | (behind_s >= resolved_s)

    def _emptied_s(self, passed: "_Intervals") -> Float:
        """(m, n): when the queue was last seen empty before each interval."""
        empty = _latest(np.concatenate((np.ones((1, passed.waits.shape[1]), bool), ~passed.waits)))
        empty_s = _taken(self._empty_s, passed.t_s[1:], empty)
        self._empty_s = empty_s[-1]
        return empty_s[:-1]


class _Intervals:
    """What samples (m, n) show of the m intervals that they end; (m, n) each, but for `t_s`, `sent` and
    `queue` (m + 1, n), which are those of the samples and the one before.

    `took_s`: the length; `left` bytes left, in `count` packets; `waited` bytes, in `queued` packets, waited
    when it began; `waits`: whether any did when it ended. `departed`: more left than a short packet; `ended`:
    so did all that had waited; `inside`: a part of it did.
    """

    def __init__(self, last: QueueCounters, samples: QueueCounters) -> None:
        self.t_s, self.sent, packets, _drops, queue, queued = (
            np.concatenate((before[None], new)) for before, new in zip(last, samples, strict=True)
        )
        self.queue = np.where(queue < SHORT_BYTES, 0.0, queue)
        self.took_s, self.left, self.count = (
            np.diff(counter, axis=0) for counter in (self.t_s, self.sent, packets)
        )
        self.waited, self.queued, self.waits = self.queue[:-1], queued[:-1], self.queue[1:] > 0
        self.departed = self.left > SHORT_BYTES
        left_of_waited = self.departed & (self.waited > 0)
        self.ended = left_of_waited & (self.left >= self.waited)
        self.inside = left_of_waited & ~self.ended

    def before_departure(self) -> tuple[Float, Float]:
        """(bytes, packets) that left up to the departure that ends a gap: what had waited, or all."""
        return np.where(self.ended, self.waited, self.left), np.where(self.ended, self.queued, self.count)


class _Delays(NamedTuple):
    """How late samples came, (m, n): `all_s`, together up to each; `share`, of the interval that it ends."""

    all_s: Float
    share: Float

    def until(self, within_s: Float) -> Float:
        """Together, up to the middle of the last `within_s` of each interval."""
        return np.asarray(self.all_s - self.share * within_s / 2)


class _Gap(NamedTuple):
    """A gap that ends in each interval, (m, n): its time, the bytes paid for in it, the bytes sent before its
    end, how much of the interval its end may lie in, and the variance of its time."""

    busy_s: Float
    paid: Float
    to_bytes: Float
    within_s: Float
    error_s2: Float


def _latest(where: Bool) -> NDArray[np.int64]:
    """(m + 1, n): the last row so far in which it is so; -1 where there is none."""
    return np.maximum.accumulate(np.where(where, np.arange(len(where))[:, None], -1))


def _taken(old: Float, new: Float, rows: NDArray[np.int64]) -> Float:
    """(..., m + 1, n): those rows of `old` (..., n), which is the first, and `new` (..., m, n)."""
    joined = np.concatenate((old[..., None, :], new), axis=-2)
    return joined[..., np.maximum(rows, 0), np.arange(old.shape[-1])]
