"""The controller as the lab keeps it: started, restarted, given the intent, and heard."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from railweave.framework.control import Reroute
from railweave.framework.errors import ControllerError
from railweave.framework.hookspecs import Controller, Event
from railweave.framework.lab.children import Watch
from railweave.framework.lab.probing import Train
from railweave.framework.model import Fabric, Rule, RuleUpdate

RESTARTS = 3
LOG = "/run/railweave/controller.log"
STANDING = -1
"""The number of the update that brings standing rules: no change of routes has it."""


class Switchboard:
    """Drives one controller process. One change of routes is under way at a time.

    `settled(reroute)` is called once its rules are in use; `tell(text)` with what a user should read.
    """

    def __init__(
        self,
        fabric: Fabric,
        controller: Controller,
        watch: Watch,
        settled: Callable[[Reroute], None],
        tell: Callable[[str], None],
    ) -> None:
        self._fabric, self._controller, self._watch = fabric, controller, watch
        self._settled, self._tell = settled, tell
        self._rules: tuple[Rule, ...] = ()
        self._pending: Reroute | None = None
        self._retire: list[tuple[float, int]] = []
        self._listeners: Sequence[int] = ()
        self.up = False
        self.switches_up: set[int] = set()
        self.restarts = 0
        self.install_s: float | None = None
        self.dark: frozenset[int] = frozenset()
        self._standing: tuple[Rule, ...] = ()
        self.reports: Callable[[Event], None] = lambda _: None
        """Who hears what was asked of the switches (`ports`, `timed`), and of every start of the controller."""
        self.agreement: Callable[[bool], None] = lambda _: None
        """Who hears that the controller or a switch is gone, and that all hold their rules again."""

    def start(self, listeners: Sequence[int]) -> None:
        self._listeners = listeners
        self._controller.start(listeners, LOG)
        self._watch.readable(self._controller, self._hear)

    @property
    def pid(self) -> int | None:
        """The controller's process, None while there is none."""
        return self._controller.pid() if self.up else None

    @property
    def ready(self) -> bool:
        """Whether a change of routes can be given now."""
        return self.up and self._pending is None and self.install_s is not None

    @property
    def at_rest(self) -> bool:
        """Whether no change is under way and nothing waits to be taken out."""
        return self.ready and not self._retire

    def install(self, rules: tuple[Rule, ...]) -> None:
        """Make the switches hold exactly these; `install_s` is set when they do."""
        self._rules, self.install_s = rules, None
        self._controller.set_rules((*rules, *self._standing))

    def reroute(self, reroute: Reroute, rules: tuple[Rule, ...]) -> None:
        """Put a change of routes in; `rules` is all that the switches should hold afterwards."""
        self._pending, self._rules = reroute, rules
        self._controller.apply(reroute.update)

    def stand(self, rules: tuple[Rule, ...]) -> None:
        """Rules that stay beside the routes', whatever these become."""
        self._standing = rules
        self._controller.apply(RuleUpdate(STANDING, rules, (), ()))

    def send_trains(self, trains: Sequence[Train]) -> None:
        for train in trains if self.up else ():
            self._controller.send_train(*train)

    def poll_ports(self, number: int) -> None:
        self._controller.poll_ports(number)

    def retire(self, now_s: float, drain_s: float | None = None, version: int | None = None) -> None:
        """Take out what drained changes left behind; with `version`, note that it drains from now on."""
        if version is not None and drain_s is not None:
            self._retire.append((now_s + drain_s, version))
        while self._retire and self._retire[0][0] <= now_s:
            self._controller.retire(self._retire.pop(0)[1])

    def stop(self) -> None:
        self._controller.stop()

    def _hear(self) -> None:
        for event in self._controller.events():
            data = event.data
            match event.kind:
                case "ready":
                    self.up = True
                    if self.restarts:
                        self._controller.set_rules((*self._rules, *self._standing))
                    self.reports(event)
                case "switch_up":
                    self.switches_up.add(data["dpid"])
                case "switch_down":
                    self.switches_up.discard(data["dpid"])
                    self.agreement(False)
                case "installed" if not data["missing"]:  # else some switches have not connected again yet
                    self.install_s = data["seconds"]
                    self.agreement(True)
                    if self.restarts:
                        self._tell(f"the controller is back; {data['rules']} rules agree with the switches")
                        self._settle()
                case "applied":
                    self._settle(data["version"])
                case "port":
                    self._port(data["dpid"] - 1, data["port"], up=data["up"])
                case "carriers":
                    node = data["dpid"] - 1
                    for link in self._fabric.out_links(node):
                        port = int(self._fabric.link_port[link])
                        self._port(node, port, up=port not in data["down"])
                case "ports" | "timed":
                    self.reports(event)
                case "refused":
                    raise ControllerError(f"switch {data['dpid']} refused a rule: {data['why']}.")
                case "died":
                    self._died(data["why"])

    def _died(self, why: str) -> None:
        self.up, self.install_s = False, None
        self.switches_up.clear()
        self._retire.clear()  # the resync takes out what was to be retired
        self.agreement(False)
        self.restarts += 1
        if self.restarts > RESTARTS:
            raise ControllerError(f"the controller died {self.restarts} times. {why}")
        self._tell("the controller died and is started again; traffic goes on over the rules in the switches")
        self._controller.start(self._listeners, LOG)

    def _settle(self, version: int | None = None) -> None:
        """The change under way is in the switches: applied, or put there by the resync after a restart."""
        if self._pending is not None and version in (None, self._pending.update.version):
            reroute, self._pending = self._pending, None
            self._settled(reroute)

    def _port(self, node: int, port: int, *, up: bool) -> None:
        for link in self._fabric.out_links(node):
            if self._fabric.link_port[link] == port:
                cable = {int(link), int(link) ^ 1}
                self.dark = self.dark - cable if up else self.dark | cable
