"""Health from timed packets through the controller and the real queues of links."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from railweave.framework.addressing import TRAIN_SEEN
from railweave.framework.hookspecs import Event, LinkState
from railweave.framework.lab.probing import Train
from railweave.framework.lab.switchboard import Switchboard
from railweave.framework.lab.traintimes import TrainTimes
from railweave.framework.model import (
    CONTROLLER_PORT,
    Fabric,
    Match,
    Measurement,
    Output,
    Rule,
)

PRIORITY = 100
"""Below every route's rule: none of them takes such a packet."""


def timing_rules(fabric: Fabric) -> tuple[Rule, ...]:
    """One rule per switch: the marked ends of timed trains go to the controller."""
    match = Match(ipv4_dst=(TRAIN_SEEN, 0xFFFFFFFF))
    return tuple(
        Rule(switch, PRIORITY, match, (Output(CONTROLLER_PORT),)) for switch in range(fabric.n_nodes)
    )


class ProbeSource:
    """Sends timed trains over every link in turn; what came back between two looks is the measurement."""

    def __init__(self, fabric: Fabric, switchboard: Switchboard) -> None:
        self._fabric, self._switchboard = fabric, switchboard
        self._times = TrainTimes(fabric)
        self._up = np.ones(fabric.n_links, bool)
        self._service, self._delay = np.full(fabric.n_links, np.nan), np.full(fabric.n_links, np.nan)
        switchboard.stand(timing_rules(fabric))

    def measure(self, seen: Measurement) -> Measurement:
        nothing = np.zeros(self._fabric.n_links)
        service, delay, self._up = self._service, self._delay, seen.up
        self._service, self._delay = nothing + np.nan, nothing + np.nan
        return replace(
            seen,
            sent_bytes=nothing,
            sent_packets=nothing,
            drops=nothing,
            queue_bytes=self._times.queue_bytes,
            service_bps=service,
            probe_s=delay,
        )

    def trains(self, now_s: float, links: LinkState) -> list[Train]:
        if not self._switchboard.up:
            return []
        src, port, size = self._fabric.link_src, self._fabric.link_port, self._times.packet_bytes
        return [
            Train(int(src[go.link]), int(port[go.link]), go.packets, size, go.number)
            for go in self._times.departures(now_s, self._up)
        ]

    def heard(self, event: Event) -> None:
        if event.kind == "ready":
            self._times.forget()
        elif event.kind == "timed":
            found = self._times.arrived(**event.data)
            if found is not None:
                link, rate, delay = found
                self._service[link], self._delay[link] = rate, delay
