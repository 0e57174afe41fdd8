"""Service rates from frequent samples of queues, in bursts however short: waited bytes over busy time."""

import numpy as np

from railweave.framework.lab.switching.shaping import LINK_MTU, SHORT_BYTES
from railweave.framework.model.arrays import Bool, Float

EVIDENT_PACKETS = 8
"""A rate is accepted as it is after this many packets: whole packets err by one in as many."""
SUGGESTIVE_PACKETS = 2
"""After so many packets a rate that they do not contradict is known; what is slow shows by then."""
BOUND, EXACT = 2, 64
"""Standard errors of busy time: those within which it bounds a rate, and of which it consists once its rate
is accepted."""
LARGEST_BYTES, SMALLEST_BYTES = LINK_MTU + 14.0, 54.0
"""Packets of programs: as long as a link takes them, and TCP's acknowledgements."""
IMPOSSIBLE = 1.1
"""Of the line rate. A packet waits for the one before it, and if that was short, not for long: what seems as
fast as this is no evidence."""
SLOWER_OVER_S = 0.05
"""Time constant, in busy time, with which a slower reading replaces a rate: a busy machine makes links late,
never early."""


class ServiceMeter:
    """The service rate of n links: `rate_bps` (n,), NaN before any evidence; `stated_s` (n,), when each was
    last confirmed or changed (-inf: never); `all_waited_bytes` (n,), sent so far of packets that a sample had
    seen waiting.

    Queues are first in, first out: a link that sent less between two samples than was queued at the first was
    busy all the time. The interval in which a queue ends counts half, as it ends halfway on average, and the
    packet that is being served when a queue is first seen has half an interval behind it, at most `packet_s`,
    its time at `line_bps`. What these two are wrong by is known as its variance, that of any time within the
    interval: t^2 / 12 each. A queue seen once only says nothing, since how long it lasted is unknown; of one
    seen twice the end comes out too late, by up to a third of the interval, as those alike that were seen
    once are missing. Nor does a short packet that waits alone, as it waits for what a long one before it took
    from the bucket. Packets that pass on the bucket's credit are never queued and do not count.

    Bytes and time of such intervals add up over bursts. They are accepted as a rate once they amount to
    EVIDENT_PACKETS and the time to EXACT standard errors; until then they bound it, to a packet and BOUND
    standard errors, except that a higher rate is taken as read from EVIDENT_PACKETS on: that of a fast link
    in short bursts may be too high by a quarter. The latest EVIDENT_PACKETS bound it by themselves as
    well; if they contradict the others, the rate
    has changed, and what came before does not count. A packet is one of `packet_bytes`, or, since the last
    rate but one, the longest that a queue of longer ones may hold.
    """

    def __init__(
        self, line_bps: Float, packet_bytes: float, t_s: Float, sent_bytes: Float, queue_bytes: Float
    ) -> None:
        n = len(line_bps)
        self._line_bps, self._full, self._packet_s = line_bps, packet_bytes, packet_bytes * 8 / line_bps
        self._packet, self._largest = np.full((2, n), packet_bytes)
        self.rate_bps, self.stated_s = np.full(n, np.nan), np.full(n, -np.inf)
        self._waited_bytes, self._busy_s, self._error_s2, self._unsure_s = np.zeros((4, 2, n))
        """(2, n): since the last accepted rate, and of the latest packets."""
        self.all_waited_bytes = np.zeros(n)
        self._base_bps = line_bps.copy()
        self._last = t_s.copy(), sent_bytes.copy(), queue_bytes.copy(), np.zeros(n)
        self._goes_on, self._goes_on_long = np.zeros((2, n), bool)

    def add(
        self, t_s: Float, sent_bytes: Float, queue_bytes: Float, queue_packets: Float | None = None
    ) -> None:
        """One more sample: when each link was read, its cumulative bytes, and what waits there; full packets,
        where their number is not given."""
        then_s, sent_then, waiting, size = self._last
        self._largest = np.maximum(self._largest, size)
        self._packet = np.maximum(self._packet, size)
        took_s, sent = t_s - then_s, sent_bytes - sent_then
        waiting = np.where(waiting < SHORT_BYTES, 0.0, waiting)
        self.all_waited_bytes += np.minimum(sent, waiting)
        busy = (waiting > 0) & (sent < waiting)
        ended = (waiting > 0) & ~busy & self._goes_on
        self._busy_s += np.where(busy, took_s, np.where(ended, took_s / 2, 0.0))
        self._busy_s += np.where(busy & ~self._goes_on, np.minimum(took_s, self._packet_s) / 2, 0.0)
        by_chance = (busy & ~self._goes_on) | (ended & self._goes_on_long)
        self._error_s2 += np.where(by_chance, took_s**2 / 12, 0.0)
        self._unsure_s += np.where(ended & ~self._goes_on_long, took_s / 3, 0.0)
        self._waited_bytes += np.where(busy, sent, np.where(ended, waiting, 0.0))
        self._goes_on, self._goes_on_long = busy, busy & self._goes_on
        size = np.zeros(len(t_s))
        if queue_packets is not None:
            longest = np.minimum(queue_bytes - (queue_packets - 1) * SMALLEST_BYTES, LARGEST_BYTES)
            size = np.where(queue_bytes > queue_packets * self._full, longest, 0.0)
        self._last = t_s.copy(), sent_bytes.copy(), queue_bytes.copy(), size
        if np.any(news := busy | ended):
            # what is judged while packets wait ends with one that has just left, known to an interval
            self._state(news, news & (sent > SHORT_BYTES), t_s, np.where(busy, took_s**2 / 12, 0.0))

    def _state(self, news: Bool, left: Bool, t_s: Float, cut_s2: Float) -> None:
        """Change the rates as far as the evidence of `news` carries. `left`: where packets left; `cut_s2`:
        variance of the time at this end."""
        waited, busy_s, base = self._waited_bytes, self._busy_s, self._base_bps
        if np.any(fast := self._bound(-1, cut_s2) > IMPOSSIBLE * self._line_bps):
            for sums in (waited, busy_s, self._error_s2, self._unsure_s):
                sums[fast] = 0.0
        packets, error_s = waited / self._packet, np.sqrt(self._error_s2 + cut_s2) + self._unsure_s
        complete = left & (packets >= EVIDENT_PACKETS)
        exact, latest = complete[0] & (busy_s[0] >= EXACT * error_s[0]), complete[1]
        least, reading, most = (self._bound(sign, cut_s2) for sign in (-1, 0, 1))
        target = np.clip(base, least, most)
        target = np.where(complete & (target > base), reading, target)  # else a repair shows in steps
        target[0] = np.where(exact, reading[0], target[0])
        share = 1 - np.exp(-busy_s / SLOWER_OVER_S)
        overall, recent = np.where(target < base, base - share * np.maximum(base - target, 0), target)
        changed = (most[1] < least[0]) | (least[1] > most[0])
        rate = np.where(changed | (np.abs(recent - base) > np.abs(overall - base)), recent, overall)
        stated = exact | (news & ((rate != base) | (packets[0] >= SUGGESTIVE_PACKETS)))
        self.rate_bps[stated], self.stated_s[stated] = rate[stated], t_s[stated]
        over = exact | (latest & changed)
        for window, ended in enumerate((over, over | latest)):
            waited[window, ended] = busy_s[window, ended] = self._unsure_s[window, ended] = 0.0
            self._error_s2[window, ended] = cut_s2[ended]
        base[over] = rate[over]
        self._packet[over], self._largest[over] = self._largest[over], self._full

    def _bound(self, sign: int, cut_s2: Float) -> Float:
        """(2, n): the least rate (-1) that the evidence allows for, what it says (0), and the most (1)."""
        error_s = BOUND * np.sqrt(self._error_s2 + cut_s2) + self._unsure_s
        with np.errstate(divide="ignore", invalid="ignore"):
            bits = 8 * (self._waited_bytes + sign * self._packet)
            return np.asarray(bits / np.maximum(self._busy_s - sign * error_s, 0.0))
