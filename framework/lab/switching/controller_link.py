"""Supervises the controller process: start, restart, rule updates, events."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np

from railweave.framework.errors import ControllerError
from railweave.framework.hookspecs import Controller
from railweave.framework.model import Fabric, Rule, RuleUpdate
from railweave.framework.model.arrays import Int64
from railweave.framework.model.events import (
    PortChanged,
    PortCounts,
    PortsDown,
    ProcessDied,
    ProcessReady,
    RuleRefused,
    RulesInstalled,
    SwitchDown,
    SwitchUp,
    TrainTimed,
    UpdateApplied,
)
from railweave.framework.processes.event_loop import Watch
from railweave.framework.routing.route_control import Reroute

RESTARTS = 3
"""Restarts of the controller after which the run fails: it would end again."""
LOG = "/run/railweave/controller.log"
STANDING = -1
"""The number of the update that brings standing rules: no change of routes has it."""


class Train(NamedTuple):
    """Back-to-back packets out of a port; `timed`: their number if the controller times them, else 0."""

    switch: int
    port: int
    packets: int
    size_bytes: int
    timed: int = 0

    @classmethod
    def over(cls, fabric: Fabric, link: int, packets: int, size_bytes: int, timed: int = 0) -> Self:
        """The train over a link."""
        return cls(int(fabric.link_src[link]), int(fabric.link_port[link]), packets, size_bytes, timed)


Report = ProcessReady | PortCounts | TrainTimed


class ControllerLink:
    """Drives one controller process; a place for rules (runs/parts.py). One change of routes is under way at
    a time.

    `intent()`: every rule of the routes that the switches should hold now. `drain_s()`: how long packets may
    still be on replaced paths. `note(text)` receives what a user should read, `agreement(bool)` whether the
    controller and all switches hold the same rules. `down_links`: links without a carrier.
    """

    def __init__(
        self,
        fabric: Fabric,
        controller: Controller,
        watch: Watch,
        *,
        intent: Callable[[], Sequence[Rule]],
        drain_s: Callable[[], float],
        note: Callable[[str], None],
        agreement: Callable[[bool], None],
    ) -> None:
        self._fabric, self._controller, self._watch = fabric, controller, watch
        self._intent, self._drain_s, self._note, self._agreement = intent, drain_s, note, agreement
        self._pending: Reroute | None = None
        self._applied: list[Reroute] = []
        self._replaced: list[int] = []
        self._draining: list[tuple[float, int]] = []
        self._listeners: Sequence[int] = ()
        self._standing: tuple[Rule, ...] = ()
        self._reports: list[Report] = []
        self.up = False
        self.switches_up: set[int] = set()
        self.restarts = 0
        self.install_s: float | None = None
        self.down_links: frozenset[int] = frozenset()

    def start(self, listeners: Sequence[int]) -> None:
        """Start the controller, whose switches connect to these listening sockets."""
        self._listeners = listeners
        self._controller.start(listeners, LOG)
        self._watch.readable(self._controller, self._hear)

    def stop(self) -> None:
        self._controller.stop()

    @property
    def pid(self) -> int | None:
        """The controller's process, None while there is none."""
        return self._controller.pid() if self.up else None

    # -- rules -----------------------------------------------------------------------------------------
    @property
    def ready(self) -> bool:
        """Whether a change of routes can be given now."""
        return self.up and self._pending is None and self.install_s is not None

    @property
    def at_rest(self) -> bool:
        """Whether no change is under way and nothing waits to be removed."""
        return self.ready and not (self._applied or self._replaced or self._draining)

    def install(self) -> None:
        """Make the switches hold exactly the intent; `install_s` is set when they do."""
        self.install_s = None
        self._controller.set_rules((*self._intent(), *self._standing))

    def reroute(self, reroute: Reroute) -> None:
        """Put a change of routes in, of which the intent knows already."""
        self._pending = reroute
        self._controller.apply(reroute.update)

    def stand(self, rules: tuple[Rule, ...]) -> None:
        """Add rules that stay whatever becomes of the routes."""
        self._standing = rules
        self._controller.apply(RuleUpdate(STANDING, rules, (), ()))

    def advance(self, now_s: float) -> list[Reroute]:
        """The changes that came into use since the last call; rules whose packets have drained are
        removed."""
        applied, self._applied = self._applied, []
        if self._replaced:
            due_s = now_s + self._drain_s()
            self._draining += [(due_s, version) for version in self._replaced]
            self._replaced.clear()
        while self._draining and self._draining[0][0] <= now_s:
            self._controller.retire(self._draining.pop(0)[1])
        return applied

    # -- measuring -------------------------------------------------------------------------------------
    def send_trains(self, trains: Sequence[Train]) -> None:
        for train in trains if self.up else ():
            self._controller.send_train(*train)

    def poll_ports(self, number: int) -> None:
        self._controller.poll_ports(number)

    def take_reports(self) -> list[Report]:
        """What the switches answered since the last call, and every start of the controller, in order."""
        reports, self._reports = self._reports, []
        return reports

    # -- events ----------------------------------------------------------------------------------------
    def _hear(self) -> None:
        for event in self._controller.events():
            match event:
                case ProcessReady():
                    self.up = True
                    self._reports.append(event)
                    if self.restarts:
                        self.install()
                case SwitchUp():
                    self.switches_up.add(event.dpid)
                case SwitchDown():
                    self.switches_up.discard(event.dpid)
                    self._agreement(False)
                case RulesInstalled(missing=()):  # else some switches have not connected again yet
                    self._installed(event)
                case UpdateApplied():
                    if self._pending is not None and event.version == self._pending.update.version:
                        self._replaced.append(event.version)
                        self._settle()
                case PortChanged():
                    links = self._fabric.out_links(event.dpid - 1)
                    self._carrier(links[self._fabric.link_port[links] == event.port], up=event.up)
                case PortsDown():
                    links = self._fabric.out_links(event.dpid - 1)
                    down = np.isin(self._fabric.link_port[links], list(event.ports))
                    self._carrier(links[down], up=False)
                    self._carrier(links[~down], up=True)
                case PortCounts() | TrainTimed():
                    self._reports.append(event)
                case RuleRefused():
                    raise ControllerError(f"switch {event.dpid} refused a rule: {event.why}.")
                case ProcessDied():
                    self._died(event.why)

    def _installed(self, event: RulesInstalled) -> None:
        self.install_s = event.seconds
        self._agreement(True)
        if self.restarts:
            self._note(f"the controller is back; {event.rules} rules agree with the switches")
            if self._pending is not None:
                self._settle()

    def _died(self, why: str) -> None:
        self.up, self.install_s = False, None
        self.switches_up.clear()
        self._replaced.clear()  # the resync removes what was to be retired
        self._draining.clear()
        self._agreement(False)
        self.restarts += 1
        if self.restarts > RESTARTS:
            raise ControllerError(f"the controller died {self.restarts} times. {why}")
        self._note("the controller died and is started again; traffic goes on over the rules in the switches")
        self._controller.start(self._listeners, LOG)

    def _settle(self) -> None:
        """The change under way is in the switches: applied, or put there by the resync after a restart."""
        assert self._pending is not None
        self._applied.append(self._pending)
        self._pending = None

    def _carrier(self, links: Int64, *, up: bool) -> None:
        """Note the carrier of these links and of their cables' other directions."""
        cables = {*links.tolist(), *(links ^ 1).tolist()}
        self.down_links = self.down_links - cables if up else self.down_links | cables
