"""Service rates from frequent samples of queues, in bursts however short: waited bytes over busy time."""

import numpy as np

from railweave.framework.lab.switching.shaping import SHORT_BYTES
from railweave.framework.model.arrays import Bool, Float

EVIDENT_PACKETS = 8
"""A rate is accepted as it is after this many packets: whole packets err by one in as many."""
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
    its time at `line_bps`. A queue seen once only says nothing, since how long it lasted is unknown; nor
    does a short packet that waits alone, as it waits for what a long one before it took from the bucket.
    Packets that pass on the bucket's credit are never queued and do not count. Bytes and time of such
    intervals add up over bursts. Before they amount to EVIDENT_PACKETS they bound the rate, to a packet.
    """

    def __init__(
        self, line_bps: Float, packet_bytes: float, t_s: Float, sent_bytes: Float, queue_bytes: Float
    ) -> None:
        n = len(line_bps)
        self._line_bps, self._packet, self._packet_s = line_bps, packet_bytes, packet_bytes * 8 / line_bps
        self.rate_bps, self.stated_s = np.full(n, np.nan), np.full(n, -np.inf)
        self.waited_bytes, self.busy_s = np.zeros((2, n))
        """Since the last accepted rate."""
        self.all_waited_bytes = np.zeros(n)
        self._base_bps = line_bps.copy()
        self._last = t_s.copy(), sent_bytes.copy(), queue_bytes.copy()
        self._goes_on = np.zeros(n, bool)

    def add(self, t_s: Float, sent_bytes: Float, queue_bytes: Float) -> None:
        """One more sample: when each link was read, its cumulative bytes, and what waits there."""
        then_s, sent_then, waiting = self._last
        took_s, sent = t_s - then_s, sent_bytes - sent_then
        waiting = np.where(waiting < SHORT_BYTES, 0.0, waiting)
        self.all_waited_bytes += np.minimum(sent, waiting)
        busy = (waiting > 0) & (sent < waiting)
        ended = (waiting > 0) & ~busy & self._goes_on
        self.busy_s += np.where(busy, took_s, np.where(ended, took_s / 2, 0.0))
        self.busy_s += np.where(busy & ~self._goes_on, np.minimum(took_s, self._packet_s) / 2, 0.0)
        self.waited_bytes += np.where(busy, sent, np.where(ended, waiting, 0.0))
        self._goes_on = busy
        self._last = t_s.copy(), sent_bytes.copy(), queue_bytes.copy()
        self._state(busy | ended, t_s)

    def _state(self, news: Bool, t_s: Float) -> None:
        """Change the rates as far as the evidence of `news` carries."""
        packets = self.waited_bytes / self._packet
        accepted = news & (packets >= EVIDENT_PACKETS)
        with np.errstate(divide="ignore", invalid="ignore"):
            least, reading, most = (
                (self.waited_bytes + e * self._packet) * 8 / self.busy_s for e in (-1, 0, 1)
            )
        share = 1 - np.exp(-self.busy_s / SLOWER_OVER_S)
        target = np.where(accepted, reading, np.clip(self._base_bps, least, most))
        late = np.where(target < self._base_bps, share * (self._base_bps - target), 0.0)
        rate = np.where(target < self._base_bps, self._base_bps - late, target)
        stated = accepted | (news & (rate != self._base_bps))
        self.rate_bps = np.where(stated, rate, self.rate_bps)
        self.stated_s = np.where(stated, t_s, self.stated_s)
        self._base_bps = np.where(accepted, rate, self._base_bps)
        self.waited_bytes = np.where(accepted, 0.0, self.waited_bytes)
        self.busy_s = np.where(accepted, 0.0, self.busy_s)
