"""An engine without a machine: links serve at the rate that faults leave them,
iterations take what they are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.experiment.plan import Plan
from railweave.framework.hookspecs import LinkState
from railweave.framework.lab.switching.controller_link import ControllerLink
from railweave.framework.model import IterationResult, Measurement, Schedule
from railweave.framework.model.arrays import Float
from railweave.framework.model.findings import EngineFacts, LinkTotals
from railweave.framework.routing.route_control import Reroute, RouteControl
from railweave.framework.runs.parts import EngineParts, TrafficEnded
from railweave.framework.runs.recorder import Recorder
from tests.fakes.fake_controller import FakeController
from tests.fakes.hand_clock import HandClock

BYTES_A_SECOND = 1000.0
"""What every link carries."""


class FakeFaults:
    """Where faults are done: rates, carriers, the controller."""

    def __init__(self, plan: Plan, controller: FakeController) -> None:
        self._healthy, self._controller = plan.fabric.capacity_bps, controller
        self.rates_bps: Float = self._healthy.copy()

    def inject(self, fault: ResolvedFault) -> None:
        rates = self.rates_bps.copy()
        match fault.verb:
            case "degrade":
                rates[fault.links] = self._healthy[fault.links] * float(fault.options["to"])
            case "restore":
                rates[fault.links] = self._healthy[fault.links]
            case "down" | "up":
                for link in fault.links.tolist():
                    self._controller.carrier(link, up=fault.verb == "up")
            case "kill":
                self._controller.kill()
        self.rates_bps = rates


class FakeSource:
    """Every link shows the rate at which it serves; `probes`: when probing was asked for."""

    def __init__(self, clock: HandClock, faults: FakeFaults, link: ControllerLink) -> None:
        self._clock, self._faults, self._link = clock, faults, link
        self._last_s = 0.0
        self.probes: list[float] = []

    def measure(self) -> Measurement:
        now, rates = self._clock.now_s(), self._faults.rates_bps
        none, up = np.zeros(len(rates)), np.ones(len(rates), bool)
        up[list(self._link.down_links)] = False
        since, self._last_s = self._last_s, now
        return Measurement(now, now - since, *[none] * 6, rates, none + np.nan, up)

    def probe(self, now_s: float, links: LinkState) -> None:
        self.probes.append(now_s)

    def totals(self) -> LinkTotals:
        carried = np.full(len(self._faults.rates_bps), BYTES_A_SECOND * self._clock.now_s())
        return LinkTotals(carried, carried / 100, 0 * carried, 0 * carried)


class FakeTraffic:
    """Iterations that take `seconds(iteration)`; infinity: they never end; negative: there is none any more.
    `used`: the routes it was given; `error`: what its next iteration fails with."""

    def __init__(self, clock: HandClock, seconds: Callable[[int], float]) -> None:
        self._clock, self.seconds = clock, seconds
        self._result: IterationResult | None = None
        self._over = self.given_up = False
        self.error: Exception | None = None
        self.used: list[Reroute] = []
        self.retries = 0

    def begin(self, iteration: int, schedule: Schedule) -> None:
        seconds, self._result = self.seconds(iteration), None
        self._over = seconds < 0
        if self._over:
            return
        if seconds < float("inf"):
            self._clock.after(seconds, lambda: self._end(iteration, schedule.n_transfers, seconds))

    def _end(self, iteration: int, transfers: int, seconds: float) -> None:
        end_s = np.linspace(0, seconds, transfers + 1)[1:]  # one after the other
        self._result = IterationResult(
            iteration, seconds, 0, 10, 0, 0, 1000, (seconds,), 0.1, 0.0, end_s=end_s
        )

    def give_up(self) -> None:
        self.given_up = True

    def finished(self) -> IterationResult | None:
        if self.error is not None:
            raise self.error
        if self._over:
            raise TrafficEnded
        return self._result

    def use_routes(self, reroute: Reroute) -> None:
        self.used.append(reroute)

    def retry(self) -> None:
        self.retries += 1


class FakeEngine:
    """Shape: runs/parts.py, RunEngine. `calls`: what the session asked of it, in order."""

    def __init__(
        self, plan: Plan, recorder: Recorder, clock: HandClock, seconds: Callable[[int], float]
    ) -> None:
        self.plan, self._recorder, self.clock = plan, recorder, clock
        self.controller = FakeController(plan.fabric, clock)
        self.faults = FakeFaults(plan, self.controller)
        self.jobs = tuple(FakeTraffic(clock, seconds) for _ in plan.jobs)
        self.traffic = self.jobs[0]
        self.calls: list[str] = []

    def bring_up(self, control: RouteControl) -> EngineParts:
        self.calls.append("bring_up")
        plan, watch = self.plan, self.controller.watch
        link = self.link = ControllerLink(
            plan.fabric,
            self.controller,
            watch,
            intent=lambda: control.rules,
            drain_s=lambda: 0.5,  # type: ignore[arg-type]
            note=self._recorder.note,
            agreement=self._recorder.agreement,
        )
        link.start([])
        self.clock.drive(lambda: len(link.switches_up) == plan.fabric.n_nodes)
        link.install()
        self.clock.drive(lambda: link.install_s is not None)
        self.source = FakeSource(self.clock, self.faults, link)
        return EngineParts(
            plan.fabric, 1.0, "a fake fabric", 0.5, (), self.source, link, self.faults, self.jobs
        )

    def checkpoint(self) -> None:
        self.calls.append("checkpoint")

    ranks = ()

    def facts(self) -> EngineFacts:
        return EngineFacts()

    def down(self) -> None:
        self.calls.append("down")

    def arrives(self) -> bool:
        """Whether a packet of every pair of GPUs gets to its destination over links that are there."""
        fabric: Any = self.plan.fabric
        for src in range(fabric.n_gpus):
            for dst in range(fabric.n_gpus):
                if src == dst:
                    continue
                trip = self.controller.switches.send(src, dst)
                if trip.delivered != dst or set(trip.links) & self.link.down_links:
                    return False
        return True
