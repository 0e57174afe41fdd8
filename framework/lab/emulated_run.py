"""What the emulation supplies to a run (runs/parts.py): switches, shaped links, the wall clock."""

import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from railweave.framework.errors import LabError, RailweaveError
from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.experiment.plan import Plan
from railweave.framework.experiment.plugin_calls import wants_paths
from railweave.framework.experiment.ramp import ramp_of
from railweave.framework.experiment.wants import controls
from railweave.framework.lab.faults.injector import Injector
from railweave.framework.lab.job_traffic import JobTraffic
from railweave.framework.lab.measuring.health_sources import open_source
from railweave.framework.lab.measuring.job_counters import JobCounters
from railweave.framework.lab.measuring.measurements import LabMeasurements
from railweave.framework.lab.measuring.queue_telemetry import QueueTelemetry
from railweave.framework.lab.measuring.red_marker import Marker, marker_of
from railweave.framework.lab.rate_scale import RateScale
from railweave.framework.lab.switching.controller_link import ControllerLink
from railweave.framework.lab.switching.emulation import (
    CONTROLLED_QUEUE_PACKETS,
    QUEUE_PACKETS,
    Emulation,
    cpu_seconds,
)
from railweave.framework.lab.switching.host_addresses import open_to_programs
from railweave.framework.lab.switching.marking import EcnMarker
from railweave.framework.model import Fabric
from railweave.framework.model.events import RunEvent
from railweave.framework.model.findings import EngineFacts
from railweave.framework.model.traffic import RankOutcome
from railweave.framework.processes.event_loop import Watch
from railweave.framework.processes.memory import total_pss_bytes
from railweave.framework.processes.programs import run, tool
from railweave.framework.processes.sessions import weigh_session
from railweave.framework.registry import Registers
from railweave.framework.routing.route_control import RouteControl
from railweave.framework.runs.parts import EngineParts
from railweave.framework.runs.recorder import Recorder
from railweave.framework.runs.session import Session

BRING_UP_WITHIN_S = 60.0
"""Seconds for all switches to connect and take their rules; a lab that takes longer has failed."""
CAPTURE_LOG = "/run/railweave/capture.log"
URGENT = -5
"""Niceness of the processes that measure and reroute, among processes and among sessions: next to the
switches of 256 GPUs on two cores a change of routes took 0.45 s for 0.1 s of work."""


def _go_first(pid: int) -> None:
    """Give a process and its session URGENT, and the processes that it will start none of their own; nothing
    where only root may do so, or where it has just died, which its owner hears of."""
    with suppress(PermissionError, ProcessLookupError):
        os.sched_setscheduler(pid, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, pid, URGENT)
        weigh_session(pid, URGENT)


class WallClock:
    """The run's clock, and the event loop that waits for it. Stands at 0 until `start`. `start_s`:
    time.monotonic() of the start, None before."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.start_s: float | None = None

    def start(self) -> None:
        self.start_s = self.start_s or time.monotonic()

    def now_s(self) -> float:
        return 0.0 if self.start_s is None else time.monotonic() - self.start_s

    def wait(self, until_s: float) -> None:
        """Make the calls of the event loop that come first, at `until_s` at the latest."""
        left = until_s - self.now_s()
        self.watch.wait(None if left == float("inf") else max(0.0, left))


class EmulatedRun:
    """Runs one plan on Mininet and Open vSwitch, in this process's namespaces (runs/parts.py: RunEngine).

    All waiting is in `watch`. `hosts_open`: whether programs use the hosts, as they do in a plan that has
    one.
    """

    def __init__(
        self,
        plan: Plan,
        registers: Registers,
        recorder: Recorder,
        clock: WallClock,
        directory: str | None = None,
        *,
        hosts_open: bool = False,
    ) -> None:
        self._hosts_open = hosts_open or any(job.experiment.program for job in plan.jobs)
        self._plan, self._registers, self._recorder, self.clock = plan, registers, recorder, clock
        self.watch = watch = clock.watch
        controlled = any(controls(job.experiment) for job in plan.jobs)
        self.lab = Emulation(
            plan.fabric, plan.experiment.path_mtu, str(plan.experiment.engine.options["datapath"]),
            CONTROLLED_QUEUE_PACKETS if controlled else QUEUE_PACKETS,
        )  # fmt: skip
        self.traffic = JobTraffic(plan, registers, watch, recorder.emit, directory)
        self.injector = Injector(self.lab, watch, self._controller_pid, self._daemon_ended, recorder.note)
        self.scale = RateScale(plan, registers, self.lab, self.traffic, self.until)
        self.link: ControllerLink | None = None
        self.telemetry: QueueTelemetry | None = None
        self._rules, self._install_s, self._memory_peak_bytes = 0, 0.0, 0
        self._cpu_before: dict[str, float] = {}

    # -- bring-up --------------------------------------------------------------------------------------
    def bring_up(self, control: RouteControl) -> EngineParts:
        began, plan = time.monotonic(), self._plan
        Path("/run/railweave").mkdir()
        # their imports take longest, so they start first and the fabric is built meanwhile
        link = self.link = ControllerLink(
            plan.fabric, plan.controller, self.watch, intent=lambda: control.rules,
            drain_s=lambda: self.measurements.drain_s(), note=self._recorder.note,
            agreement=self._recorder.agreement,
        )  # fmt: skip
        link.start(self.lab.open_namespaces())
        ends = self.lab.endpoints()
        if wants_paths(plan.estimator):
            self.traffic.count_paths(control.table)
        self.traffic.start(ends)
        self.lab.build()
        for shard in self.lab.shards:
            for name, pid in shard.pids.items():
                self.watch.ending(pid, self._daemon_ended(shard.index, name))
        self.until(lambda: link.up, "the controller to start")
        self.until(lambda: len(link.switches_up) == plan.fabric.n_nodes, "the switches to connect")
        link.install()
        self.until(lambda: link.install_s is not None, "the first rules to be installed")
        self._rules, self._install_s = len(control.rules), link.install_s or 0.0
        rate_scale, scaled = self.scale.shape(control)
        if self._hosts_open:
            open_to_programs(self.lab, scaled, plan.packet, rocev2=self.traffic.trial is not None)
        if self.lab.short_packets_wait:
            self._recorder.note(f"acknowledgements wait behind data: {self.lab.short_packets_wait}")
        source = open_source(
            plan.experiment.measure, scaled, plan.packet, plan.experiment.health.interval_s, link
        )
        self.telemetry = QueueTelemetry.of(self.lab, scaled, plan.packet, self._marker())
        self.watch.ending(self.telemetry.sampler.start(), self._sampler_ended)
        jobs = JobCounters(self.lab, self.traffic.told_apart, len(plan.jobs))
        self.measurements = LabMeasurements(
            self.lab, self.telemetry, source, link, lambda: self.clock.start_s or 0.0, jobs,
            self.traffic.path_counts,
        )  # fmt: skip
        for pid in filter(None, (os.getpid(), link.pid)):
            _go_first(pid)
        gc.collect()
        gc.freeze()  # collecting what stays for the whole run takes 50 ms, in the middle of a reroute
        return EngineParts(
            scaled, rate_scale, self._summary(scaled, rate_scale), time.monotonic() - began,
            tuple(ends), self.measurements, link, self.injector, self.traffic.links,
            concurrent=True, senders=lambda paths: self._plan.senders(rate_scale, paths).unstored(),
        )  # fmt: skip

    def _marker(self) -> Marker | None:
        """What marks packets, where the plan wants it."""
        options = self._plan.experiment.engine.options
        wanted = options["marks"] == "on"
        if options["marks"] == "auto":
            wanted = any("mark" in (*job.chooser.needs, *job.control.needs) for job in self._plan.jobs)
        return marker_of(self.lab, ramp_of(options), str(options["marked_by"])) if wanted else None

    def _summary(self, scaled: Fabric, rate_scale: float) -> str:
        rates = ", ".join(
            f"{kind} {scaled.capacity_bps[scaled.link_kind == i].min() / 1e6:.3g} Mb/s"
            for i, kind in enumerate(scaled.kinds)
        )
        rules = f"{self._rules} rules by {self._plan.experiment.controller.name}"
        latency_s = self.scale.latency_s
        latency = "" if latency_s is None else f"; a packet takes {latency_s * 1e3:.2g} ms unshaped"
        marker = self.telemetry.marker if self.telemetry else None
        marks = "" if marker is None else f"; {marker.ramp} ({marker.by})"
        return f"{rules}; emulated rates: {rates} (scale {rate_scale:.2g}){latency}{marks}"

    def until(self, done: Callable[[], bool], awaited: str) -> None:
        """Wait for something without letting the health loop run; LabError if it takes too long."""
        end = time.monotonic() + BRING_UP_WITHIN_S
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                raise LabError(f"waited {BRING_UP_WITHIN_S:.0f} s for {awaited}; run `railweave doctor`.")
            self.watch.wait(left)

    @contextmanager
    def captured(self, file: int | None) -> Iterator[None]:
        """Capture the plan's links into `file` during the block."""
        if file is None or not self._plan.pcap_links:
            yield
            return
        name, interfaces = self._plan.fabric.link_name, self.lab.link_interfaces()
        links = [(*interfaces[link], name(link)) for link in self._plan.pcap_links]
        capture = self._plan.transport.capture(links, file, CAPTURE_LOG)
        try:
            yield
        finally:
            try:
                if missed := capture.stop():
                    self._recorder.note(f"the capture missed {missed} packets: memory was full")
            except RailweaveError as error:  # the run, or its own error, matters more than its capture
                self._recorder.note(f"the capture is incomplete: {error}")

    def restart_transport(self, control: RouteControl) -> None:
        """End whatever the transport is doing; it takes iterations again when this returns."""
        self.traffic.restart(self.lab.endpoints(), control.entropies)

    def take(self, plan: Plan) -> None:
        """Iterations, and the facts about them, are those of another plan for the same fabric from now on."""
        self.traffic.take(plan)
        self._cpu_before, self._memory_peak_bytes = {}, 0

    # -- what a run asks for -----------------------------------------------------------------------------
    def checkpoint(self) -> None:
        self._cpu_before = self._cpu_before or self.cpu_s()
        self._memory_peak_bytes = max(self._memory_peak_bytes, total_pss_bytes())

    def _versions(self) -> dict[str, str]:
        version = run([tool("ovs-vswitchd"), "--version"]).split()[3]
        marker = self.telemetry.marker if self.telemetry else None
        marks = {} if marker is None else {"marks": marker.by}
        return {"openvswitch": version, "datapath": self.lab.datapath, **marks}

    def facts(self) -> EngineFacts:
        self.checkpoint()
        cores = len(os.sched_getaffinity(0))
        return EngineFacts(
            versions=self._versions(),
            cores=cores,
            switch_cores=min(cores, len(self.lab.shards)),
            # a restarted controller's counter begins anew
            cpu_s={name: max(0.0, now - self._cpu_before[name]) for name, now in self.cpu_s().items()},
            memory_peak_bytes=self._memory_peak_bytes,
            rules=self._rules,
            install_s=self._install_s,
            packet_latency_s=self.scale.latency_s,
            send_buffer_bytes=self.lab.send_buffer_bytes,
            # waiting packets count with the memory they hold, about twice their size at 4 KiB
            send_buffer_used_bytes=2 * self.measurements.most_waiting_bytes,
        )

    def cpu_s(self) -> dict[str, float]:
        """Processor seconds that each part of the lab has used so far."""
        pid = self._controller_pid()
        sampler = None if self.telemetry is None else self.telemetry.sampler.pid
        return {
            "switches": self.lab.switch_cpu_s(),
            "controller": cpu_seconds(pid) if pid else 0.0,
            **self.traffic.cpu_s(),
            "control": cpu_seconds(os.getpid()) + (cpu_seconds(sampler) if sampler else 0.0),
        }

    @property
    def ranks(self) -> tuple[RankOutcome, ...]:
        """How the ranks of programs ended."""
        return self.traffic.outcomes

    def down(self) -> None:
        """Stop what was started; the kernel removes the rest when this process ends."""
        self.traffic.stop()
        if self.link is not None:
            self.link.stop()
        if self.telemetry is not None:
            self.telemetry.sampler.stop()
        self.lab.down()

    # -- supervision -------------------------------------------------------------------------------------
    def _controller_pid(self) -> int | None:
        return None if self.link is None else self.link.pid

    def _sampler_ended(self) -> None:
        if self.telemetry is not None and self.telemetry.sampler.pid is not None:
            self.telemetry.sampler.ended()
            self._recorder.note("the sampler of the queues ended: short bursts may go unseen from now on")
            if isinstance(self.telemetry.marker, EcnMarker):
                self.telemetry.marker.stop()
                self._recorder.note("no packet is marked from now on, as the queues are no longer sampled")

    def _daemon_ended(self, shard: int, name: str) -> Callable[[], None]:
        def ended() -> None:
            if self.injector.expected(shard, name):
                return
            nodes = np.flatnonzero(self.lab.placement == shard)
            some = ", ".join(self._plan.fabric.node_name(int(node)) for node in nodes[:4])
            raise LabError(
                f"{name} of shard {shard} died, and with it {len(nodes)} switches ({some}, ...). "
                f"The last lines of its log:\n{self.lab.shards[shard].log_tail()}"
            )

        return ended


def lab_session(
    plan: Plan,
    registers: Registers,
    emit: Callable[[RunEvent], None],
    *,
    faults: Sequence[ResolvedFault] | None = None,
    probing: bool = True,
    directory: str | None = None,
    hosts_open: bool = False,
) -> Session[EmulatedRun]:
    """The session of a plan in this lab, to be entered; `faults` and `probing` as Session takes them.
    `directory`: where a program's output goes, None: nowhere. `hosts_open`: whether programs use the hosts of
    a collective, too."""
    clock = WallClock(Watch())
    recorder = Recorder(plan.fabric, registers, emit, clock.now_s)
    engine = EmulatedRun(plan, registers, recorder, clock, directory, hosts_open=hosts_open)
    return Session(plan, engine, recorder, faults=faults, probing=probing)
