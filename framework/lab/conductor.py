"""One run, from the lab's first process: bring-up, iterations, faults, the health loop, findings."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from railweave.framework.channel import Channel
from railweave.framework.control import Reroute, RouteControl, score_changes
from railweave.framework.errors import LabError, TransportError
from railweave.framework.experiment import Plan, from_document
from railweave.framework.faults import ResolvedFault, released
from railweave.framework.figures import iteration_of
from railweave.framework.health.monitor import HealthMonitor
from railweave.framework.hookspecs import Event
from railweave.framework.lab.borrowing import closing_together
from railweave.framework.lab.calibration import Capacity, auto_scale, busiest_phase_hops, calibrate, trial
from railweave.framework.lab.children import Watch
from railweave.framework.lab.emulation import Emulation, cpu_seconds
from railweave.framework.lab.injury import Injury
from railweave.framework.lab.notebook import Notebook
from railweave.framework.lab.ovs import run, tool
from railweave.framework.lab.sources import open_source
from railweave.framework.lab.switchboard import Switchboard
from railweave.framework.lab.truth import Truth
from railweave.framework.model import HealthSnapshot, Schedule
from railweave.framework.registry import Registers, load

BRING_UP_WITHIN_S = 60.0
TRANSPORT_LOG, CAPTURE_LOG = "/run/railweave/transport.log", "/run/railweave/capture.log"


def task(message: Mapping[str, Any], channel: Channel) -> None:
    """Carry out the run that `message` describes; tell the outside what happens and what came of it."""
    registers = load()
    conductor = Conductor(from_document(message["document"], registers), registers, channel.send)
    try:
        conductor.bring_up()
        with conductor.captured(message["pcap"]):
            conductor.iterate()
        channel.send({"kind": "phase", "name": "tear-down"})
        findings = conductor.findings()
    finally:
        conductor.down()
    channel.send({"kind": "result", "findings": findings})


class Conductor:
    """Drives one run to its end and keeps what it found. All waiting is in `watch`."""

    def __init__(self, plan: Plan, registers: Registers, say: Callable[[dict[str, Any]], None]) -> None:
        self.plan, self.hooks, self.say = plan, registers.manager.hook, say
        self._registers = registers
        self.lab = Emulation(
            plan.fabric, plan.experiment.path_mtu, str(plan.experiment.engine.options["datapath"])
        )
        self.watch = Watch()
        self.switchboard = Switchboard(plan.fabric, plan.controller, self.watch, self._rerouted, self._tell)
        self.switchboard.agreement = self._agreement
        self.control = RouteControl(
            plan.fabric, plan.router, plan.experiment.health.options(), plan.experiment.router.name
        )
        self.rate_scale = 1.0
        self.probing = True
        self._moved_s = 0.0
        self.capacity: Capacity | None = None
        self._transport_up = False
        self._finished: Event | None = None
        self._faults = list(plan.faults)
        self.injury = Injury(self.lab, self.watch, self._daemon_ended, self._tell)
        self.truth = Truth(plan.fabric, plan.experiment.health.options())
        self._start_s: float | None = None
        self._best_bps = self.lab.rates_bps
        self.notebook = Notebook(plan.fabric)

    # -- bring-up --------------------------------------------------------------------------------------
    def bring_up(self) -> None:
        began = time.monotonic()
        plan, fabric = self.plan, self.plan.fabric
        self.say(
            {"kind": "phase", "name": "bring-up", "text": f"{fabric.n_gpus} GPUs, {fabric.n_links} links"}
        )
        Path("/run/railweave").mkdir()
        listeners = self.lab.open_namespaces()
        # their imports take longest, so they start first and the fabric is built beside them
        self.switchboard.start(listeners)
        plan.transport.start(self.lab.endpoints(), plan.packet, TRANSPORT_LOG)
        self.watch.readable(plan.transport, self._hear_transport)
        self.lab.build()
        for shard in self.lab.shards:
            for name, pid in shard.pids.items():
                self.watch.ending(pid, self._daemon_ended(shard.index, name))
        self.until(lambda: self.switchboard.up, "the controller to start")
        self.until(lambda: len(self.switchboard.switches_up) == fabric.n_nodes, "the switches to connect")
        self.switchboard.install(self.control.rules)
        self.until(lambda: self.switchboard.install_s is not None, "the first rules to be installed")
        self.notebook.figures |= {"rules": len(self.control.rules), "install_s": self.switchboard.install_s}
        self.rate_scale = self._rate_scale()
        self.scaled = fabric.scaled(self.rate_scale)
        self.lab.shape(self.scaled)
        if not self.lab.short_first:
            self._tell("acknowledgements wait behind data: this kernel has no nftables at a device's egress")
        self.until(lambda: self._transport_up, "the transport to start")
        self._use_entropies()
        self.monitor = HealthMonitor(
            self.scaled, plan.estimator, plan.packet, plan.experiment.health.options()
        )
        self.telemetry = self.lab.telemetry()
        self.source = open_source(
            plan.experiment.measure,
            self.scaled,
            plan.packet,
            plan.experiment.health.interval,
            self.switchboard,
        )
        self.hooks.on_fabric_up(fabric=self.scaled, endpoints=self.lab.endpoints())
        self.notebook.memory()
        took = self.notebook.figures["bring_up_s"] = time.monotonic() - began
        self.say({"kind": "phase", "name": "up", "text": self._up_text(), "seconds": took})

    def _rate_scale(self) -> float:
        """As asked, or from what this lab can carry."""
        asked, plan = self.plan.experiment.rate_scale, self.plan
        if asked != "auto":
            return asked
        if self.lab.kernel_datapath:
            self.capacity = trial(plan, self._registers, self.control.table, self._carry)
        else:
            self.capacity = calibrate(self.lab, self.control.table, plan.packet)
        return auto_scale(self.capacity, busiest_phase_hops(plan, self.control.table))

    def _carry(self, collective: str, schedule: Schedule) -> float:
        """Let the transport carry a schedule before the links are shaped; the seconds it took."""
        self.until(lambda: self._transport_up, "the transport to start")
        self._use_entropies()
        self._finished = None
        self.plan.transport.begin(collective, {}, schedule, 0, self.plan.experiment.seed)
        self.until(lambda: self._finished is not None, "the transport's trial")
        assert self._finished is not None
        return float(self._finished.data["result"]["seconds"])

    def _use_entropies(self) -> None:
        self.plan.transport.use_entropies(self.control.entropies.scaled(self.rate_scale))

    def _up_text(self) -> str:
        rates = ", ".join(
            f"{kind} {self.scaled.capacity_bps[self.scaled.link_kind == i].min() / 1e6:.3g} Mb/s"
            for i, kind in enumerate(self.scaled.kinds)
        )
        name = self.plan.experiment.controller.name
        return f"{self.notebook.figures['rules']} rules by {name}; emulated rates: {rates} (scale {self.rate_scale:.2g})"

    def until(self, done: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + BRING_UP_WITHIN_S
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                raise LabError(f"waited {BRING_UP_WITHIN_S:.0f} s for {what}; run `railweave doctor`.")
            self.watch.wait(left)

    @contextmanager
    def captured(self, file: int | None) -> Iterator[None]:
        """Capture the plan's links into `file` during the block."""
        if file is None or not self.plan.pcap_links:
            yield
            return
        name, interfaces = self.plan.fabric.link_name, self.lab.link_interfaces()
        links = [(*interfaces[link], name(link)) for link in self.plan.pcap_links]
        capture = self.plan.transport.capture(links, file, CAPTURE_LOG)
        try:
            yield
        finally:
            missed = capture.stop()
            if missed:
                self._tell(f"the capture missed {missed} packets: memory was full")

    # -- iterations ------------------------------------------------------------------------------------
    def now_s(self) -> float:
        """Seconds on the run's clock, which starts with the first iteration."""
        return 0.0 if self._start_s is None else time.monotonic() - self._start_s

    def start_clock(self) -> None:
        """Let the run's clock begin, if it has not."""
        if self._start_s is None:
            self._start_s = self._next_look = time.monotonic()

    def iterate(self) -> None:
        count = self.plan.iterations
        self.say({"kind": "phase", "name": "run", "text": f"{count} iterations"})
        self.start_clock()
        self._cpu_before = self.cpu_s()
        for iteration in range(count):
            self._fire([f for f in self._faults if f.fault.at_iteration == iteration])
            self.one_iteration(iteration)
        self.notebook.figures["run_s"] = self.now_s()

    def one_iteration(self, iteration: int) -> None:
        """Carry out one iteration; what it found is the last of `notebook.iterations`."""
        experiment, transport = self.plan.experiment, self.plan.transport
        self._finished, self._best_bps = None, self.lab.rates_bps.copy()
        began, sent = self.now_s(), self.telemetry.snapshot().sent_bytes.sum()
        traffic, schedule = experiment.traffic, self.plan.schedule_of(iteration)
        options: dict[str, Any] = dict(traffic.options)
        transport.begin(traffic.name, options, schedule, iteration, experiment.seed)
        while self._finished is None:
            self._look()
            if experiment.timeout != "auto" and self.now_s() - began > experiment.timeout:
                raise TransportError(
                    f"iteration {iteration} took longer than the timeout, {experiment.timeout:g} s."
                )
            self.watch.wait(max(0.0, self._next_look - time.monotonic()))
        found = self._finished.data["result"]
        self.notebook.iterations.append(
            {
                **found,
                "begin_s": began,
                "end_s": self.now_s(),
                "best_rates_bps": self._best_bps,
                "link_bytes": float(self.telemetry.snapshot().sent_bytes.sum() - sent),
            }
        )
        self.notebook.memory()
        self.say(
            {
                "kind": "iteration",
                "iteration": iteration,
                "seconds": found["seconds"],
                "wrong": found["wrong"],
            }
        )
        self.hooks.on_iteration(result=iteration_of(found))

    def settle_after(self, fault: ResolvedFault, *, quiet_s: float, within_s: float) -> None:
        """Inject a fault without traffic and go on until routes have been still for `quiet_s` and old rules are gone.

        LabError when they have not come to rest within `within_s`.
        """
        self.start_clock()
        self.probing, self._faults = False, [fault]  # the caller says when, not the clock
        self._fire([fault])
        began = self.now_s()
        while not (self.switchboard.at_rest and self.now_s() - max(began, self._moved_s) > quiet_s):
            if self.now_s() - began > within_s:
                raise LabError(f"the routes were still moving {within_s:.0f} s after {fault.text!r}.")
            self._look()
            self.watch.wait(max(0.0, self._next_look - time.monotonic()))

    def step(self, longest_s: float = np.inf) -> None:
        """Look if it is time, then wait for what comes first: a report, the next look, or the end of `longest_s`."""
        self._look()
        self.watch.wait(max(0.0, min(longest_s, self._next_look - time.monotonic())))

    def _look(self) -> None:
        """Everything that happens by the clock: faults, measuring, rerouting, retiring. Cheap when nothing is due."""
        now = self.now_s()
        self._fire([f for f in self._faults if f.fault.at_s is not None and f.fault.at_s <= now])
        if self._start_s is None or time.monotonic() < self._next_look:
            return
        self._next_look = max(self._next_look + self.plan.experiment.health.interval, time.monotonic())
        up = np.ones(self.plan.fabric.n_links, bool)
        up[list(self.switchboard.dark)] = False
        seen = self.telemetry.measure(self._start_s, up)
        measurement = self.source.measure(seen)
        trains = self.source.trains(measurement.t_s, self.monitor.links) if self.probing else []
        before = self.monitor.snapshot
        news = self.monitor.observe(measurement)
        self.notebook.sample(measurement, self.monitor.snapshot)
        self.notebook.waiting(seen.queue_bytes, self.lab.placement[self.plan.fabric.link_src])
        if news is not None:
            self._tell_health(before, news)
            self.hooks.on_health(health=news, measurement=measurement)
        experiment = self.plan.experiment
        if (experiment.feedback or experiment.oracle) and self.switchboard.ready:
            known = self.truth.snapshot if experiment.oracle else self.monitor.snapshot
            reroute = self.control.react(known, now)
            if reroute is not None:
                self.switchboard.reroute(reroute, self.control.rules)
        self.switchboard.send_trains(trains)
        self.switchboard.retire(now)

    def _rerouted(self, reroute: Reroute) -> None:
        now = self._moved_s = self.now_s()
        self._use_entropies()
        row = {
            "t_s": now,
            "version": reroute.table.version,
            "pairs_changed": reroute.pairs_changed,
            "why": reroute.why,
        }
        self.notebook.reroutes.append({**row, "rules": reroute.update.size})
        self.say({"kind": "reroute", **row})
        if reroute.cut:
            self._tell(f"no path is left for {len(reroute.cut)} pairs, such as {reroute.cut[0]}")
        # what is on old paths may wait in every queue it can meet, at the rates as they are
        waiting = self.telemetry.totals().queue_bytes * 8 / self.lab.rates_bps
        self.switchboard.retire(now, 0.5 + 4 * float(waiting.max()), reroute.update.version)
        self.hooks.on_reroute(table=reroute.table, pairs_changed=reroute.pairs_changed, why=reroute.why)

    def _fire(self, due: list[ResolvedFault]) -> None:
        self._faults, due = released(self._faults, due, self.now_s())
        for fault in due:
            self._moved_s = self.now_s()
            self.injury.inject(fault, self.scaled.capacity_bps, self.switchboard.pid)
            self._best_bps = np.maximum(self._best_bps, self.lab.rates_bps)
            if self.truth.strike(fault, self.now_s()):
                self.notebook.became_true(self.truth.snapshot)
            event = {"t_s": self.now_s(), "text": fault.text}
            self.notebook.faults.append(event)
            self.say({"kind": "fault", **event})

    def _agreement(self, agrees: bool) -> None:
        self.notebook.control.append({"t_s": self.now_s(), "agrees": agrees})

    # -- what others report ----------------------------------------------------------------------------
    def _hear_transport(self) -> None:
        for event in self.plan.transport.events():
            match event.kind:
                case "ready":
                    self._transport_up = True
                case "progress":
                    self.say({"kind": "progress", **event.data})
                case "finished":
                    self._finished = event
                case "failed" | "died":
                    names = [self.plan.fabric.node_name(int(rank)) for rank in event.data.get("ranks") or ()]
                    at = f" at {', '.join(names)}" if names else ""
                    raise TransportError(f"the collective failed{at}: {event.data['why']}")

    def _daemon_ended(self, shard: int, name: str) -> Callable[[], None]:
        def ended() -> None:
            if self.injury.expected(shard, name):
                return
            nodes = np.flatnonzero(self.lab.placement == shard)
            some = ", ".join(self.plan.fabric.node_name(int(node)) for node in nodes[:4])
            raise LabError(
                f"{name} of shard {shard} died, and with it {len(nodes)} switches ({some}, ...). "
                f"The last lines of its log:\n{self.lab.shards[shard].last_words()}"
            )

        return ended

    def _tell(self, text: str) -> None:
        self.notebook.notes.append({"t_s": self.now_s(), "text": text})
        self.say({"kind": "note", "text": text})

    def _tell_health(self, before: HealthSnapshot, news: HealthSnapshot) -> None:
        self.notebook.published(before, news)
        changes = {name: list(pair) for name, pair in score_changes(self.plan.fabric, before, news).items()}
        if changes:
            self.say({"kind": "health", "t_s": news.t_s, "version": news.version, "changes": changes})

    # -- findings --------------------------------------------------------------------------------------
    def cpu_s(self) -> dict[str, float]:
        pid = self.switchboard.pid
        return {
            "switches": self.lab.switch_cpu_s(),
            "controller": cpu_seconds(pid) if pid else 0.0,
            "transport": cpu_seconds(self.plan.transport.pid()),
            "control": cpu_seconds(os.getpid()),
        }

    def findings(self) -> dict[str, Any]:
        """Everything the run found, as plain data and arrays; `framework/runner.py` makes the result of it."""
        self.notebook.memory()
        totals = self.telemetry.snapshot()
        return {
            **self.notebook.findings(),
            "rate_scale": self.rate_scale,
            "capacity_hops_s": self.capacity.hops_s if self.capacity else None,
            "datapath": self.lab.datapath,
            "openvswitch": run([tool("ovs-vswitchd"), "--version"]).split()[3],
            "shards": len(self.lab.shards),
            "send_buffer_bytes": self.lab.send_buffer_bytes,
            # waiting packets count with the memory they hold, about twice their size at 4 KiB
            "send_buffer_used_bytes": 2 * self.notebook.figures["most_waiting_bytes"],
            "controller_restarts": self.switchboard.restarts,
            # a restarted controller's counter begins anew
            "cpu_s": {name: max(0.0, now - self._cpu_before[name]) for name, now in self.cpu_s().items()},
            "links": {
                "bytes": totals.sent_bytes,
                "packets": totals.sent_packets,
                "drops": totals.drops,
                "h_score": self.monitor.snapshot.link_score,
            },
        }

    def down(self) -> None:
        """Stop what was started; the kernel removes the rest when this process ends."""
        with closing_together([self.plan.transport.pid()] if self._transport_up else []):
            self.plan.transport.stop()
        self.switchboard.stop()
        self.lab.down()
