"""Queue telemetry: measurements of all links from what the sampler has seen."""

from typing import Self

import numpy as np

from railweave.framework.lab.measuring.queue_counters import QueueCounters, ShardQueues, read_all
from railweave.framework.lab.measuring.red_marker import Marker
from railweave.framework.lab.measuring.sampler import Sampler
from railweave.framework.lab.switching.emulation import Emulation
from railweave.framework.lab.switching.marking import EcnMarker
from railweave.framework.model import Fabric, Measurement, PacketFormat
from railweave.framework.model.arrays import Bool


class QueueTelemetry:
    """Measurements of all links of a lab, one per call: counters and queues of the latest sample, and the
    service rate of every link of which samples since the last call say one. `last`: the latest sample;
    `marker`: what marks by queues."""

    def __init__(self, sampler: Sampler, shards: list[ShardQueues], marker: Marker | None = None) -> None:
        self.sampler, self._shards, self.marker = sampler, shards, marker
        self.last = sampler.read()

    @classmethod
    def of(cls, lab: Emulation, scaled: Fabric, packet: PacketFormat, marker: Marker | None = None) -> Self:
        """The telemetry of every link of a lab that is shaped: per shard a netlink socket for the sampler and
        one for snapshots."""
        sampled, for_snapshots = (
            [
                ShardQueues(shard.namespace, {link: lab.interfaces[link] for link in links})
                for shard, links in lab.by_shard(np.arange(scaled.n_links))
            ]
            for _ in range(2)
        )
        sampler = Sampler(
            sampled, scaled.capacity_bps, packet.full_packet_bytes, scaled.link_element,
            marker if isinstance(marker, EcnMarker) else None,
        )  # fmt: skip
        return cls(sampler, for_snapshots, marker)

    def snapshot(self) -> QueueCounters:
        """The cumulative counters at this moment; not a sample."""
        return read_all(self._shards, len(self.last.t_s))

    def measure(self, start_s: float, up: Bool) -> Measurement:
        """What was seen since the last call. `start_s`: time.monotonic() of the run's start."""
        now, last = self.sampler.read(), self.last
        self.last = now
        t, before = float(now.t_s.max()), float(last.t_s.max())
        return Measurement(
            t_s=t - start_s,
            dt_s=max(t - before, 1e-6),
            sent_bytes=now.sent_bytes - last.sent_bytes,
            sent_packets=now.sent_packets - last.sent_packets,
            drops=now.drops - last.drops,
            lost=np.full(len(up), np.nan),
            queue_bytes=now.queue_bytes,
            waited_bytes=now.waited_bytes - last.waited_bytes,
            service_bps=np.where(now.stated_s > last.t_s, now.rate_bps, np.nan),
            probe_s=np.full(len(up), np.nan),
            up=up,
            since_s=now.since_s - start_s,
        )
