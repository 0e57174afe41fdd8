"""Health from OpenFlow port statistics alone, polled through the controller."""

from dataclasses import replace

import numpy as np

from railweave.framework.hookspecs import LinkState
from railweave.framework.lab.measuring.port_counters import EVIDENT_PACKETS, PortCounters, Round
from railweave.framework.lab.measuring.trains import Prober
from railweave.framework.lab.switching.controller_link import ControllerLink, Train
from railweave.framework.model import Fabric, Measurement, PacketFormat
from railweave.framework.model.events import ControllerEvent, PortCounts, ProcessReady

PERIOD_S = 0.045  # samples come every 25 ms, but not to the microsecond
PERIOD_PER_SWITCH_S = 0.002
"""Cost of a poll to the controller and the switches grows with their number: polls are at least this far
apart for each switch."""

TRAIN_ROUNDS = 3
"""Polls that a train lasts on a healthy link, besides the packets that make evidence: it is queued during the
first and ends during the last."""

UNANSWERED_S = 2.0


class CounterSource:
    """Keeps one poll of all ports under way. A sample between two answers repeats the queue of the last
    one."""

    def __init__(self, fabric: Fabric, packet: PacketFormat, link: ControllerLink) -> None:
        self._fabric, self._link = fabric, link
        self._counters = PortCounters(fabric, packet)
        self._period_s = max(PERIOD_S, PERIOD_PER_SWITCH_S * fabric.n_nodes)
        self._prober = Prober(fabric, packet, TRAIN_ROUNDS * self._period_s, EVIDENT_PACKETS)
        self._number = 0
        self._polled_at = -np.inf
        self._answered = True
        self._answer: PortCounts | None = None
        self._queue = np.zeros(fabric.n_links)
        self._sent_since_poll: list[Train] = []
        """The answer to the last poll does not show these trains yet."""

    def receive(self, event: ControllerEvent) -> None:
        if isinstance(event, ProcessReady):
            self._counters.forget()
            self._sent_since_poll.clear()
            self._answered = True
        elif isinstance(event, PortCounts) and event.number == self._number:
            self._answer, self._answered = event, True

    def measure(self, telemetry: Measurement) -> Measurement:
        now_s, n = telemetry.t_s, self._fabric.n_links
        counted = Round(np.zeros(n), np.zeros(n), self._queue, np.full(n, np.nan))
        if self._answer is not None:
            counted = self._counters.count(self._answer.rows, now_s)
            self._queue, self._answer = counted.queue_bytes, None
        self._poll(now_s)
        return self._prober.cleaned(
            replace(
                telemetry,
                sent_bytes=counted.sent_bytes,
                sent_packets=counted.sent_packets,
                drops=np.zeros(n),  # a dropped packet leaves by no port, so no counter shows it
                queue_bytes=counted.queue_bytes,
                service_bps=counted.service_bps,
                probe_s=np.full(n, np.nan),
            )
        )

    def trains(self, now_s: float, links: LinkState) -> list[Train]:
        if not self._link.up:
            return []
        trains = [self._prober.train(link) for link in self._prober.due(now_s, links)]
        self._sent_since_poll += trains
        return trains

    def _poll(self, now_s: float) -> None:
        """Start the next poll if the last one is answered (or lost) and the period is over."""
        since = now_s - self._polled_at
        if not self._link.up or since < (self._period_s if self._answered else UNANSWERED_S):
            return
        for train in self._sent_since_poll:
            self._counters.sent_train(train, now_s)
        self._sent_since_poll.clear()
        self._number += 1
        self._polled_at, self._answered = now_s, False
        self._link.poll_ports(self._number)
