"""Rules per second through a controller, against `ovs-ofctl --bundle` with the same rules, in one run.

`python -m railweave.controllers.bench --rules 5000 --json -`, inside private namespaces (network at least), as
root there. Starts its own Open vSwitch, changes nothing else, and ends it.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from railweave.controllers.client import ControllerProcess
from railweave.controllers.switches import PORT, PrivateSwitches
from railweave.controllers.words import flow_text
from railweave.framework.addressing import ENTROPY_BASE, NETWORK
from railweave.framework.errors import ControllerError, RailweaveError
from railweave.framework.hookspecs import Event
from railweave.framework.model import Match, Output, Rule

SCHEMA = "railweave.bench.install/1"
LIBRARIES = ("ryu", "os-ken")
BRIDGES = (1, 24)
"""One switch shows the cost of a rule; 24 are the switches of the main job (16 GPUs, 4 domains, 4 rails)."""
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Row:
    """One measured way of installing. `seconds` is the median, from the call to every switch's confirmation;
    `first_s` the first time, before any part of a message is known; `ratio` against ovs-ofctl on the same bridges."""

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
        self._events: deque[Event] = deque()
        self.controller = ControllerProcess(library, "")
        began = time.perf_counter()
        self.controller.start([listener.fileno()], str(directory / f"{library}.log"))
        self.wait("ready")
        self.start_s = time.perf_counter() - began

    def wait(self, kind: str, count: int = 1) -> Event:
        """The `count`-th event of this kind from now. Raises ControllerError if a refusal or a death comes first."""
        while True:
            event = self._next()
            if event.kind in ("died", "refused"):
                raise ControllerError(f"{event.kind}: {event.data['why']}")
            count -= event.kind == kind
            if count == 0:
                return event

    def _next(self) -> Event:
        while not self._events:
            if not select.select([self.controller], [], [], PATIENCE_S)[0]:
                raise ControllerError(f"the controller reported nothing for {PATIENCE_S} s.")
            self._events.extend(self.controller.events())
        return self._events.popleft()

    def seconds_to_hold(self, rules: Sequence[Rule]) -> float:
        began = time.perf_counter()
        self.controller.set_rules(rules)
        while self.wait("installed").data["missing"]:
            continue
        return time.perf_counter() - began


def measure(rules: int, libraries: Sequence[str], bridges: Sequence[int], repeat: int) -> dict[str, Any]:
    """The whole bench as plain data."""
    rows: list[Row] = []
    starts: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="rw") as name:
        directory = Path(name)
        switches = PrivateSwitches(directory)
        switches.start()
        try:
            for count in bridges:
                switches.add_bridges(range(count))
                given = bench_rules(rules, count)
                plain = _ofctl_row(switches, given, count, repeat)
                rows.append(plain)
                for library in libraries:
                    with socket.create_server(("127.0.0.1", PORT), backlog=256) as listener:
                        session = Session(library, listener, directory)
                        try:
                            times = _times(session, switches, given, count, repeat)
                        finally:
                            session.controller.stop()
                    starts.setdefault(library, session.start_s)
                    rows.append(_row(library, count, times, plain.rules, plain.seconds))
                switches.remove_bridges(range(count))
        finally:
            switches.stop()
    return {"schema": SCHEMA, "start_s": starts, "rows": [asdict(row) for row in rows]}


def _times(
    session: Session, switches: PrivateSwitches, given: Sequence[Rule], bridges: int, repeat: int
) -> list[float]:
    switches.connect(range(bridges))
    session.wait("switch_up", bridges)
    times = []
    for _ in range(repeat):
        session.seconds_to_hold([])
        times.append(session.seconds_to_hold(given))
        _check(switches, bridges, len(given))
    return times


def _ofctl_row(switches: PrivateSwitches, given: Sequence[Rule], bridges: int, repeat: int) -> Row:
    """One `ovs-ofctl --bundle` per bridge, one after another, as a script would."""
    texts = [""] * bridges
    for rule in given:
        texts[rule.switch] += flow_text(rule) + "\n"
    times = []
    for _ in range(repeat):
        for node in range(bridges):
            switches.ofctl("del-flows", f"b{node}")
        began = time.perf_counter()
        for node, text in enumerate(texts):
            switches.ofctl("--bundle", "add-flows", f"b{node}", "-", given=text)
        times.append(time.perf_counter() - began)
        _check(switches, bridges, len(given))
    return _row("ovs-ofctl --bundle", bridges, times, len(given), statistics.median(times))


def _row(how: str, bridges: int, times: Sequence[float], rules: int, plain_s: float) -> Row:
    seconds = statistics.median(times)
    return Row(how, bridges, rules, seconds, times[0], rules / seconds, plain_s / seconds)


def _check(switches: PrivateSwitches, bridges: int, rules: int) -> None:
    held = sum(switches.flow_count(node) for node in range(bridges))
    if held != rules:
        raise ControllerError(f"{held} rules are installed, not {rules}: the figures would mean nothing.")


def _table(result: dict[str, Any]) -> str:
    lines = [f"start-up: {name} {seconds:.2f} s" for name, seconds in result["start_s"].items()]
    lines.append(f"{'how':20}{'bridges':>8}{'rules':>8}{'seconds':>9}{'first':>8}{'rules/s':>10}{'ratio':>8}")
    for row in result["rows"]:
        lines.append(
            f"{row['how']:20}{row['bridges']:>8}{row['rules']:>8}{row['seconds']:>9.3f}{row['first_s']:>8.3f}"
            f"{row['rules_per_s']:>10.0f}{row['ratio']:>8.2f}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="railweave.controllers.bench", description=__doc__)
    parser.add_argument("--rules", type=int, default=5000)
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=LIBRARIES)
    parser.add_argument("--bridges", nargs="+", type=int, default=BRIDGES)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write the result there, - for the standard output")
    options = parser.parse_args(arguments)
    if min(options.rules, options.repeat, *options.bridges) < 1:
        parser.error("--rules, --repeat and --bridges must be 1 or more")
    try:
        result = measure(options.rules, options.libraries, options.bridges, options.repeat)
    except RailweaveError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    if options.json == "-":
        sys.stdout.write(json.dumps(result, indent=1) + "\n")
        return 0
    sys.stdout.write(_table(result) + "\n")
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
