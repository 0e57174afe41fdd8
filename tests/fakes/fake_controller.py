"""A controller without a process: rules reach fake switches after a delay, and it dies when told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from railweave.framework.model import Fabric, Rule, RuleUpdate
from railweave.framework.model.addressing import dpid
from railweave.framework.model.events import (
    ControllerEvent,
    PortChanged,
    PortsDown,
    ProcessDied,
    ProcessReady,
    RulesInstalled,
    SwitchDown,
    SwitchUp,
    UpdateApplied,
)
from tests.fakes.fake_switch import FakeFabric
from tests.fakes.hand_clock import FakeWatch, HandClock


class FakeController:
    """Shape: hookspecs.Controller. Each phase of an update takes `delay_s`, starting takes `start_s`.

    `switches`: what they hold. `starts`, `trains`: what was asked for so far.
    """

    summary, parameters = "fake", ()

    def __init__(self, fabric: Fabric, clock: HandClock, delay_s: float = 0.01, start_s: float = 0.3) -> None:
        self._fabric, self._clock, self.delay_s, self._start_s = fabric, clock, delay_s, start_s
        self.watch = FakeWatch()
        self.switches = FakeFabric(fabric)
        self.alive, self.starts, self.trains = False, 0, []
        self._down_ports: set[tuple[int, int]] = set()
        self._replaced: dict[int, Sequence[Rule]] = {}
        self._events: list[ControllerEvent] = []

    def configured(self, options: object) -> FakeController:
        return self

    # -- what a test lets happen -----------------------------------------------------------------------
    def kill(self) -> None:
        """kill -9: nothing that is under way is completed."""
        self.alive, self._replaced = False, {}
        self._clock.after(0.0, lambda: self._emit(ProcessDied("killed"), dying=True))

    def carrier(self, link: int, *, up: bool) -> None:
        """A cable is plugged in or out; reported while the controller listens."""
        for end in (link, link ^ 1):
            node, port = int(self._fabric.link_src[end]), int(self._fabric.link_port[end])
            (self._down_ports.discard if up else self._down_ports.add)((node, port))
            self._later(0.0, lambda n=node, p=port: self._emit(PortChanged(dpid(n), p, up)))

    def reconnect(self, node: int) -> None:
        """A switch loses its connection and comes back empty."""
        self._emit(SwitchDown(dpid(node)))
        self.switches.remove(list(self.switches.switches[node].rules))
        self._later(self.delay_s, lambda: self._emit(SwitchUp(dpid(node))))

    # -- what the link asks for ------------------------------------------------------------------------
    def start(self, listeners: Sequence[int], log_path: str) -> None:
        self.alive, self.starts = True, self.starts + 1
        self._later(self._start_s, lambda: self._emit(ProcessReady()))
        self._later(self._start_s, self._connect)

    def _connect(self) -> None:
        for node in range(self._fabric.n_nodes):
            ports = tuple(port for where, port in sorted(self._down_ports) if where == node)
            self._emit(SwitchUp(dpid(node)))
            self._emit(PortsDown(dpid(node), ports))

    def set_rules(self, rules: Sequence[Rule]) -> None:
        self._later(self.delay_s, lambda: self._resync(rules))

    def _resync(self, rules: Sequence[Rule]) -> None:
        held, wanted = self.switches.contents(), set(rules)
        self.switches.remove(held - wanted)
        self.switches.add(wanted - held)
        self._emit(RulesInstalled(len(rules), self.delay_s))

    def apply(self, update: RuleUpdate) -> None:
        self._later(self.delay_s, lambda: self.switches.add(update.install))
        self._later(2 * self.delay_s, lambda: self._switch_over(update))

    def _switch_over(self, update: RuleUpdate) -> None:
        self.switches.add(update.switch_over)
        self._replaced[update.version] = update.remove
        rules = len(update.install) + len(update.switch_over) + len(update.remove)
        self._emit(UpdateApplied(update.version, rules, 2 * self.delay_s))

    def retire(self, version: int) -> None:
        self.switches.remove(self._replaced.pop(version))

    def send_train(self, *train: int) -> None:
        self.trains.append(train)

    def poll_ports(self, number: int) -> None:
        raise AssertionError("no source here polls ports")

    def events(self) -> list[ControllerEvent]:
        events, self._events = self._events, []
        return events

    def pid(self) -> int:
        return 4711

    def stop(self) -> None:
        self.alive = False

    def _later(self, delay_s: float, call: Callable[[], Any]) -> None:
        """Do it then, unless this process has died meanwhile."""
        mine = self.starts

        def due() -> None:
            if self.alive and self.starts == mine:
                call()

        self._clock.after(delay_s, due)

    def _emit(self, event: ControllerEvent, *, dying: bool = False) -> None:
        assert self.alive or dying
        self._events.append(event)
        self.watch.hear()
