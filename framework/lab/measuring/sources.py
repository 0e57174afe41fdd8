"""Sources of link health: one of three, all in the terms of `Measurement`."""

from typing import Protocol

from railweave.framework.hookspecs import LinkState
from railweave.framework.lab.measuring.trains import Prober
from railweave.framework.lab.switching.controller_link import ControllerLink, Train
from railweave.framework.model import Fabric, Measurement, PacketFormat
from railweave.framework.model.events import ControllerEvent

QUEUE_SAMPLES = 5
"""Samples during which a train keeps a healthy link busy."""


class Source(Protocol):
    """Called at every sample, in this order: `receive` for each report, `measure`, `trains` if trains are
    allowed."""

    def receive(self, event: ControllerEvent) -> None:
        """The controller reported PortCounts or TrainTimed, or has started (again): ProcessReady."""
        ...

    def measure(self, telemetry: Measurement) -> Measurement:
        """What this source knows of the interval. Of `telemetry` (the shapers' own counters, over netlink)
        every source takes the clock and the carriers, and `queue` alone the rest."""
        ...

    def trains(self, now_s: float, links: LinkState) -> list[Train]:
        """The measuring trains to send now; the caller sends them all."""
        ...


class QueueSource:
    """The shapers' queues and counters, read over netlink at every sample."""

    def __init__(self, fabric: Fabric, packet: PacketFormat, interval_s: float) -> None:
        self._prober = Prober(fabric, packet, interval_s * QUEUE_SAMPLES)

    def receive(self, event: ControllerEvent) -> None:
        """This source asks nothing of the controller."""

    def measure(self, telemetry: Measurement) -> Measurement:
        return self._prober.cleaned(telemetry)

    def trains(self, now_s: float, links: LinkState) -> list[Train]:
        return [self._prober.train(link) for link in self._prober.due(now_s, links)]


def open_source(
    name: str, fabric: Fabric, packet: PacketFormat, interval_s: float, link: ControllerLink
) -> Source:
    """The source called `name`; `measurements.py` passes it the controller's reports. `fabric` has emulated
    rates."""
    from railweave.framework.lab.measuring.counter_source import CounterSource
    from railweave.framework.lab.measuring.probe_source import ProbeSource

    match name:
        case "counters":
            return CounterSource(fabric, packet, link)
        case "probe":
            return ProbeSource(fabric, link)
        case _:
            return QueueSource(fabric, packet, interval_s)
