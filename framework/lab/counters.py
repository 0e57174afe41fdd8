"""Health from OpenFlow port statistics alone, polled through the controller."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from railweave.framework.hookspecs import Event, LinkState
from railweave.framework.lab.portcounters import EVIDENT_PACKETS, Counted, PortCounters
from railweave.framework.lab.probing import Prober, Train
from railweave.framework.lab.switchboard import Switchboard
from railweave.framework.model import Fabric, Measurement, PacketFormat

PERIOD_S = 0.045  # looks come every 25 ms, and not to the microsecond
PERIOD_A_SWITCH_S = 0.002
"""A round costs the controller and the switches time by the number of switches: no oftener than this for each."""

TRAIN_ROUNDS = 3
"""Periods that a train lasts on a healthy link, besides the packets that make evidence: it is queued somewhere
within the first, and ends somewhere within the last."""

UNANSWERED_S = 2.0


class CounterSource:
    """Keeps one poll of all ports under way. A look between two answers brings nothing but the queue last seen."""

    def __init__(self, fabric: Fabric, packet: PacketFormat, switchboard: Switchboard) -> None:
        self._fabric, self._switchboard = fabric, switchboard
        self._counters = PortCounters(fabric, packet)
        self._period_s = max(PERIOD_S, PERIOD_A_SWITCH_S * fabric.n_nodes)
        self._prober = Prober(fabric, packet, TRAIN_ROUNDS * self._period_s, EVIDENT_PACKETS)
        self._number = 0
        self._asked_at = -np.inf
        self._answered = True
        self._arrived: Event | None = None
        self._queue = np.zeros(fabric.n_links)
        self._later: list[tuple[int, float]] = []
        """Trains sent since the last poll was asked for: its answer does not show them yet."""

    def measure(self, seen: Measurement) -> Measurement:
        now, n = seen.t_s, self._fabric.n_links
        counted = Counted(np.zeros(n), np.zeros(n), self._queue, np.full(n, np.nan))
        if self._arrived is not None:
            counted = self._counters.count(self._arrived.data["rows"], now)
            self._queue, self._arrived = counted.queue_bytes, None
        self._poll(now)
        return self._prober.cleaned(
            replace(
                seen,
                sent_bytes=counted.sent_bytes,
                sent_packets=counted.sent_packets,
                drops=np.zeros(n),  # what is dropped leaves by no port and is counted by none
                queue_bytes=counted.queue_bytes,
                service_bps=counted.service_bps,
                probe_s=np.full(n, np.nan),
            )
        )

    def trains(self, now_s: float, links: LinkState) -> list[Train]:
        if not self._switchboard.up:
            return []
        trains = []
        for link in self._prober.due(now_s, links):
            trains.append(self._prober.train(int(link)))
            self._later.append((int(link), float(trains[-1].packets * trains[-1].size_bytes)))
        return trains

    def heard(self, event: Event) -> None:
        if event.kind == "ready":
            self._counters.forget()
            self._later.clear()
            self._answered = True
        elif event.kind == "ports" and event.data["number"] == self._number:
            self._arrived, self._answered = event, True

    def _poll(self, now: float) -> None:
        """Ask for the next round, if the last is answered (or lost) and its time has come."""
        since = now - self._asked_at
        if not self._switchboard.up or since < (self._period_s if self._answered else UNANSWERED_S):
            return
        for link, size in self._later:
            self._counters.sent_train(link, size, now)
        self._later.clear()
        self._number += 1
        self._asked_at, self._answered = now, False
        self._switchboard.poll_ports(self._number)
