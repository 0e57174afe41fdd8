"""Samples every shaper of a lab from a process of its own, so that nothing the lab computes delays one."""

import mmap
import os
import signal
import time
import traceback
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from railweave.framework.lab.measuring.queue_counters import (
    Dump,
    QueueCounters,
    ShardQueues,
    counters_of,
    read_all,
)
from railweave.framework.lab.measuring.service_meter import ServiceMeter
from railweave.framework.lab.measuring.stolen_time import StolenTime
from railweave.framework.lab.switching.marking import EcnMarker
from railweave.framework.model.arrays import Float, Int32
from railweave.framework.processes.namespaces import die_with_parent

SHARE = 0.1
"""Most of one core that sampling takes."""
SHORTEST_S, LONGEST_S = 0.002, 0.025
"""Bounds of the time between samples: below, timers are not exact; above, bursts pass unseen."""
JUDGED_S = 0.02
"""Seconds between two computations of rates, from all samples since the one before."""
USUAL = 8
"""Samples over which their cost is averaged."""


class Samples(NamedTuple):
    """(n,) each. The latest counters; what ServiceMeter says: service rates, when they were last confirmed
    and since when by what, all bytes that have waited."""

    t_s: Float
    sent_bytes: Float
    sent_packets: Float
    drops: Float
    queue_bytes: Float
    queue_packets: Float
    rate_bps: Float
    stated_s: Float
    since_s: Float
    waited_bytes: Float


class Sampler:
    """The process and the memory that it shares. `pid`: None once it has ended; samples are then taken when
    they are asked for. Times are time.monotonic()."""

    def __init__(
        self,
        shards: Sequence[ShardQueues],
        line_bps: Float,
        packet_bytes: float,
        switch: Int32 | None = None,
        marker: EcnMarker | None = None,
    ) -> None:
        self._shards, n, self._marker = shards, len(line_bps), marker
        memory = mmap.mmap(-1, 8 + 2 * len(Samples._fields) * n * 8)
        self._count = np.frombuffer(memory, np.int64, 1)
        self._slots = np.frombuffer(memory, np.float64, offset=8).reshape(2, len(Samples._fields), n)
        first = read_all(shards, n)
        self._meter, self._stolen = ServiceMeter(line_bps, packet_bytes, first, switch), StolenTime()
        self._publish(first)
        self.pid: int | None = None

    def start(self) -> int:
        """Sample in a process from now on; returns its id."""
        pid = os.fork()
        if pid == 0:
            try:
                self._run()
            except Exception:  # noqa: BLE001 - whatever it is, the log shows it
                traceback.print_exc()
            finally:
                os._exit(1)
        self.pid = pid
        return pid

    def read(self) -> Samples:
        """The latest sample."""
        if self.pid is None:
            self._judge([self._dump()])
        return self._latest()

    def _latest(self) -> Samples:
        while True:  # a slot is written again two samples later, thus again only if this was delayed for long
            count = int(self._count[0])
            samples = self._slots[count % 2].copy()
            if int(self._count[0]) == count:
                return Samples(*samples)

    def stop(self) -> None:
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            self.ended()

    def ended(self) -> None:
        """The process is gone: from now on samples are taken when they are asked for."""
        if self.pid is not None:
            os.waitpid(self.pid, 0)
            self.pid = None
            self._meter.all_waited_bytes = self._latest().waited_bytes

    def _run(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        die_with_parent(signal.SIGKILL)
        # an end of a channel that stays open here would hide that the lab has closed it
        kept = sorted(queues.fileno() for queues in self._shards)
        for low, high in pairwise((2, *kept, os.sysconf("SC_OPEN_MAX"))):
            os.closerange(low + 1, high)
        if self._marker is not None:
            self._marker.open()
        due = judged = time.monotonic()
        samples, usual_s = list[list[Dump]](), 0.0
        while True:
            began = time.thread_time()
            samples.append(self._dump())
            if self._marker is not None:
                n_links = len(self._meter.all_waited_bytes)
                self._marker.follow(counters_of(self._shards, samples[-1:], n_links).queue_bytes[0])
            if due >= judged + JUDGED_S:
                self._judge(samples)
                samples, judged = [], due
            usual_s += (time.thread_time() - began - usual_s) / USUAL
            due = max(due + min(max(usual_s / SHARE, SHORTEST_S), LONGEST_S), time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))

    def _dump(self) -> list[Dump]:
        return [queues.dump() for queues in self._shards]

    def _judge(self, samples: list[list[Dump]]) -> None:
        counters = counters_of(self._shards, samples, len(self._meter.all_waited_bytes))
        self._meter.add(counters, self._stolen.since_last())
        self._publish(QueueCounters(*(counter[-1] for counter in counters)))

    def _publish(self, counters: QueueCounters) -> None:
        following = int(self._count[0]) + 1
        meter, rates = self._meter, self._meter.rates
        metered = meter.rate_bps, rates.stated_s, rates.since_s, meter.all_waited_bytes
        self._slots[following % 2] = (*counters, *metered)
        self._count[0] = following
