"""Where the health of links is measured: one of three sources, all in the words of `Measurement`."""

from __future__ import annotations

from typing import Protocol

from railweave.framework.hookspecs import Event, LinkState
from railweave.framework.lab.probing import Prober, Train
from railweave.framework.lab.switchboard import Switchboard
from railweave.framework.model import Fabric, Measurement, PacketFormat

QUEUE_LOOKS = 5
"""Looks during which a train keeps a healthy link busy."""


class Source(Protocol):
    """Asked at every look, in this order: `measure`, then `trains` if trains may be sent at all."""

    def measure(self, seen: Measurement) -> Measurement:
        """What this source knows of the interval. `seen`: what the shapers' own counters say (netlink); of it, every
        source takes the clock and the carrier, and `queue` alone the rest."""
        ...

    def trains(self, now_s: float, links: LinkState) -> list[Train]:
        """The measuring trains to send now; they are taken as sent."""
        ...

    def heard(self, event: Event) -> None:
        """The controller reported `ports` or `timed`, or has (again) started: `ready`."""
        ...


class QueueSource:
    """The shapers' queues and counters, read over netlink at every look."""

    def __init__(self, fabric: Fabric, packet: PacketFormat, interval_s: float) -> None:
        self._prober = Prober(fabric, packet, interval_s * QUEUE_LOOKS)

    def measure(self, seen: Measurement) -> Measurement:
        return self._prober.cleaned(seen)

    def trains(self, now_s: float, links: LinkState) -> list[Train]:
        return [self._prober.train(int(link)) for link in self._prober.due(now_s, links)]

    def heard(self, event: Event) -> None:
        """Nothing is asked of the controller here."""


def open_source(
    name: str, fabric: Fabric, packet: PacketFormat, interval_s: float, switchboard: Switchboard
) -> Source:
    """The source called `name`, hearing the switchboard's reports. `fabric` has emulated rates."""
    from railweave.framework.lab.counters import CounterSource
    from railweave.framework.lab.timing import ProbeSource

    source: Source
    match name:
        case "counters":
            source = CounterSource(fabric, packet, switchboard)
        case "probe":
            source = ProbeSource(fabric, switchboard)
        case _:
            source = QueueSource(fabric, packet, interval_s)
    switchboard.reports = source.heard
    return source
