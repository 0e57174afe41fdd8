"""The rate scale of a lab: as the experiment gives it, or by what this lab can carry."""

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from railweave.framework.analysis.limits.timeline import Timeline
from railweave.framework.experiment.plan import Plan
from railweave.framework.lab.job_traffic import JobTraffic
from railweave.framework.lab.switching.calibration import (
    TRIES,
    Capacity,
    auto_scale,
    busiest_phase_hops,
    calibrate,
    late_share,
    neighbour_hops,
    packet_latency_s,
    slowed,
    slower_scale,
)
from railweave.framework.lab.switching.calibration import trial as measure_by_trial
from railweave.framework.lab.switching.emulation import Emulation
from railweave.framework.lab.transport_link import TransportLink
from railweave.framework.model import Fabric, RouteTable, Schedule
from railweave.framework.registry import Registers
from railweave.framework.routing.route_control import RouteControl

TRIED_S = 1.0
"""Seconds that an iteration may take to be tried, and after which it is not tried again: in longer ones what
the lab adds does not count."""


class _TrialTraffic(NamedTuple):
    """A schedule that a job carries out: who sends, and how long its links need at declared rates."""

    link: TransportLink
    schedule: Schedule
    timeline: Timeline


class RateScale:
    """Chooses the rate scale and shapes the lab's links by it.

    `until(done, what)` waits. `capacity`: what the switches can carry, None where the experiment gives the
    scale; `latency_s`: of a packet before the links are shaped, None where programs alone run.
    """

    def __init__(
        self,
        plan: Plan,
        registers: Registers,
        lab: Emulation,
        traffic: JobTraffic,
        until: Callable[[Callable[[], bool], str], None],
    ) -> None:
        self._plan, self._registers, self._lab, self._until = plan, registers, lab, until
        self._traffic = traffic
        self.capacity: Capacity | None = None
        self.latency_s: float | None = None

    def shape(self, control: RouteControl) -> tuple[float, Fabric]:
        """Shape every link and pace the senders: the scale, and the fabric with the rates in use."""
        self._until(lambda: self._traffic.up, "the transport to start")
        chooses = self._plan.experiment.rate_scale == "auto"
        carried = self._carried(control.table) if chooses else []
        scale = self._first(control, carried)
        tried, times = list[tuple[float, float]](), [traffic.timeline for traffic in carried]
        while len(tried) < TRIES and (late := self._late(control, scale, carried)) is not None:
            tried.append((scale, late))
            before, scale = scale, slower_scale(tried, times)
            if scale >= before:
                break
        if chooses:
            scale = slowed(scale, self._plan)
        self._pace(control, scale)
        return scale, self._lab.scaled

    def _late(self, control: RouteControl, scale: float, carried: list[_TrialTraffic]) -> float | None:
        """The late share of short iterations at a scale, None where there are none; the links are as unshaped
        as before."""
        short = [traffic for traffic in carried if 0 < traffic.timeline.seconds() <= TRIED_S * scale]
        if not short or not self._plan.keeps_shares:  # others take longer than their links
            return None
        self._pace(control, scale)
        took = [
            (traffic.timeline.seconds(), median(self._times(traffic.link, traffic.schedule)))
            for traffic in short
        ]
        self._lab.unshape()  # a run begins with full buckets and counters of 0
        return late_share(scale, took)

    def _pace(self, control: RouteControl, scale: float) -> None:
        self._lab.shape(self._plan.fabric.scaled(scale))
        self._traffic.use_entropies(control.entropies, scale)

    def _carried(self, table: RouteTable) -> list[_TrialTraffic]:
        """What the jobs' transports carry, by time."""
        plan = self._plan
        carried = [
            _TrialTraffic(link, schedule, Timeline(plan.fabric, job.on_gpus(schedule), table, plan.packet))
            for job, link in zip(plan.jobs, self._traffic.links, strict=True)
            if isinstance(link, TransportLink)
            for schedule in job.schedules
        ]
        return sorted(carried, key=lambda traffic: traffic.timeline.seconds())

    def _first(self, control: RouteControl, carried: list[_TrialTraffic]) -> float:
        """As the experiment gives it, or from what this lab can carry; measures the latency of a packet."""
        plan, table, trial = self._plan, control.table, self._traffic.trial

        def carry(collective: str, schedule: Schedule) -> float:
            assert trial is not None
            return self._carry(trial, schedule, collective)

        if trial is not None:
            trial.use_entropies(control.entropies)
            self.latency_s = packet_latency_s(plan, self._registers, table, carry)
        scale = plan.experiment.rate_scale
        if scale == "auto" and trial is not None and self._lab.kernel_datapath:
            self.capacity = measure_by_trial(plan, self._registers, table, carry)
        elif scale == "auto":
            self.capacity = calibrate(self._lab, table, plan.packet)
        self._traffic.end_trial()
        if self.capacity is None:
            return float(scale)
        times = [traffic.timeline for traffic in carried]
        return auto_scale(self.capacity, self._hops_s(table), self.latency_s, times)

    def _hops_s(self, table: RouteTable) -> float:
        """Packet-hops per second in the busiest phases of all jobs together, at declared rates."""
        plan, hops_s = self._plan, 0.0
        for job in plan.jobs:
            if job.experiment.program:
                hops_s += neighbour_hops(plan.fabric, table, plan.packet)
                continue
            placed = tuple(job.on_gpus(schedule) for schedule in job.schedules)
            hops_s += busiest_phase_hops(replace(job, schedules=placed), table)
        return hops_s

    def _times(self, link: TransportLink, schedule: Schedule) -> list[float]:
        """Seconds of a schedule, up to TRIES times; none begins after TRIED_S."""
        end, times = time.monotonic() + TRIED_S, list[float]()
        while not times or (len(times) < TRIES and time.monotonic() < end):
            times.append(self._carry(link, schedule))
        return times

    def _carry(self, link: TransportLink, schedule: Schedule, collective: str | None = None) -> float:
        """Let a transport carry a schedule out before the run; the seconds it took."""
        link.try_out(schedule, collective)
        self._until(lambda: link.finished() is not None, "the transport's trial")
        result = link.finished()
        assert result is not None
        return result.seconds
