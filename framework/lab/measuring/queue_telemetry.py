"""Queue telemetry: one netlink dump of every shaper of a shard, from one socket, at every sample (25 ms).

The dump is parsed here rather than by a netlink library because the same cores switch the packets: for 64
links it takes 0.2 ms, pyroute2 3.6 ms, `tc -s -j qdisc show` 2.6 ms and a fork (docs/dependencies.md).
"""

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from railweave.framework.errors import LabError
from railweave.framework.lab.switching.emulation import Emulation
from railweave.framework.lab.switching.shaping import SHAPER_HANDLE
from railweave.framework.model import Measurement
from railweave.framework.model.arrays import Bool, Float
from railweave.framework.processes.namespaces import NetNamespace

NETLINK_ROUTE = 0
RTM_NEWQDISC, RTM_GETQDISC = 36, 38
NLM_F_REQUEST_DUMP = 0x301
NLMSG_ERROR, NLMSG_DONE = 2, 3
TCA_STATS2, TCA_STATS_BASIC, TCA_STATS_QUEUE = 7, 1, 3
NLA_TYPE = 0x3FFF

SLOWER_OVER_S = 0.1
"""Time constant, in busy time, with which a slower reading replaces the rate."""

_HEADER = struct.Struct("=IHHII")
_TCMSG = struct.Struct("=BxxxiIII")
_ATTRIBUTE = struct.Struct("=HH")
_BASIC = struct.Struct("=QI")
_QUEUE = struct.Struct("=III")
DUMP_REQUEST = _HEADER.pack(36, RTM_GETQDISC, NLM_F_REQUEST_DUMP, 0, 0) + _TCMSG.pack(0, 0, 0, 0, 0)


class QueueCounters(NamedTuple):
    """Counters of many shapers at one instant: cumulative bytes, packets and drops; queued bytes."""

    t_s: Float
    sent_bytes: Float
    sent_packets: Float
    drops: Float
    queue_bytes: Float


class ShardQueues:
    """Reads the shapers of one namespace. `interfaces`: the one of each link."""

    def __init__(self, namespace: NetNamespace, interfaces: Mapping[int, str]) -> None:
        with namespace.entered():
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE)
            self._socket.bind((0, 0))
            self._link_of = {socket.if_nametoindex(name): link for link, name in interfaces.items()}

    def read(self, into: QueueCounters) -> None:
        """Write the counters of each link to its position in `into`."""
        self._socket.send(DUMP_REQUEST)
        missing = len(self._link_of)
        while True:
            data = self._socket.recv(1 << 18)
            now = time.monotonic()
            offset = 0
            while offset < len(data):
                length, kind, _flags, _sequence, _port = _HEADER.unpack_from(data, offset)
                if kind == NLMSG_DONE:
                    if missing:
                        raise LabError(f"{missing} interfaces of a shard have lost their shaper.")
                    return
                if kind == NLMSG_ERROR:
                    raise LabError("the kernel refused to list the shapers of a shard.")
                if kind == RTM_NEWQDISC:
                    _family, index, handle, _parent, _info = _TCMSG.unpack_from(data, offset + 16)
                    if handle == SHAPER_HANDLE and index in self._link_of:
                        self._store(data, offset + 36, offset + length, self._link_of[index], now, into)
                        missing -= 1
                offset += (length + 3) & ~3

    @staticmethod
    def _store(data: bytes, offset: int, end: int, i: int, now: float, into: QueueCounters) -> None:
        inside = False
        while offset + 4 <= end:
            length, kind = _ATTRIBUTE.unpack_from(data, offset)
            kind &= NLA_TYPE
            if not inside and kind == TCA_STATS2:
                inside, end = True, offset + length
                offset += 4
                continue
            if inside and kind == TCA_STATS_BASIC:
                into.sent_bytes[i], into.sent_packets[i] = _BASIC.unpack_from(data, offset + 4)
            elif inside and kind == TCA_STATS_QUEUE:
                _packets, into.queue_bytes[i], into.drops[i] = _QUEUE.unpack_from(data, offset + 4)
            offset += (length + 3) & ~3
        into.t_s[i] = now


class QueueTelemetry:
    """Measurements of all links of a lab, one per call, with the service rate of links that stayed
    backlogged.

    A link that sent less than was queued at the previous sample was never idle in between: exact, since
    queues are first in, first out. Bytes over time along an unbroken chain of such samples is its service
    rate, which counts after `packets` packets (so it is exact to one in that many); then a new chain begins.
    A busy machine makes links late, never early: a faster reading counts at once, a slower one by its time
    against SLOWER_OVER_S, so one late moment does not make a fast link slow.

    `last`: the counters of the latest sample.
    """

    def __init__(self, shards: Sequence[ShardQueues], n_links: int, *, packets: int = 8) -> None:
        self._shards, self._n, self._packets = shards, n_links, packets
        self.last = self._anchor = self.snapshot()
        self._rate = np.zeros(n_links)

    @classmethod
    def of(cls, lab: Emulation) -> Self:
        """The telemetry of every link of a lab that is shaped: one netlink socket per shard."""
        links = np.arange(lab.fabric.n_links)
        shards = [
            ShardQueues(shard.namespace, {link: lab.interfaces[link] for link in own})
            for shard, own in lab.by_shard(links)
        ]
        return cls(shards, len(links))

    def snapshot(self) -> QueueCounters:
        """The cumulative counters at this moment; not a sample."""
        counters = QueueCounters(*np.zeros((5, self._n)))
        for queues in self._shards:
            queues.read(counters)
        return counters

    def measure(self, start_s: float, up: Bool) -> Measurement:
        """The interval since the last call. `start_s`: time.monotonic() of the run's start."""
        now, last, anchor = self.snapshot(), self.last, self._anchor
        busy = now.sent_bytes - last.sent_bytes < last.queue_bytes
        evident = busy & (now.sent_packets - anchor.sent_packets >= self._packets)
        took = now.t_s - anchor.t_s
        rate = np.divide((now.sent_bytes - anchor.sent_bytes) * 8, took, out=self._rate.copy(), where=evident)
        share = np.where(rate < self._rate, 1 - np.exp(-took / SLOWER_OVER_S), 1.0)
        self._rate = self._rate + share * (rate - self._rate)
        self._anchor = QueueCounters(*np.where(evident | ~busy, now, anchor))
        self.last = now
        t = float(now.t_s.max())
        return Measurement(
            t_s=t - start_s,
            dt_s=t - float(last.t_s.max()),
            sent_bytes=now.sent_bytes - last.sent_bytes,
            sent_packets=now.sent_packets - last.sent_packets,
            drops=now.drops - last.drops,
            queue_bytes=now.queue_bytes,
            service_bps=np.where(evident, self._rate, np.nan),
            probe_s=np.full(self._n, np.nan),
            up=up,
        )
