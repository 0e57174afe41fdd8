"""For how long links may have stood still: a machine that is busy with something else does not serve them."""

import numpy as np

from railweave.framework.lab.measuring.queue_counters import QueueCounters
from railweave.framework.model.arrays import Bool, Float

STALL_S = 0.01
"""Longest stall of links, in seconds, that a busy machine causes without a late sample."""
LATE, USUAL = 3, 8
"""Usual intervals after which a sample is late (or after one and STALL_S, if that is sooner), and batches
over which the usual interval is averaged. What delayed the sample may have delayed links."""
WITNESSES = 4
"""Minimum number of busy links whose median says whether all were delayed."""
AT_RATE, AT_RATE_PACKETS = 0.75, 4
"""Part of its rate from which a link counts as serving at it, and the packets' worth of time it takes to
know."""
REMEMBERED_PACKETS, REMEMBERED_S = 8, 0.04
"""Time constant with which earlier service fades: in packets, and in seconds at least."""
STOPPED, STOPPED_PACKETS = 0.65, 1.5
"""A link at its rate that falls behind by this part of the time since, and by this many packets, stood
still."""
STOPPED_S, OF_TIME = 0.02, 0.1
"""Seconds that count as standing still, and how much of them each second gives back: a link that falls behind
for longer has become slow. So has one whose packets are too long to show a stop."""


class Standstills:
    """Follows n links from samples of their queues; the `first` of them is (n,)."""

    def __init__(self, first: QueueCounters) -> None:
        self._last, self._usual_s = first, np.nan
        n = len(first.sent_bytes)
        self._served_s, self._took_s = np.zeros((2, n))
        """While packets waited: how long those that were sent take at the rate, and did take but for the time
        in which links may have stood still."""
        self._stops = np.zeros((3, n))
        """Since links began to fall behind: how long that is, by how much they did, and how much of it counts
        as standing still."""
        self._lately_s = np.zeros(n)
        """How much of STOPPED_S is used up."""

    def within_s(self, samples: QueueCounters, rate_bps: Float, packet_bytes: Float) -> Float:
        """(m, n): for how much of the time before each of m samples each link may have stood still.
        `rate_bps` (n,) is what is known, `packet_bytes` (n,) how long packets are.

        Where a sample came late, links that served at their rate until then may have been late for as long as
        what they sent allows: it may be one core that stood still, and its links. So may the others, unless
        most links that had packets to send all the time sent as many as they do. Where it came in time, links
        show by themselves that they stopped.
        """
        t_s, sent, _packets, _drops, queue, _queued = (
            np.concatenate((last[None], new)) for last, new in zip(self._last, samples, strict=True)
        )
        self._last = QueueCounters(*(counter[-1] for counter in samples))
        waits, packet_s = queue > 0, packet_bytes * 8 / rate_bps
        all_busy, all_served_s = waits[:-1] & waits[1:], np.diff(sent, axis=0) * 8 / rate_bps
        remembered_s = np.maximum(REMEMBERED_PACKETS * packet_s, REMEMBERED_S)
        still_s = np.zeros_like(all_served_s)
        rows = zip(self._late_s(np.diff(t_s.max(axis=1))), np.diff(t_s, axis=0), strict=True)
        for i, (late_s, took_s) in enumerate(rows):
            busy, served_s = all_busy[i], all_served_s[i]
            at_rate = busy & (self._took_s >= AT_RATE_PACKETS * packet_s)
            at_rate &= self._served_s >= AT_RATE * self._took_s
            behind_s = took_s - served_s
            if late_s:
                idle_s = behind_s + packet_s  # the first packet had begun before
                known = np.count_nonzero(busy) >= WITNESSES
                least_s = np.clip(np.median(idle_s[busy]), 0.0, late_s) if known else late_s
                still_s[i] = np.where(at_rate, np.clip(idle_s, least_s, late_s), least_s)
            else:
                still_s[i] = self._stopped_s(took_s, behind_s, busy, at_rate, packet_s)
            moved_s = took_s - still_s[i]
            kept = np.exp(-np.maximum(moved_s, 0.0) * busy / remembered_s)
            self._served_s = kept * self._served_s + served_s * busy
            self._took_s = kept * self._took_s + moved_s * busy
        return still_s

    def _stopped_s(self, took_s: Float, behind_s: Float, busy: Bool, at_rate: Bool, packet_s: Float) -> Float:
        """(n,): for how long links stood still of which a sample shows that they did."""
        since_s, all_behind_s, counted_s = self._stops
        since_s, all_behind_s = since_s + took_s, all_behind_s + behind_s
        least_s = STOPPED_PACKETS * packet_s
        stopped = (all_behind_s >= np.maximum(STOPPED * since_s, least_s)) & (least_s <= STOPPED_S)
        self._lately_s = np.maximum(self._lately_s - OF_TIME * took_s, 0.0)
        more_s = np.clip(all_behind_s - packet_s - counted_s, 0.0, STOPPED_S - self._lately_s)
        still_s = np.where(at_rate & (stopped | (counted_s > 0)), more_s, 0.0)
        self._lately_s += still_s
        falls_behind = busy & (behind_s >= STOPPED * took_s)
        self._stops = np.where(falls_behind, (since_s, all_behind_s, counted_s + still_s), 0.0)
        return still_s

    def _late_s(self, took_s: Float) -> Float:
        """(m,): by how much each sample came too late, after so long each."""
        usual_s = float(np.median(took_s))
        self._usual_s = (
            usual_s if np.isnan(self._usual_s) else self._usual_s + (usual_s - self._usual_s) / USUAL
        )
        in_time_s = min(LATE * self._usual_s, self._usual_s + STALL_S)
        return np.where(took_s > in_time_s, took_s - self._usual_s, 0.0)
