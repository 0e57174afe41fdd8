"""Rules per second through a controller, against `ovs-ofctl --bundle` with the same rules, in one run.

Runs as root in private namespaces, on an Open vSwitch of its own.
"""

import select
import socket
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from railweave.controllers.client import ControllerProcess
from railweave.controllers.private_ovs import PORT, PrivateSwitches
from railweave.framework.errors import ControllerError
from railweave.framework.model import Match, Output, Rule
from railweave.framework.model.addressing import ENTROPY_BASE, NETWORK
from railweave.framework.model.events import (
    ControllerEvent,
    Event,
    ProcessDied,
    ProcessReady,
    RuleRefused,
    RulesInstalled,
    SwitchUp,
)
from railweave.framework.model.ofctl_text import flow_text

DIRECTORY = Path("/run/rw-install")
"""Short, for the paths of Open vSwitch's sockets, which hold 108 characters at most."""
BRIDGES = (1, 24)
"""One switch shows the cost of a rule; 24 are the switches of the main job (16 GPUs, 4 domains, 4 rails)."""
PATIENCE_S = 60.0
"""Seconds to wait for any event."""
Awaited = TypeVar("Awaited", bound=Event)


def bench_rules(count: int, bridges: int) -> list[Rule]:
    """`count` rules like a fabric's: in-port, destination, source network, entropy; all different."""
    rules = []
    for number in range(count):
        row = number // bridges
        match = Match(
            in_port=1 + row % 3,
            ipv4_src=(NETWORK | row % 7 << 8, 0xFFFFFF00),
            ipv4_dst=(NETWORK | 1 << 16 | row, 0xFFFFFFFF),
            udp_src=ENTROPY_BASE + row % 16,
        )
        rules.append(Rule(number % bridges, 100, match, (Output(4),)))
    return rules


class ConnectedController:
    """A controller that all bridges are connected to."""

    def __init__(self, library: str, listener: socket.socket, directory: Path) -> None:
        self.controller = ControllerProcess(library, "")
        self._events = self._reported()
        began = time.perf_counter()
        self.controller.start([listener.fileno()], str(directory / f"{library}.log"))
        self.wait(ProcessReady)
        self.start_s = time.perf_counter() - began

    def wait(self, kind: type[Awaited]) -> Awaited:
        """The next event of this class. ControllerError if a refusal or a death comes first."""
        for event in self._events:
            if isinstance(event, ProcessDied | RuleRefused):
                raise ControllerError(f"{event.kind}: {event.why}")
            if isinstance(event, kind):
                return event
        raise ControllerError(f"the controller reported nothing for {PATIENCE_S} s.")

    def _reported(self) -> Iterator[ControllerEvent]:
        while select.select([self.controller], [], [], PATIENCE_S)[0]:
            yield from self.controller.events()

    def seconds_to_hold(self, rules: Sequence[Rule]) -> float:
        began = time.perf_counter()
        self.controller.set_rules(rules)
        while self.wait(RulesInstalled).missing:
            continue
        return time.perf_counter() - began


def measure(
    rules: int, repeat: int, libraries: Sequence[str], progress: Callable[[str], None]
) -> dict[str, Any]:
    """`start_s`: seconds that each library takes to start; `rows`: a row for every way and count of
    bridges."""
    rows: list[dict[str, Any]] = []
    starts: dict[str, float] = {}
    switches = PrivateSwitches(DIRECTORY)
    switches.start()
    try:
        for bridges in BRIDGES:
            switches.add_bridges(range(bridges))
            intent = bench_rules(rules, bridges)
            progress(f"{rules} rules on {bridges} bridges: ovs-ofctl")
            times = {"ovs-ofctl --bundle": _ofctl_times(switches, intent, bridges, repeat)}
            for library in libraries:
                progress(f"{rules} rules on {bridges} bridges: {library}")
                with socket.create_server(("127.0.0.1", PORT), backlog=256) as listener:
                    session = ConnectedController(library, listener, DIRECTORY)
                    try:
                        times[library] = _times(session, switches, intent, bridges, repeat)
                    finally:
                        session.controller.stop()
                starts.setdefault(library, session.start_s)
            plain_s = statistics.median(times["ovs-ofctl --bundle"])
            rows += [_row(how, bridges, rules, taken, plain_s) for how, taken in times.items()]
            switches.remove_bridges(range(bridges))
    finally:
        switches.stop()
    return {"start_s": starts, "rows": rows}


def _times(
    session: ConnectedController, switches: PrivateSwitches, intent: Sequence[Rule], bridges: int, repeat: int
) -> list[float]:
    switches.connect(range(bridges))
    for _ in range(bridges):
        session.wait(SwitchUp)
    times = []
    for _ in range(repeat):
        session.seconds_to_hold([])
        times.append(session.seconds_to_hold(intent))
        _check(switches, bridges, len(intent))
    return times


def _ofctl_times(switches: PrivateSwitches, intent: Sequence[Rule], bridges: int, repeat: int) -> list[float]:
    """One `ovs-ofctl --bundle` per bridge, one after another, as a script would."""
    texts = [""] * bridges
    for rule in intent:
        texts[rule.switch] += flow_text(rule) + "\n"
    times = []
    for _ in range(repeat):
        for node in range(bridges):
            switches.ofctl("del-flows", f"b{node}")
        began = time.perf_counter()
        for node, text in enumerate(texts):
            switches.ofctl("--bundle", "add-flows", f"b{node}", "-", stdin=text)
        times.append(time.perf_counter() - began)
        _check(switches, bridges, len(intent))
    return times


def _row(how: str, bridges: int, rules: int, times: Sequence[float], plain_s: float) -> dict[str, Any]:
    """One way of installing rules, measured.

    `seconds`: median time from the call to every switch's confirmation; `first_s`: the first time, before any
    part of a message is cached; `ratio`: against ovs-ofctl on the same bridges.
    """
    seconds = statistics.median(times)
    return {
        "how": how,
        "bridges": bridges,
        "rules": rules,
        "seconds": seconds,
        "first_s": times[0],
        "rules_per_s": rules / seconds,
        "ratio": plain_s / seconds,
    }


def _check(switches: PrivateSwitches, bridges: int, rules: int) -> None:
    installed = sum(switches.flow_count(node) for node in range(bridges))
    if installed != rules:
        raise ControllerError(
            f"{installed} rules are installed, not {rules}: the figures would mean nothing."
        )
