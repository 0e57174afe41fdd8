"""Sources of link health: one of three, all in the terms of `Measurement`."""

from dataclasses import replace
from typing import Protocol

import numpy as np

from railweave.framework.hookspecs import LinkState
from railweave.framework.lab.measuring.port_counters import EVIDENT_PACKETS, PortCounters, Round
from railweave.framework.lab.measuring.prober import Prober
from railweave.framework.lab.measuring.train_timing import TrainTiming
from railweave.framework.lab.switching.controller_link import ControllerLink, Train
from railweave.framework.model import CONTROLLER_PORT, Fabric, Match, Measurement, Output, PacketFormat, Rule
from railweave.framework.model.addressing import TRAIN_SEEN
from railweave.framework.model.events import ControllerEvent, PortCounts, ProcessReady, TrainTimed

QUEUE_SAMPLES = 5
"""Samples during which a train keeps a healthy link busy."""

PERIOD_S = 0.045  # samples come every 25 ms, but not to the microsecond
PERIOD_PER_SWITCH_S = 0.002
"""Seconds between polls, for each switch: what a poll costs the controller and the switches grows with
them."""

TRAIN_ROUNDS = 3
"""Polls that a train lasts on a healthy link, besides the packets that are evidence: it is queued during the
first and ends during the last."""

UNANSWERED_S = 2.0
"""Seconds after which a poll without an answer is given up: the switch was killed, or the controller."""

PRIORITY = 100
"""Below the rules of all routes, none of which matches the marked ends of a timed train."""


class Source(Protocol):
    """Called at every sample, in this order: `receive` for each report, `measure`, `trains` if trains are
    allowed."""

    def receive(self, event: ControllerEvent) -> None:
        """The controller reported PortCounts or TrainTimed, or has started (again): ProcessReady."""

    def measure(self, telemetry: Measurement) -> Measurement:
        """What this source knows of the interval. Of `telemetry` (the shapers' own counters, over netlink)
        every source takes the clock and the carriers, and QueueSource alone the rest."""

    def trains(self, now_s: float, links: LinkState) -> list[Train]:
        """The measuring trains to send now; the caller sends them all."""


class QueueSource:
    """The shapers' queues and counters, as the sampler reads them; `probing`: and trains over links of which
    they say too little."""

    def __init__(self, fabric: Fabric, packet: PacketFormat, interval_s: float, probing: bool) -> None:
        self._prober, self._probing = Prober(fabric, packet, interval_s * QUEUE_SAMPLES), probing

    def receive(self, event: ControllerEvent) -> None:
        """This source asks nothing of the controller."""

    def measure(self, telemetry: Measurement) -> Measurement:
        return self._prober.cleaned(telemetry)

    def trains(self, now_s: float, links: LinkState) -> list[Train]:
        return self._prober.trains(now_s, links) if self._probing else []


class CounterSource:
    """OpenFlow port statistics alone, polled through the controller. Keeps one poll of all ports under way; a
    sample between two answers repeats the queue of the last one."""

    def __init__(self, fabric: Fabric, packet: PacketFormat, link: ControllerLink) -> None:
        self._fabric, self._link = fabric, link
        self._counters = PortCounters(fabric, packet)
        self._period_s = max(PERIOD_S, PERIOD_PER_SWITCH_S * fabric.n_nodes)
        self._prober = Prober(fabric, packet, TRAIN_ROUNDS * self._period_s, EVIDENT_PACKETS)
        self._number, self._polled_at, self._answered = 0, -np.inf, True
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
                **counted._asdict(),
                drops=np.zeros(n),  # a dropped packet leaves by no port, so no counter shows it
                lost=np.zeros(n),  # a veth counts as received whatever was sent to it
                probe_s=np.full(n, np.nan),
                since_s=np.empty(0),
            )
        )

    def trains(self, now_s: float, links: LinkState) -> list[Train]:
        if not self._link.up:
            return []
        trains = self._prober.trains(now_s, links)
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


class ProbeSource:
    """Timed trains through the controller and the real queues of links, over every link in turn; a
    measurement is what came back since the last sample."""

    def __init__(self, fabric: Fabric, link: ControllerLink) -> None:
        self._fabric, self._link = fabric, link
        self._timing = TrainTiming(fabric)
        self._up = np.ones(fabric.n_links, bool)
        self._service, self._delay = np.full((2, fabric.n_links), np.nan)
        # one rule per switch: the marked ends of timed trains go to the controller
        match, actions = Match(ipv4_dst=(TRAIN_SEEN, 0xFFFFFFFF)), (Output(CONTROLLER_PORT),)
        link.stand(tuple(Rule(switch, PRIORITY, match, actions) for switch in range(fabric.n_nodes)))

    def receive(self, event: ControllerEvent) -> None:
        if isinstance(event, ProcessReady):
            self._timing.forget()
        elif isinstance(event, TrainTimed):
            timed = self._timing.arrived(event.number, event.sent_s, event.first_s, event.last_s)
            if timed is not None:
                link, rate, delay = timed
                self._service[link], self._delay[link] = rate, delay

    def measure(self, telemetry: Measurement) -> Measurement:
        nothing = np.zeros(self._fabric.n_links)
        service, delay, self._up = self._service, self._delay, telemetry.up
        self._service, self._delay = np.full((2, self._fabric.n_links), np.nan)
        return replace(
            telemetry,
            sent_bytes=nothing,
            sent_packets=nothing,
            drops=nothing,
            lost=nothing,
            queue_bytes=self._timing.queue_bytes,
            service_bps=service,
            probe_s=delay,
            since_s=np.empty(0),
        )

    def trains(self, now_s: float, links: LinkState) -> list[Train]:
        return self._timing.departures(now_s, self._up) if self._link.up else []


def open_source(
    name: str, fabric: Fabric, packet: PacketFormat, interval_s: float, link: ControllerLink
) -> Source:
    """The source called `name`; `measurements.py` passes it the controller's reports. `fabric` has emulated
    rates."""
    if name == "counters":
        return CounterSource(fabric, packet, link)
    if name == "probe":
        return ProbeSource(fabric, link)
    return QueueSource(fabric, packet, interval_s, probing=name == "auto")
