"""Rules per second through a controller, against `ovs-ofctl --bundle` with the same rules, in one run.

Runs as root in private namespaces, on an Open vSwitch of its own.
"""

import select
import socket
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from railweave.controllers.client import ControllerProcess
from railweave.controllers.ofctl_text import flow_text
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

DIRECTORY = Path("/run/rw-install")
"""Short, for the paths of Open vSwitch's sockets, which hold 108 characters at most."""
BRIDGES = (1, 24)
"""One switch shows the cost of a rule; 24 are the switches of the main job (16 GPUs, 4 domains, 4 rails)."""
PATIENCE_S = 60.0
Awaited = TypeVar("Awaited", bound=Event)


@dataclass(frozen=True)
class Row:
    """One way of installing rules, measured.

    `seconds`: median time from the call to every switch's confirmation; `first_s`: the first time, before any
    part of a message is cached; `ratio`: against ovs-ofctl on the same bridges.
    """

    how: str
    bridges: int
    rules: int
    seconds: float
    first_s: float
    rules_per_s: float
    ratio: float


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


class Session:
    """A controller that all bridges are connected to."""

    def __init__(self, library: str, listener: socket.socket, directory: Path) -> None:
        self._events: deque[ControllerEvent] = deque()
        self.controller = ControllerProcess(library, "")
        began = time.perf_counter()
        self.controller.start([listener.fileno()], str(directory / f"{library}.log"))
        self.wait(ProcessReady)
        self.start_s = time.perf_counter() - began

    def wait(self, kind: type[Awaited], count: int = 1) -> Awaited:
        """The `count`-th event of this class from now. ControllerError if a refusal or a death comes
        first."""
        while True:
            event = self._next()
            if isinstance(event, ProcessDied | RuleRefused):
                raise ControllerError(f"{event.kind}: {event.why}")
            if isinstance(event, kind):
                count -= 1
                if count == 0:
                    return event

    def _next(self) -> ControllerEvent:
        while not self._events:
            if not select.select([self.controller], [], [], PATIENCE_S)[0]:
                raise ControllerError(f"the controller reported nothing for {PATIENCE_S} s.")
            self._events.extend(self.controller.events())
        return self._events.popleft()

    def seconds_to_hold(self, rules: Sequence[Rule]) -> float:
        began = time.perf_counter()
        self.controller.set_rules(rules)
        while self.wait(RulesInstalled).missing:
            continue
        return time.perf_counter() - began


def measure(
    rules: int, repeat: int, libraries: Sequence[str], progress: Callable[[str], None]
) -> dict[str, Any]:
    """`start_s`: seconds that each library takes to start; `rows`: a Row for every way and count of
    bridges."""
    rows: list[Row] = []
    starts: dict[str, float] = {}
    switches = PrivateSwitches(DIRECTORY)
    switches.start()
    try:
        for count in BRIDGES:
            switches.add_bridges(range(count))
            intent = bench_rules(rules, count)
            progress(f"{rules} rules on {count} bridges: ovs-ofctl")
            plain = _ofctl_row(switches, intent, count, repeat)
            rows.append(plain)
            for library in libraries:
                progress(f"{rules} rules on {count} bridges: {library}")
                with socket.create_server(("127.0.0.1", PORT), backlog=256) as listener:
                    session = Session(library, listener, DIRECTORY)
                    try:
                        times = _times(session, switches, intent, count, repeat)
                    finally:
                        session.controller.stop()
                starts.setdefault(library, session.start_s)
                rows.append(_row(library, count, times, plain.rules, plain.seconds))
            switches.remove_bridges(range(count))
    finally:
        switches.stop()
    return {"start_s": starts, "rows": [asdict(row) for row in rows]}


def _times(
    session: Session, switches: PrivateSwitches, intent: Sequence[Rule], bridges: int, repeat: int
) -> list[float]:
    switches.connect(range(bridges))
    session.wait(SwitchUp, bridges)
    times = []
    for _ in range(repeat):
        session.seconds_to_hold([])
        times.append(session.seconds_to_hold(intent))
        _check(switches, bridges, len(intent))
    return times


def _ofctl_row(switches: PrivateSwitches, intent: Sequence[Rule], bridges: int, repeat: int) -> Row:
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
    return _row("ovs-ofctl --bundle", bridges, times, len(intent), statistics.median(times))


def _row(how: str, bridges: int, times: Sequence[float], rules: int, plain_s: float) -> Row:
    seconds = statistics.median(times)
    return Row(how, bridges, rules, seconds, times[0], rules / seconds, plain_s / seconds)


def _check(switches: PrivateSwitches, bridges: int, rules: int) -> None:
    held = sum(switches.flow_count(node) for node in range(bridges))
    if held != rules:
        raise ControllerError(f"{held} rules are installed, not {rules}: the figures would mean nothing.")
