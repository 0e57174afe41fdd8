"""A private Open vSwitch for the bench and the tests: its own daemons, database and bridges in one directory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from railweave.framework.addressing import dpid
from railweave.framework.errors import LabError

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
PORT = 6653
DAEMON = ("--detach", "--no-chdir", "--pidfile", "--log-file", "-vconsole:off")


class PrivateSwitches:
    """Bridges named b0, b1, ...: b7 is the switch of node 7. Lives in the caller's network namespace, which
    must be private; needs root there, mapped or real."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        # OVS' own variables; nothing of the machine's installed switch is read or written
        places = dict.fromkeys(("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"), str(directory))
        self._environment = dict(os.environ, **places)

    def start(self) -> None:
        if not SCHEMA.exists() or shutil.which("ovs-vswitchd", path=self._path()) is None:
            raise LabError("Open vSwitch is not installed. Install the package openvswitch-switch.")
        database = self._directory / "conf.db"
        self.run(["ip", "link", "set", "lo", "up"])
        self.run(["ovsdb-tool", "create", str(database), str(SCHEMA)])
        remote = f"--remote=punix:{self._directory / 'db.sock'}"
        self.run(["ovsdb-server", str(database), remote, *DAEMON])
        self.run(["ovs-vsctl", "--no-wait", "init"])
        self.start_switching()

    def start_switching(self) -> None:
        """Only the switch daemon, as after its death; it finds its bridges in the database."""
        self.run(["ovs-vswitchd", *DAEMON])

    def stop(self) -> None:
        self.run(["ovs-appctl", "-t", "ovs-vswitchd", "exit", "--cleanup"])
        self.run(["ovs-appctl", "-t", "ovsdb-server", "exit"])

    def add_bridges(self, nodes: Iterable[int]) -> None:
        """In one transaction, without a controller."""
        command = ["ovs-vsctl"]
        for node in nodes:
            command += ["--", "add-br", f"b{node}", "--", "set", "bridge", f"b{node}", "datapath_type=netdev"]
            command += ["protocols=OpenFlow13", "fail-mode=secure", "other-config:disable-in-band=true"]
            command += [f"other-config:datapath-id={dpid(node):016x}"]
        self.run(command)

    def remove_bridges(self, nodes: Iterable[int]) -> None:
        command = ["ovs-vsctl"]
        for node in nodes:
            command += ["--", "del-br", f"b{node}"]
        self.run(command)

    def connect(self, nodes: Iterable[int]) -> None:
        """Point the bridges at the controller. A second at most between attempts: OVS' own limit is eight."""
        command = ["ovs-vsctl"]
        for node in nodes:
            command += ["--", "set-controller", f"b{node}", f"tcp:127.0.0.1:{PORT}"]
            command += ["--", "set", "controller", f"b{node}", "max_backoff=1000"]
        self.run(command)

    def add_port(self, node: int, interface: str, number: int) -> None:
        port = ["set", "interface", interface, f"ofport_request={number}"]
        self.run(["ovs-vsctl", "add-port", f"b{node}", interface, "--", *port])

    def ofctl(self, *arguments: str, given: str | None = None) -> str:
        return self.run(["ovs-ofctl", "-O", "OpenFlow13", *arguments], given)

    def flow_count(self, node: int) -> int:
        words = self.ofctl("dump-aggregate", f"b{node}").split("flow_count=")
        return int(words[1].split()[0])

    def run(self, command: Sequence[str], given: str | None = None) -> str:
        """What the command printed. Raises LabError with what it complained about."""
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, env=self._environment, check=False
        )
        if done.returncode != 0:
            raise LabError(f"{' '.join(command)[:200]} failed: {done.stderr.strip()}")
        return done.stdout

    def _path(self) -> str:
        return self._environment.get("PATH", os.defpath)
