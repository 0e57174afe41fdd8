"""Open vSwitch of one shard: an ovsdb-server and an ovs-vswitchd of its own, in its own network namespace."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from railweave.framework.errors import LabError, MachineError
from railweave.framework.lab.borrowing import borrowed_sockets, closing_together
from railweave.framework.lab.namespaces import NetNamespace

RUN_DIR = Path("/run/railweave")
SWITCH = "ovs-vswitchd"
"""The daemon that switches; its partner is ovsdb-server."""
SCHEMAS = ("/usr/share/openvswitch/vswitch.ovsschema", "/usr/local/share/openvswitch/vswitch.ovsschema")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SEND_BUFFER_BYTES, RECEIVE_BUFFER_BYTES, MISS_BUFFER_BYTES = 64 << 20, 4 << 20, 64 << 20
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33


def search_path() -> str:
    """PATH and the system's own folders; ordinary users may lack those that end in sbin."""
    return f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"


def tool(name: str) -> str:
    """The path of a system program."""
    found = shutil.which(name, path=search_path())
    if found is None:
        raise MachineError(
            f"{name} is not installed. Run `make setup`, or install the packages that .ci/provision.sh names."
        )
    return found


def run(
    command: Sequence[str],
    *,
    given: str | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
) -> str:
    """Run a tool to its end and return what it printed; LabError with its own words if it fails."""
    done = subprocess.run(
        list(command),
        input=given,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()[-5:]
        raise LabError(
            f"{Path(command[0]).name} failed ({done.returncode}): {' | '.join(words) or 'no output'}"
        )
    return done.stdout


class OvsShard:
    """The daemons of one shard. `start` returns at once; `ready` waits until they serve."""

    def __init__(self, index: int, namespace: NetNamespace) -> None:
        self.index = index
        self.namespace = namespace
        self.run_dir = RUN_DIR / f"shard{index}"
        self.pids: dict[str, int] = {}

    @property
    def environment(self) -> dict[str, str]:
        """What makes every ovs-* tool speak to this shard."""
        own = {
            "OVS_RUNDIR": str(self.run_dir),
            "OVS_LOGDIR": str(self.run_dir),
            "OVS_DBDIR": str(self.run_dir),
        }
        return {**os.environ, **own}

    def start_database(self) -> None:
        self.run_dir.mkdir(parents=True, exist_ok=True)
        schema = next((s for s in SCHEMAS if Path(s).exists()), None)
        if schema is None:
            raise MachineError("Open vSwitch's schema is missing. Install the package openvswitch-switch.")
        database = self.run_dir / "conf.db"
        if not database.exists():
            run([tool("ovsdb-tool"), "create", str(database), schema])
        self._spawn("ovsdb-server", [f"--remote=punix:{self.run_dir}/db.sock", str(database)])

    def start_switch(self) -> None:
        """Start ovs-vswitchd (again, after it died): it rebuilds its bridges from the database."""
        self._spawn(SWITCH, [f"unix:{self.run_dir}/db.sock"])

    def kill_switch(self) -> None:
        """kill -9 ovs-vswitchd and wait for its end; `start_switch` brings it back."""
        pid = self.pids.pop(SWITCH)
        with closing_together([pid]):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def forget_flows(self) -> None:
        """Empty the kernel's cache of flows: packets wait for ovs-vswitchd to say where they go."""
        with self.namespace.entered():
            run([tool("ovs-dpctl"), "del-flows"])

    def _spawn(self, name: str, arguments: list[str]) -> None:
        """Start a daemon; with --detach it says by returning that it serves. As the lab's first process we inherit
        it when its starter ends."""
        pidfile = self.run_dir / f"{name}.pid"
        with self.namespace.entered():
            run([tool(name), "--detach", "--no-chdir", f"--pidfile={pidfile}", "-vconsole:off", "-vsyslog:off",
                 f"--log-file={self.run_dir}/{name}.log", *arguments], environment=self.environment)  # fmt: skip
        self.pids[name] = int(pidfile.read_text())

    def vsctl(self, arguments: Sequence[str]) -> str:
        """One ovs-vsctl transaction; waits until ovs-vswitchd has carried it out. Retries the connection itself."""
        return run([tool("ovs-vsctl"), f"--db=unix:{self.run_dir}/db.sock", "--timeout=60", *arguments])

    def ofctl(self, *arguments: str, given: str | None = None) -> str:
        return run(
            [tool("ovs-ofctl"), "-O", "OpenFlow13", *arguments], given=given, environment=self.environment
        )

    def last_words(self, lines: int = 8) -> str:
        """The end of the daemons' logs, for the message of a failed run."""
        found: list[str] = []
        for path in sorted(self.run_dir.glob("ovs*.log")):
            text = path.read_text(errors="replace").splitlines()
            found += [f"{path.name}: {line}" for line in text if "|INFO|" not in line][-lines:]
        return "\n".join(found[-2 * lines :]) or "its logs are empty"

    def widen_buffers(self) -> int:
        """Enlarge the AF_PACKET sockets of ovs-vswitchd's userspace ports; bytes reached for the one that sends.

        One socket sends for all ports, and the queues of all of them count against it; each port receives by one
        of its own, which 25 packets of 4 KiB fill. The kernel's defaults (net.core.wmem_default, rmem_default) are
        host-wide and must stay alone, so the sockets themselves are borrowed and set; without real root only up to
        net.core.wmem_max and rmem_max. 0 if the sender is not open yet (it opens with the first packet).
        """
        reached = 0
        for sock in borrowed_sockets(self.pids[SWITCH], socket.AF_PACKET):
            with sock:
                _enlarge(sock, SO_RCVBUFFORCE, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
                interface, protocol, *_ = sock.getsockname()
                if (interface, protocol) == ("", 0):
                    _enlarge(sock, SO_SNDBUFFORCE, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
                    reached = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        return reached

    def widen_miss_buffers(self) -> None:
        """Enlarge the sockets by which the kernel asks ovs-vswitchd for the way of packets it has no flow for.

        Every packet of a new flow waits there until the first one has its answer, and what does not fit is lost:
        by default (net.core.rmem_default) 24 packets of 4 KiB for all switches of the shard.
        """
        for sock in borrowed_sockets(self.pids[SWITCH], socket.AF_NETLINK):
            with sock:
                _enlarge(sock, SO_RCVBUFFORCE, socket.SO_RCVBUF, MISS_BUFFER_BYTES)

    def halt(self) -> None:
        """Let the switch stand still while its interfaces are taken away."""
        with contextlib.suppress(KeyError, ProcessLookupError):
            os.kill(self.pids[SWITCH], signal.SIGSTOP)

    def stop(self) -> None:
        """End the daemons; nothing they hold outlives the lab's namespaces anyway."""
        with closing_together([self.pids[name] for name in self.pids if name == SWITCH]):
            for pid in self.pids.values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in self.pids.values():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
        self.pids.clear()


def _enlarge(sock: socket.socket, force: int, ask: int, size: int) -> None:
    try:
        sock.setsockopt(socket.SOL_SOCKET, force, size)
    except PermissionError:  # an ordinary user: the kernel gives what it allows
        sock.setsockopt(socket.SOL_SOCKET, ask, size)
