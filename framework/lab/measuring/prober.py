"""Trains of a lab, which the controller sends into the real queues; what they queue is no traffic's."""

from dataclasses import replace

import numpy as np

from railweave.framework.health.trains import IDLE_S, TrainTimes
from railweave.framework.hookspecs import LinkState
from railweave.framework.lab.measuring.sampler import SHORTEST_S
from railweave.framework.lab.switching.controller_link import Train
from railweave.framework.lab.switching.shaping import QUEUE_PACKETS, SHORT_BYTES
from railweave.framework.model import Fabric, Measurement, PacketFormat


class Prober:
    """Decides which links need a train, and removes the trains' own queues from the measurement.

    `fill_s`: how long a train keeps a healthy link busy, but for what its queue does not hold; `extra`:
    packets of a train in addition to those. A link that sends a full queue between two samples gets none,
    as it could not be seen. At 400 Gb/s such a train was of 1.5 million packets, and the switches did nothing
    else for a minute.
    """

    def __init__(self, fabric: Fabric, packet: PacketFormat, fill_s: float, extra: int = 0) -> None:
        shown = QUEUE_PACKETS * packet.full_packet_bytes * 8 / fabric.capacity_bps > SHORTEST_S
        self._fabric, self._times = fabric, TrainTimes(fabric, packet, fill_s, extra, shown)

    def cleaned(self, measurement: Measurement) -> Measurement:
        """The measurement without the queues of our own trains."""
        times, now = self._times, measurement.t_s
        traffic = (measurement.sent_packets > 0) & ~times.out  # the end of a train is no traffic either
        times.out &= (measurement.queue_bytes > 0) | (now - times.sent_s < IDLE_S / 2)
        data = measurement.sent_bytes > SHORT_BYTES * measurement.sent_packets  # not acknowledgements alone
        times.seen(now, traffic, data & traffic, traffic & ~np.isnan(measurement.service_bps))
        return replace(measurement, queue_bytes=np.where(times.out, 0.0, measurement.queue_bytes))

    def trains(self, now_s: float, links: LinkState) -> list[Train]:
        """The trains to send now, which the caller sends. `now_s`: time of the last measurement."""
        due = self._times.due(now_s, links)
        packets, sizes = self._times.trains(due, links)
        return [
            Train.over(self._fabric, link, min(int(count), QUEUE_PACKETS), int(size))
            for link, count, size in zip(due.tolist(), packets, sizes, strict=True)
        ]
