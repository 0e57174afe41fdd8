"""Service rates from frequent samples of queues: what left between two departures over the time between."""

import numpy as np
from numpy.typing import NDArray

from railweave.framework.lab.measuring.queue_counters import QueueCounters
from railweave.framework.lab.switching.shaping import SHORT_BYTES
from railweave.framework.model.arrays import Bool, Float

EVIDENT_PACKETS = 8
"""A rate is accepted as it is after this many packets: a busy machine makes one of them late."""
SUGGESTIVE_PACKETS = 2
"""After so many packets a rate that they do not contradict is known; what is slow shows by then."""
RESOLVED = 3
"""Intervals between samples that a burst must last at line rate to count, unless packets are further apart
than samples: of shorter ones, those that samples happen to see lasted longer than they seem, or less."""
IDLE = 0.25
"""Of the time between two departures, for which nothing needs to have waited."""
IMPOSSIBLE = 1.1
"""Of the line rate."""
BOUND, EXACT = 2, 64
"""Standard errors of busy time: those within which it bounds a rate, and of which it consists once its rate
is accepted."""
SLOWER_OVER_S = 0.05
"""Time constant, in busy time, with which a slower reading replaces a rate: a busy machine makes links late,
never early."""


class ServiceMeter:
    """The service rate of n links: `rate_bps` (n,), NaN before any evidence; `stated_s` (n,), when each was
    last confirmed or changed (-inf: never); `all_waited_bytes` (n,), sent so far of packets that a sample had
    seen waiting.

    A token bucket lets a packet go as soon as those before it are paid for. So while packets wait, the time
    between two departures is that of the bytes that left from the first one on, without the second: also
    after one that met no queue itself. A departure between two samples comes within its own packet time
    before the second one if others wait then, and anywhere between them if it was the last; its time is taken
    as the middle of that, its variance as that of any time within, t^2 / 12. Packets that pass on the
    bucket's credit are never queued and do not count.

    Bytes and time between departures add up over bursts. They are accepted as a rate once they amount to
    EVIDENT_PACKETS and the time to EXACT standard errors; until then they bound it, to a packet and BOUND
    standard errors, except that a higher rate is taken as read from EVIDENT_PACKETS on. The latest
    EVIDENT_PACKETS bound it by themselves as well; if they contradict the others, the rate has changed, and
    what came before does not count. A packet is one of `packet_bytes` or as long as they are on average.
    """

    def __init__(self, line_bps: Float, packet_bytes: float, first: QueueCounters) -> None:
        n = len(line_bps)
        self._line_bps, self._base_bps = line_bps, line_bps.copy()
        self.rate_bps, self.stated_s = np.full(n, np.nan), np.full(n, -np.inf)
        self._bytes, self._busy_s, self._error_s2, self._packets = np.zeros((4, 2, n))
        """(2, n): since the last accepted rate, and of the latest packets."""
        self.all_waited_bytes = np.zeros(n)
        self._last, self._point = first, np.zeros((7, n))
        self._largest = np.full(n, packet_bytes)

    def add(self, samples: QueueCounters) -> None:
        """Samples (m, n) after those before: when each link was read, and its counters then."""
        t, sent, packets, queue, queued = (
            np.concatenate((last[None], new))
            for last, new in zip(
                (self._last[i] for i in (0, 1, 2, 4, 5)), (samples[i] for i in (0, 1, 2, 4, 5)), strict=True
            )
        )
        self._last = QueueCounters(*(counter[-1] for counter in samples))
        took_s, left, count = np.diff(t, axis=0), np.diff(sent, axis=0), np.diff(packets, axis=0)
        queue = np.where(queue < SHORT_BYTES, 0.0, queue)
        waited, waiting = queue[:-1], queue[1:] > 0
        departed = left > SHORT_BYTES
        largest = self._largest = np.maximum(
            self._largest, np.where(departed & (count == 1), left, 0.0).max(axis=0)
        )
        self.all_waited_bytes += np.minimum(np.maximum(left, 0.0), waited).sum(axis=0)
        ended = departed & (waited > 0) & (left >= waited)
        inside = departed & (waited > 0) & ~ended
        # short packets overtake, so the last of several is a long one
        size = np.where(count == 1, left, np.minimum(left, largest))
        gone, of = np.where(ended, waited, left), np.where(ended, queued[:-1], count)
        single = ((of == 1) | ((of == 2) & (np.abs(gone - largest) <= SHORT_BYTES))) * size
        apart = single * 8 >= took_s * self._line_bps
        # with nothing waiting, anywhere between the samples
        within_s = np.where(waiting | inside, np.minimum(took_s, largest * 8 / self._base_bps), took_s)
        at_s, before = t[1:] - within_s / 2, sent[1:] - size
        # (m + 1, n), the first row from before: what later departures are timed from, and where bursts began
        open_, *points, empty_then = self._point
        begins = departed & (waiting | inside | apart)
        over = (left != 0) & ~begins & ~((waited > 0) & waiting)
        rows = np.arange(len(t))[:, None]
        latest = _latest(rows, np.concatenate((open_[None] > 0, begins)))
        goes_on = latest > _latest(rows, np.concatenate((open_[None] == 0, over)))
        opening = begins & ~(goes_on[:-1] & inside)
        news = at_s, before, within_s**2 / 12, opening * 1.0
        from_s, from_bytes, from_error, from_first = (
            _taken(np.concatenate((old[None], new)), latest) for old, new in zip(points, news, strict=False)
        )
        burst = _taken(
            np.concatenate((points[-1][None], sent[:-1] + waited * ended)),
            _latest(rows, np.concatenate((open_[None] > 0, opening))),
        )
        end_bytes = sent[:-1] + waited - np.where(queued[:-1] == 1, waited, np.minimum(waited, largest))
        lasts = np.where(ended, end_bytes, sent[1:] + queue[1:]) - burst[:-1]
        to_s, to_bytes = np.where(ended, t[1:] - took_s / 2, at_s), np.where(ended, end_bytes, before)
        empty = _latest(rows, np.concatenate((np.ones((1, len(open_)), bool), ~waiting)))
        empty_s = _taken(np.concatenate((empty_then[None], t[1:])), empty)
        known = (inside | ended) & goes_on[:-1]
        known &= apart | (lasts * 8 >= RESOLVED * took_s * self._line_bps)
        # no link is faster than its rate: what seems so is something else
        longest_s = to_s - from_s[:-1] + np.sqrt(3 * from_error[:-1]) + np.where(ended, took_s, within_s) / 2
        known &= (to_bytes - from_bytes[:-1]) * 8 <= IMPOSSIBLE * longest_s * self._line_bps
        known &= empty_s[:-1] - from_s[:-1] <= IDLE * (to_s - from_s[:-1])
        self._busy_s += np.where(known, to_s - from_s[:-1], 0.0).sum(axis=0)
        self._bytes += np.where(known, to_bytes - from_bytes[:-1], 0.0).sum(axis=0)
        self._packets += np.where(known, np.where(ended, queued[:-1], count), 0.0).sum(axis=0)
        error = from_error[:-1] * from_first[:-1] + np.where(ended, took_s**2 / 12, 0.0)
        self._error_s2 += np.where(known, error, 0.0).sum(axis=0)
        is_open = goes_on[-1]
        self._point = np.array(
            [is_open, from_s[-1], from_bytes[-1], from_error[-1], from_first[-1], burst[-1], empty_s[-1]]
        )
        stated: Bool = np.any(known, axis=0)
        if stated.any():
            # what is judged while packets wait ends with one that has just left, known to an interval
            cut_s2 = np.where(is_open & (from_first[-1] == 0), from_error[-1], 0.0)
            self._state(stated, t[-1], cut_s2)

    def _state(self, news: Bool, t_s: Float, cut_s2: Float) -> None:
        """Change the rates as far as the evidence of `news` carries. `cut_s2`: variance of the time at this
        end."""
        busy_s, base = self._busy_s, self._base_bps
        error_s = np.sqrt(self._error_s2 + cut_s2)
        packets = self._packets
        packet = np.where(packets > 0, self._bytes / np.maximum(packets, 1), self._largest)
        least, reading, most = (self._bound(sign, packet, error_s) for sign in (-1, 0, 1))
        complete = news & (packets >= EVIDENT_PACKETS)
        exact, latest = complete[0] & (busy_s[0] >= EXACT * error_s[0]), complete[1]
        target = np.clip(base, least, most)
        target = np.where(complete & (target > base), reading, target)  # else a repair shows in steps
        target[0] = np.where(exact, reading[0], target[0])
        share = 1 - np.exp(-busy_s / SLOWER_OVER_S)
        overall, recent = np.where(target < base, base - share * np.maximum(base - target, 0), target)
        changed = (most[1] < least[0]) | (least[1] > most[0])
        rate = np.where(changed | (np.abs(recent - base) > np.abs(overall - base)), recent, overall)
        stated = exact | (news & ((rate != base) | (self._bytes[0] >= SUGGESTIVE_PACKETS * self._largest)))
        self.rate_bps[stated], self.stated_s[stated] = rate[stated], t_s[stated]
        over = exact | (latest & changed)
        for window, ended in enumerate((over, over | latest)):
            for sums in (self._bytes, busy_s, self._packets):
                sums[window, ended] = 0.0
            self._error_s2[window, ended] = cut_s2[ended]
        base[over] = rate[over]

    def _bound(self, sign: int, packet: Float, error_s: Float) -> Float:
        """(2, n): the least rate (-1) that the evidence allows for, what it says (0), and the most (1)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            bits = 8 * (self._bytes + sign * packet)
            return np.asarray(bits / np.maximum(self._busy_s - sign * BOUND * error_s, 0.0))


def _latest(rows: NDArray[np.int64], where: Bool) -> NDArray[np.int64]:
    """(m, n): the last row so far in which it is so; -1 where there is none."""
    return np.maximum.accumulate(np.where(where, rows, -1))


def _taken(values: Float, rows: NDArray[np.int64]) -> Float:
    return np.take_along_axis(values, np.maximum(rows, 0), axis=0)
