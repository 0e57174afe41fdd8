"""What the lab tests run inside private namespaces: `python lab_worker.py SCENARIO LIBRARY` prints JSON.

Scenarios only act and observe; what is right is for the tests to say.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from railweave.controllers.client import ControllerProcess
from railweave.controllers.private_ovs import PORT, PrivateSwitches
from railweave.framework.model import CONTROLLER_PORT, Match, Output, Rule, RuleUpdate, SetDscp
from railweave.framework.model.addressing import TRAIN_SEEN
from railweave.framework.model.events import ControllerEvent, ProcessDied
from railweave.framework.model.ofctl_text import flow_text
from railweave.framework.processes.namespaces import silence_ipv6
from railweave.framework.processes.programs import run, tool

PATIENCE_S = 30.0
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
NET = 10 << 24


def rule(switch: int, last_byte: int, port: int, priority: int = 100) -> Rule:
    """To 10.0.0.`last_byte`: out of `port`."""
    return Rule(switch, priority, Match(ipv4_dst=(NET | last_byte, 0xFFFFFFFF)), (Output(port),))


def add_port(switches: PrivateSwitches, node: int, interface: str, number: int) -> None:
    words = f"add-port b{node} {interface} -- set interface {interface} ofport_request={number}"
    switches.vsctl(words.split())


class Lab:
    """One private Open vSwitch, one listening socket, one controller; what it reports is kept in order."""

    def __init__(self, library: str, *, start: bool = True) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="rw"))
        self.switches = PrivateSwitches(self.directory)
        self.switches.start()
        self.listener = socket.create_server(("127.0.0.1", PORT), backlog=64)
        self.controller = ControllerProcess(library, "")
        self.log = self.directory / "controller.log"
        self.seen: list[ControllerEvent] = []
        self._waiting: deque[ControllerEvent] = deque()
        self.listeners = [self.listener]
        if start:
            self.start()

    def start(self) -> None:
        self.controller.start([listener.fileno() for listener in self.listeners], str(self.log))
        self.wait("ready")

    def bridges(self, *nodes: int) -> None:
        self.switches.add_bridges(nodes)
        self.switches.connect(nodes)
        for _ in nodes:
            self.wait("switch_up")

    def wait(self, kind: str) -> dict[str, Any]:
        """The fields of the next event of this kind."""
        while True:
            event = self._next()
            self.seen.append(event)
            if event.kind == kind:
                return asdict(event)
            if isinstance(event, ProcessDied):
                raise SystemExit(f"the controller died while waiting for {kind}: {event.why}")

    def install(self, rules: Iterable[Rule]) -> dict[str, Any]:
        self.controller.set_rules(list(rules))
        return self.wait("installed")

    def flows(self, node: int, switches: PrivateSwitches | None = None) -> list[str]:
        """The flows of a bridge without their statistics, sorted."""
        text = (switches or self.switches).ofctl("--no-stats", "dump-flows", f"b{node}")
        return sorted(line.strip() for line in text.splitlines() if "cookie" in line)

    def until(self, condition: Any) -> Any:
        """What the switch alone can tell us, asked again until it is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise SystemExit("a condition never came true")
            time.sleep(0.01)
        return found

    def kinds(self) -> list[str]:
        return [event.kind for event in self.seen]

    def _next(self) -> ControllerEvent:
        while not self._waiting:
            if not select.select([self.controller], [], [], PATIENCE_S)[0]:
                raise SystemExit(f"nothing came; so far {self.seen}; log:\n{self.log.read_text()}")
            self._waiting.extend(self.controller.events())
        return self._waiting.popleft()


class Shard:
    """A second Open vSwitch in its own network namespace, with a listening socket for the same controller."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        place = lab.directory / "shard"
        place.mkdir()
        self.switches = PrivateSwitches(place)
        self._pid_file = place / "ovs-vswitchd.pid"
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        LIBC.unshare(CLONE_NEWNET)
        self._namespace = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.switches.start()
        lab.listeners.append(socket.create_server(("127.0.0.1", PORT), backlog=64))
        LIBC.setns(home, CLONE_NEWNET)
        self._home = home

    def bridge(self, node: int) -> None:
        self.switches.add_bridges((node,))
        self.switches.connect((node,))
        self._lab.wait("switch_up")

    def pid(self) -> int:
        return int(self._pid_file.read_text())

    def restart(self) -> None:
        LIBC.setns(self._namespace, CLONE_NEWNET)
        self.switches.start_switch()
        LIBC.setns(self._home, CLONE_NEWNET)


def install(library: str) -> dict[str, Any]:
    """Rules of every kind on two bridges, and the same ones by ovs-ofctl on two others."""
    lab = Lab(library)
    listening = _listening()
    lab.bridges(0, 1)
    every = [
        Rule(0, 10, Match(), (Output(2),)),
        Rule(0, 20, Match(in_port=1), ()),
        Rule(0, 30, Match(1, (NET | 1 << 8, 0xFFFFFF00), (NET | 5, 0xFFFF00FF), 3, 0xC001), (Output(1),)),
        Rule(0, 40, Match(ipv4_dst=(NET | 7 << 16, 0xFFFF0000)), (SetDscp(5), Output(3))),
        Rule(1, 50, Match(2, None, None, 0, None), (SetDscp(0), Output(2))),
        Rule(1, 65535, Match(ipv4_src=(NET | 0xABCDEF, 0x00FFFF0F), udp_src=65535), (Output(4), Output(5))),
    ]
    told = lab.install(every)
    lab.switches.add_bridges((10, 11))
    for node in (0, 1):
        own = [found for found in every if found.switch == node]
        lab.switches.ofctl("add-flows", f"b{node + 10}", "-", stdin=_text(own))
    by_controller = [lab.flows(node) for node in (0, 1)]
    by_ofctl = [lab.flows(node) for node in (10, 11)]
    lab.controller.stop()
    return {
        "told": told,
        "kinds": lab.kinds(),
        "by_controller": by_controller,
        "by_ofctl": by_ofctl,
        "listening": listening,
        "inode": os.fstat(lab.listener.fileno()).st_ino,
    }


def phases(library: str) -> dict[str, Any]:
    """An update whose install phase a stopped switch holds up, then goes on; then its retirement."""
    lab = Lab(library, start=False)
    shard = Shard(lab)
    lab.start()
    lab.bridges(0)
    shard.bridge(1)
    old, kept = rule(0, 1, 2), rule(0, 9, 2)
    lab.install([old, kept])
    os.kill(shard.pid(), signal.SIGSTOP)
    entry, transit, beside = rule(0, 1, 3), rule(1, 1, 4), rule(0, 2, 3)
    lab.controller.apply(RuleUpdate(7, (transit, beside), (entry,), (old, kept)))
    lab.until(lambda: any("nw_dst=10.0.0.2" in flow for flow in lab.flows(0)))
    held_up = lab.flows(0)
    os.kill(shard.pid(), signal.SIGCONT)
    applied = lab.wait("applied")
    after = {"entry": lab.flows(0), "transit": lab.flows(1, shard.switches)}
    lab.controller.retire(7)
    retired = lab.wait("retired")
    result = {
        "held_up": held_up,
        "applied": applied,
        "after": after,
        "retired": retired,
        "left": lab.flows(0),
    }
    lab.controller.stop()
    return result


def lost_switch(library: str) -> dict[str, Any]:
    """A switch that dies in the middle of an update, and comes back empty."""
    lab = Lab(library, start=False)
    shard = Shard(lab)
    lab.start()
    lab.bridges(0)
    shard.bridge(1)
    lab.install([rule(0, 1, 2), rule(1, 1, 2)])
    os.kill(shard.pid(), signal.SIGSTOP)
    lab.controller.apply(RuleUpdate(2, (rule(1, 3, 4),), (rule(0, 1, 3),), ()))
    os.kill(shard.pid(), signal.SIGKILL)
    applied = lab.wait("applied")
    kinds = lab.kinds()
    shard.restart()
    told = lab.wait("installed")
    returned = lab.flows(1, shard.switches)
    result = {"applied": applied, "kinds": kinds, "told": told, "returned": returned, "other": lab.flows(0)}
    lab.controller.stop()
    return result


def killed(library: str) -> dict[str, Any]:
    """The controller killed, the switch tampered with, the controller started again on the same listener."""
    lab = Lab(library)
    lab.bridges(0)
    rules = [rule(0, number, 2) for number in range(1, 21)]
    lab.install(rules)
    frame = "02000000000102000000000208004500001c00000000401166cf0a0000630a000005c00012b700080000"
    for _ in range(5):
        lab.switches.ofctl("packet-out", "b0", f"in_port=CONTROLLER packet={frame} actions=resubmit(,0)")
    before = _counters(lab)
    descriptor = lab.controller.fileno()
    os.kill(lab.controller.pid(), signal.SIGKILL)
    lab.until(lambda: select.select([descriptor], [], [], 0)[0])
    died = lab.controller.events()
    lab.switches.ofctl("--strict", "del-flows", "b0", "priority=100,ip,nw_dst=10.0.0.7")
    lab.switches.ofctl("add-flow", "b0", "cookie=0x5,priority=7,ip,nw_dst=10.0.0.200,actions=output:9")
    lab.switches.ofctl("add-flow", "b0", "cookie=0x6,priority=100,ip,nw_dst=10.0.0.8,actions=output:9")
    tampered = lab.flows(0)
    lab.start()
    lab.wait("switch_up")
    untouched = lab.flows(0)
    told = lab.install(rules)
    result = {
        "died": [[event.kind, event.why] for event in died],
        "same_descriptor": lab.controller.fileno() == descriptor,
        "tampered": tampered,
        "untouched": untouched,
        "told": told,
        "expected": [hex(found.cookie) for found in rules],
        "flows": lab.flows(0),
        "before": before,
        "after": _counters(lab),
    }
    lab.controller.stop()
    return result


def train(library: str) -> dict[str, Any]:
    """A train out of a port, counted at the far end of its cable; then the cable's other end goes down."""
    lab = Lab(library)
    for command in ("link add near type veth peer name far", "link set near up", "link set far up"):
        run([tool("ip"), *command.split()])
    lab.bridges(0)
    add_port(lab.switches, 0, "near", 1)
    lab.until(lambda: "1(near)" in lab.switches.ofctl("show", "b0"))
    lab.install([Rule(0, 1, Match(), ())])
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)) as tap:
        tap.bind(("far", 0x0800))
        tap.settimeout(PATIENCE_S)
        lab.controller.send_train(0, 1, 60, 600)
        frames = [tap.recv(65536) for _ in range(60)]
        lab.controller.send_train(0, 1, 1, 60)
        last = tap.recv(65536)
    run([tool("ip"), "link", "set", "far", "down"])
    while (port := lab.wait("port"))["up"]:
        continue
    lab.controller.stop()
    return {"frames": sorted({frame.hex() for frame in frames}), "last": last.hex(), "port": port}


def reports(library: str) -> dict[str, Any]:
    """A timed train over a cable between two bridges, and the counters of all ports afterwards."""
    silence_ipv6()
    lab = Lab(library)
    for command in (
        "link add near mtu 9000 type veth peer name far mtu 9000",
        "link set near up",
        "link set far up",
    ):
        run([tool("ip"), *command.split()])
    lab.bridges(0, 1)
    add_port(lab.switches, 0, "near", 3)
    add_port(lab.switches, 1, "far", 5)
    lab.until(lambda: "3(near)" in lab.switches.ofctl("show", "b0"))
    lab.until(lambda: "5(far)" in lab.switches.ofctl("show", "b1"))
    seen = Rule(1, 100, Match(ipv4_dst=(TRAIN_SEEN, 0xFFFFFFFF)), (Output(CONTROLLER_PORT),))
    lab.install([seen])
    lab.controller.poll_ports(1)
    before = lab.wait("ports")
    began = time.monotonic()
    lab.controller.send_train(0, 3, 20, 4000, 77)
    timed = lab.wait("timed")
    ended = time.monotonic()
    lab.controller.poll_ports(2)
    after = lab.wait("ports")
    flows = lab.flows(1)
    lab.controller.stop()
    rounds = [{"number": one["number"], "rows": one["rows"].tolist()} for one in (before, after)]
    return {"timed": timed, "began": began, "ended": ended, "rounds": rounds, "flows": flows}


def refused(library: str) -> dict[str, Any]:
    """A rule that no switch takes; the controller goes on."""
    lab = Lab(library)
    lab.bridges(0)
    lab.controller.set_rules([rule(0, 1, 0xFFFFFF10)])
    why = lab.wait("refused")
    lab.wait("installed")
    told = lab.install([rule(0, 1, 2)])
    flows = lab.flows(0)
    lab.controller.stop()
    return {"why": why, "told": told, "flows": flows}


def patient(library: str) -> dict[str, Any]:
    """Many rules for a process that does not read yet; a switch that probes every second meanwhile."""
    lab = Lab(library, start=False)
    lab.controller.start([lab.listener.fileno()], str(lab.log))
    os.kill(lab.controller.pid(), signal.SIGSTOP)
    rules = [
        Rule(0, 100, Match(1, None, (NET | number, 0xFFFFFFFF), None, 0xC000), (Output(2),))
        for number in range(30_000)
    ]
    lab.controller.set_rules(rules)
    os.kill(lab.controller.pid(), signal.SIGCONT)
    lab.wait("ready")
    lab.switches.add_bridges((0,))
    lab.switches.connect((0,))
    lab.switches.vsctl(["set", "controller", "b0", "inactivity_probe=1000"])
    told = lab.wait("installed")
    result = {"told": told, "kinds": lab.kinds(), "held": lab.switches.flow_count(0)}
    lab.controller.stop()
    return result


def orphan(library: str) -> dict[str, Any]:
    """A controller whose starter is killed; and one whose end of the channel is all that is left."""
    body = (
        "import sys, socket, time; from railweave.controllers.client import ControllerProcess as C;"
        "c = C(sys.argv[1], ''); l = socket.create_server(('127.0.0.1', 0));"
        "c.start([l.fileno()], '/dev/null'); print(c.pid(), flush=True); time.sleep(60)"
    )
    starter = subprocess.Popen([sys.executable, "-c", body, library], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    watch = os.pidfd_open(pid)
    starter.kill()
    starter.wait()
    ended = bool(select.select([watch], [], [], PATIENCE_S)[0])
    lab = Lab(library)
    watch = os.pidfd_open(lab.controller.pid())
    lab.controller.stop()
    lab.controller.stop()
    stopped = bool(select.select([watch], [], [], 0)[0])
    after_stop = lab.controller.events()
    lab.start()
    lab.controller.stop()
    return {"ended": ended, "stopped": stopped, "after_stop": len(after_stop), "kinds": lab.kinds()}


def _text(rules: Iterable[Rule]) -> str:
    return "".join(flow_text(found) + "\n" for found in rules)


def _counters(lab: Lab) -> dict[str, int]:
    """Packets of each flow, by destination."""
    text = lab.switches.ofctl("dump-flows", "b0")
    return {dst: int(packets) for packets, dst in re.findall(r"n_packets=(\d+).*nw_dst=([\d.]+)", text)}


def _listening() -> list[list[str]]:
    """(address, inode) of every listening TCP socket of this network namespace, IPv6 included."""
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                found.append([words[1], words[9]])
    return found


if __name__ == "__main__":
    scenario, name = sys.argv[1:]
    print(json.dumps(globals()[scenario](name)))
