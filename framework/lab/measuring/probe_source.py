"""Health from timed packets through the controller and the real queues of links."""

from dataclasses import replace

import numpy as np

from railweave.framework.hookspecs import LinkState
from railweave.framework.lab.measuring.train_timing import TrainTiming
from railweave.framework.lab.switching.controller_link import ControllerLink, Train
from railweave.framework.model import CONTROLLER_PORT, Fabric, Match, Measurement, Output, Rule
from railweave.framework.model.addressing import TRAIN_SEEN
from railweave.framework.model.events import ControllerEvent, ProcessReady, TrainTimed

PRIORITY = 100
"""Below the rules of all routes, none of which matches such a packet."""


def timing_rules(fabric: Fabric) -> tuple[Rule, ...]:
    """One rule per switch: the marked ends of timed trains go to the controller."""
    match = Match(ipv4_dst=(TRAIN_SEEN, 0xFFFFFFFF))
    return tuple(
        Rule(switch, PRIORITY, match, (Output(CONTROLLER_PORT),)) for switch in range(fabric.n_nodes)
    )


class ProbeSource:
    """Sends timed trains over every link in turn; a measurement is what came back since the last sample."""

    def __init__(self, fabric: Fabric, link: ControllerLink) -> None:
        self._fabric, self._link = fabric, link
        self._timing = TrainTiming(fabric)
        self._up = np.ones(fabric.n_links, bool)
        self._service, self._delay = np.full((2, fabric.n_links), np.nan)
        link.stand(timing_rules(fabric))

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
            queue_bytes=self._timing.queue_bytes,
            service_bps=service,
            probe_s=delay,
        )

    def trains(self, now_s: float, links: LinkState) -> list[Train]:
        return self._timing.departures(now_s, self._up) if self._link.up else []
