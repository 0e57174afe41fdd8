"""Private Open vSwitch: an ovsdb-server and an ovs-vswitchd that share nothing with the machine's own."""

import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from railweave.framework.errors import MachineError
from railweave.framework.processes.namespaces import NetNamespace
from railweave.framework.processes.programs import run, tool

SWITCH, DATABASE = "ovs-vswitchd", "ovsdb-server"
"""The daemon that switches, and the one that holds its configuration."""
SCHEMAS = ("/usr/share/openvswitch/vswitch.ovsschema", "/usr/local/share/openvswitch/vswitch.ovsschema")
VSCTL_EXIT_CODES = {65: "ovs-vswitchd could not set up a port"}
"""Since Open vSwitch 3.6; before, ovs-vsctl printed the error and returned 0."""
USERSPACE_TYPE = "dummy"
"""`datapath_type` of bridges that the daemon switches by itself: its userspace datapath without a TAP device
for each bridge, which nothing here uses; so no /dev/net/tun is needed, which containers lack. Made for Open
vSwitch's own tests (`--enable-dummy`); interfaces that exist become ports as ever."""
KEPT_HEAP = {"MALLOC_TRIM_THRESHOLD_": str(64 << 20), "MALLOC_TOP_PAD_": str(4 << 20)}
"""For glibc. The userspace datapath allocates room for 32 packets at every port in every turn of its loop and
frees it again; giving that memory back to the kernel each time took 40 % of its processor time."""


class OpenVSwitch:
    """Two daemons in `namespace` (by default the caller's); their database, sockets and logs are in
    `run_dir`.

    The starting process must be the first of its process namespace: it inherits the daemons, and they end
    with it.
    """

    def __init__(self, run_dir: Path, namespace: NetNamespace | None = None) -> None:
        self.run_dir, self.namespace = run_dir, namespace
        self.pids: dict[str, int] = {}
        self._remote = f"unix:{run_dir}/db.sock"
        names = ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")
        self.environment = {**os.environ, **dict.fromkeys(names, str(run_dir))}
        """What makes every ovs-* program speak to this Open vSwitch."""

    def start(self) -> None:
        """Both daemons; they serve when this returns."""
        self.start_database()
        self.start_switch()

    def start_database(self) -> None:
        self.run_dir.mkdir(parents=True, exist_ok=True)
        schema = next((path for path in SCHEMAS if Path(path).exists()), None)
        if schema is None:
            raise MachineError("Open vSwitch's schema is missing. Install the package openvswitch-switch.")
        database = self.run_dir / "conf.db"
        if not database.exists():
            run([tool("ovsdb-tool"), "create", str(database), schema])
        self._start(DATABASE, [f"--remote=p{self._remote}", str(database)])

    def start_switch(self) -> None:
        """Start ovs-vswitchd, also after its death: it rebuilds its bridges from the database."""
        self._start(SWITCH, ["--enable-dummy", self._remote])

    def _start(self, name: str, arguments: Sequence[str]) -> None:
        """Start a daemon; with --detach its starter returns when it serves."""
        pidfile = self.run_dir / f"{name}.pid"
        options = ["--detach", "--no-chdir", "-vconsole:off", "-vsyslog:off", f"--pidfile={pidfile}",
                   f"--log-file={self.run_dir}/{name}.log"]  # fmt: skip
        with self.namespace.entered() if self.namespace else contextlib.nullcontext():
            run([tool(name), *options, *arguments], environment={**self.environment, **KEPT_HEAP})
        self.pids[name] = int(pidfile.read_text())

    def vsctl(self, arguments: Sequence[str]) -> str:
        """One ovs-vsctl transaction; returns when ovs-vswitchd has applied it. Raises LabError if it could
        not."""
        return run(
            [tool("ovs-vsctl"), f"--db={self._remote}", "--timeout=60", *arguments], hints=VSCTL_EXIT_CODES
        )

    def ofctl(self, *arguments: str, stdin: str | None = None) -> str:
        return run(
            [tool("ovs-ofctl"), "-O", "OpenFlow13", *arguments], stdin=stdin, environment=self.environment
        )

    def log_tail(self, lines: int = 8) -> str:
        """The end of the daemons' logs without routine messages, for the message of a failed run."""
        tail: list[str] = []
        for path in sorted(self.run_dir.glob("ovs*.log")):
            text = path.read_text(errors="replace").splitlines()
            tail += [f"{path.name}: {line}" for line in text if "|INFO|" not in line][-lines:]
        return "\n".join(tail) or "its logs are empty"

    def stop(self) -> None:
        """Kill the daemons and wait for their end; the namespaces take what they held."""
        for pid in self.pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in self.pids.values():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self.pids.clear()
