"""Service rates from the gaps between departures: what was paid for in them over their time."""

import numpy as np

from railweave.framework.lab.measuring.departures import Departures
from railweave.framework.lab.measuring.queue_counters import QueueCounters
from railweave.framework.lab.measuring.standstills import STALL_S, Standstills
from railweave.framework.lab.switching.shaping import SHORT_BYTES
from railweave.framework.model.arrays import Bool, Float

EVIDENT_PACKETS = 8
"""Packets after which a rate is accepted as read: one that a busy machine makes late errs it by an eighth."""
EVIDENT_S = 0.05
"""Seconds of busy time from which the latest packets may override the estimate: several times STALL_S, so
that no stall explains them."""
SUGGESTIVE_PACKETS, ALIKE = 2, 0.8
"""Packets, of STALL_S or longer, that confirm a rate, and the part of it that they must support: what is slow
shows with the second one."""
BOUND, EXACT, EXACT_S = 2, 64, 0.2
"""Standard errors of busy time that a bound leaves as a margin, those that an accepted rate's time must
cover, and the seconds it must cover besides."""
PLAIN, PLAIN_S = 0.6, 0.08
"""A drop below this part of the known rate needs this many seconds of evidence: for a stall to look like
it, the machine would have to stand still for 30 ms, which samples show."""
UNCERTAIN_S = 0.45
"""Seconds that a bound leaves for one late packet, where packets take longer: a stall takes some time,
however long packets take."""
SLOWER_OVER_S = 0.05
"""Time constant, in seconds of busy time, with which a slower reading replaces a rate; a faster one does at
once. A busy machine makes links late, never early, so time in which a link may have stood still does not
bound its rate from above."""


class ServiceMeter:
    """The service rate of n links: `rate_bps` (n,), NaN before any evidence; `stated_s` (n,), when each was
    last confirmed or changed (-inf: never); `since_s` (n,), when the gaps that say it as it is began;
    `all_waited_bytes` (n,), sent so far of packets that a sample had seen waiting.

    Bytes and time of gaps add up over bursts (departures.py), and are looked at whenever as much as a full
    packet has come. They are accepted as a rate once they amount to EVIDENT_PACKETS and the time to EXACT_S
    and EXACT standard errors; until then they bound it, to a packet or UNCERTAIN_S, BOUND standard errors and
    STALL_S, except that a higher rate is taken as read from EVIDENT_PACKETS on. The latest EVIDENT_PACKETS,
    of EVIDENT_S at least, bound it by themselves as well; if they contradict the others, the rate has
    changed, and what came before does not count. Time in which links may have stood still, or that was
    stolen, lowers no rate. A packet is as long as they are on average.
    """

    def __init__(self, line_bps: Float, packet_bytes: float, first: QueueCounters) -> None:
        n = len(line_bps)
        self._departures = Departures(line_bps, packet_bytes, first)
        self.rate_bps, (self.stated_s, self.since_s) = np.full(n, np.nan), np.full((2, n), -np.inf)
        self._bytes, self._packets, self._busy_s, self._error_s2 = np.zeros((4, 2, n))
        """(2, n): since the last accepted rate, and of the latest packets."""
        self._began_s = np.zeros((2, n))
        """When the first gap of each began, or earlier."""
        self._delayed_s, self._stolen_s = np.zeros((2, n)), np.zeros(n)
        """For how much of the busy time links may have stood still; what was stolen with the latest samples
        and in no gap yet."""
        self._unread_bytes = np.zeros(n)
        self._last_s, self._standstills = first.t_s, Standstills(first)
        self._base_bps = line_bps.copy()
        self.all_waited_bytes = np.zeros(n)

    def add(self, samples: QueueCounters, stolen_s: float = 0.0) -> None:
        """Samples (m, n) after those before: when each link was read, and its counters then. `stolen_s`: for
        how long no link may have been served meanwhile, as a processor was taken from this machine."""
        before_s, self._last_s = self._last_s, samples.t_s[-1]
        still_s = self._standstills.within_s(samples, self._base_bps, self._departures.largest_bytes)
        gaps = self._departures.gaps(samples, self._base_bps, still_s)
        self.all_waited_bytes += gaps.waited_bytes
        self._began_s = np.where(self._packets > 0, self._began_s, before_s - gaps.busy_s)
        for sums, more in zip(
            (self._bytes, self._packets, self._busy_s, self._error_s2), gaps[1:5], strict=True
        ):
            sums += more
        self._delayed_s += np.maximum(gaps.late_s, self._delayed_by(stolen_s, gaps.busy_s))
        self._unread_bytes += gaps.paid_bytes
        news = gaps.known & (self._unread_bytes >= self._departures.largest_bytes - SHORT_BYTES)
        if news.any():
            self._unread_bytes[news] = 0.0
            self._state(news, samples.t_s[-1], gaps.last_error_s2)

    def _state(self, news: Bool, t_s: Float, last_error_s2: Float) -> None:
        """Change the rates as far as the evidence of `news` carries."""
        packets, busy_s, base = self._packets, self._busy_s, self._base_bps
        error_s, largest = np.sqrt(self._error_s2 + last_error_s2), self._departures.largest_bytes
        packet = np.where(packets > 0, self._bytes / np.maximum(packets, 1), largest)
        least, reading, most = (self._bound(sign, packet, error_s) for sign in (-1, 0, 1))
        complete = news & (packets >= EVIDENT_PACKETS)
        complete[1] &= busy_s[1] >= EVIDENT_S
        long_s = np.where(reading[0] < PLAIN * base, PLAIN_S, EXACT_S) * (1 + self._delayed_s[0] / STALL_S)
        enough_s = np.maximum(EXACT * error_s[0], long_s)
        exact, latest = complete[0] & (busy_s[0] >= enough_s), complete[1]
        target = np.clip(base, least, most)
        target = np.where(complete & (target > base), reading, target)  # else a repair shows in steps
        target[0] = np.where(exact, np.clip(base, reading[0], self._undelayed(reading[0])), target[0])
        share = 1 - np.exp(-busy_s / SLOWER_OVER_S)
        overall, recent = np.where(target < base, base - share * np.maximum(base - target, 0), target)
        changed = (most[1] < least[0]) | (least[1] > most[0])
        rate = np.where(changed | (np.abs(recent - base) > np.abs(overall - base)), recent, overall)
        enough = (self._bytes >= SUGGESTIVE_PACKETS * largest) & (busy_s >= STALL_S)
        alike = enough[0] & (reading[0] >= ALIKE * base)
        stated = exact | (news & ((rate != base) | alike))
        self.rate_bps[stated], self.stated_s[stated] = rate[stated], t_s[stated]
        says = enough & (reading >= ALIKE * rate)
        self.since_s[stated] = np.where(says, self._began_s, self.since_s).max(axis=0)[stated]
        over = exact | (latest & changed)
        for window, ended in enumerate((over, over | latest)):
            for sums in (self._bytes, packets, busy_s, self._delayed_s):
                sums[window, ended] = 0.0
            self._error_s2[window, ended] = last_error_s2[ended]
        base[over] = rate[over]

    def _delayed_by(self, stolen_s: float, busy_s: Float) -> Float:
        """(n,): how long departures in gaps of `busy_s` came later for time stolen; a gap may end with the
        samples after those in which the processor came back, and no time counts twice.

        The bucket fills meanwhile, so only a packet that is due then is late: where packets take longer than
        what was stolen, one is due in that part of cases, and half of it late on average.
        """
        in_all_s = self._stolen_s + stolen_s
        within_s = np.minimum(in_all_s, busy_s)
        self._stolen_s = np.minimum(stolen_s, in_all_s - within_s)
        packet_s = self._departures.largest_bytes * 8 / self._base_bps
        due_s = np.minimum(within_s, packet_s)
        return np.asarray(within_s - due_s + due_s**2 / (2 * packet_s))

    def _undelayed(self, reading: Float) -> Float:
        """(n,): what would have been read had the links stood still for all time that they may have."""
        busy_s = self._busy_s[0]
        unhurried: Float = reading * busy_s / np.maximum(busy_s - self._delayed_s[0], PLAIN_S)
        return unhurried

    def _bound(self, sign: int, packet: Float, error_s: Float) -> Float:
        """(2, n): the least rate (-1) that the evidence allows for, what it says (0), and the most (1)."""
        error_s = BOUND * error_s + (STALL_S + self._delayed_s) * (sign > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.fmin(1.0, UNCERTAIN_S * self._packets / self._busy_s)
            bits = 8 * (self._bytes + sign * part * packet)
            return np.asarray(bits / np.maximum(self._busy_s - sign * error_s, 0.0))
