"""The measurements of a lab: queue telemetry, and the source of health that the experiment selects."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from railweave.framework.hookspecs import LinkState
from railweave.framework.lab.measuring.arrivals import IngressArrivals, LossMeter, SocketArrivals
from railweave.framework.lab.measuring.health_sources import Source
from railweave.framework.lab.measuring.job_counters import JobCounters
from railweave.framework.lab.measuring.queue_telemetry import QueueTelemetry
from railweave.framework.lab.switching.controller_link import ControllerLink
from railweave.framework.lab.switching.emulation import Emulation
from railweave.framework.model import Measurement, PathCounts
from railweave.framework.model.arrays import Float
from railweave.framework.model.findings import LinkTotals

DRAIN_S = 0.5
"""Seconds for packets on replaced paths to pass busy switches, besides the queues of links."""
DRAIN_QUEUES = 4
"""Most queues, each as long as the longest, that a packet on a replaced path waits in."""

SOCKET_EVERY_S, INGRESS_EVERY_S = 3e-4, 0.5
"""Seconds between counts of arrivals: for each link, whose socket takes 3 us to read (1 % of a core), and
with the kernel datapath, where reading takes a process for each shard; as it does for marks."""


class LabMeasurements:
    """A source of measurements (runs/parts.py). `start_s()`: time.monotonic() when the run's clock started;
    `jobs`: counters of programs; `path_counts`: what senders have learnt since the last call, if anything.

    `most_waiting_bytes`: the most bytes queued at once at the links of one shard.
    """

    def __init__(
        self,
        lab: Emulation,
        telemetry: QueueTelemetry,
        source: Source,
        link: ControllerLink,
        start_s: Callable[[], float],
        jobs: JobCounters,
        path_counts: Callable[[], PathCounts | None],
    ) -> None:
        self._jobs, self._path_counts = jobs, path_counts
        self._lab, self._source, self._link, self._start_s = lab, source, link, start_s
        self._telemetry = telemetry
        arrivals, every_s = (
            (IngressArrivals(lab), INGRESS_EVERY_S)
            if lab.kernel_datapath
            else (SocketArrivals(lab), SOCKET_EVERY_S * lab.fabric.n_links)
        )
        self._losses = LossMeter(arrivals, self._telemetry.snapshot().sent_packets, every_s)
        self._lost, self._counted = self._losses.total, self._losses.counted
        self._marks, self._marks_read_s = np.zeros(lab.fabric.n_links), -np.inf
        self._shard_of_link = lab.placement[lab.fabric.link_src]
        self.most_waiting_bytes = 0

    def measure(self) -> Measurement:
        for report in self._link.take_reports():
            self._source.receive(report)
        up = np.ones(self._lab.fabric.n_links, bool)
        up[list(self._link.down_links)] = False
        telemetry = self._telemetry.measure(self._start_s(), up)
        lost, counted, losses = np.full(len(up), np.nan), np.zeros(len(up)), self._losses
        if losses.due:
            losses.count(self._telemetry.snapshot().sent_packets)
            lost, self._lost = losses.total - self._lost, losses.total
            counted, self._counted = losses.counted - self._counted, losses.counted
        waiting = int(np.bincount(self._shard_of_link, telemetry.queue_bytes).max())
        self.most_waiting_bytes = max(self.most_waiting_bytes, waiting)
        telemetry = replace(
            telemetry, lost=lost, counted=counted, marked=self._new_marks(), paths=self._path_counts()
        )
        return self._source.measure(telemetry)

    def _new_marks(self) -> Float:
        """(n_links,) since the last time; empty where nothing is marked, or not yet read again."""
        marker, now_s = self._telemetry.marker, time.monotonic()
        if marker is None or now_s < self._marks_read_s + INGRESS_EVERY_S:
            return np.empty(0)
        self._marks_read_s, marked = now_s, np.nan_to_num(marker.read())
        before, self._marks = self._marks, marked
        return marked - before

    def probe(self, now_s: float, links: LinkState) -> None:
        self._link.send_trains(self._source.trains(now_s, links))

    def totals(self) -> LinkTotals:
        now = self._telemetry.snapshot()
        job_bytes = self._jobs.read()
        self._losses.count(now.sent_packets)
        self._losses.count(self._telemetry.snapshot().sent_packets)  # what one misses may be under way
        marker, totals = self._telemetry.marker, (now.sent_bytes, now.sent_packets, now.drops)
        marked = np.empty(0) if marker is None else marker.read()
        return LinkTotals(*totals, self._losses.total, job_bytes, marked)

    def drain_s(self) -> float:
        """How long packets may still be on paths that were just replaced, at the present rates."""
        waiting = self._telemetry.last.queue_bytes * 8 / self._lab.rates_bps
        return DRAIN_S + DRAIN_QUEUES * float(waiting.max())
