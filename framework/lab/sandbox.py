"""The lab from outside: starts its first process in private namespaces, receives its messages, ends it."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from railweave.framework.errors import ChannelClosedError, LabError, MachineError
from railweave.framework.model.events import TaskEnded, TaskFailed
from railweave.framework.processes.child import ChildProcess, Surroundings
from railweave.framework.processes.programs import search_path, tool

TUN = Path("/dev/net/tun")
APPARMOR_RESTRICTION = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
PROGRAMS = (
    "unshare", "setpriv", "ip", "tc", "nft",
    "ovsdb-server", "ovsdb-tool", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl", "ovs-dpctl",
)  # fmt: skip
STOP_S = 10.0


def namespaces_fix(refusal: str) -> str:
    """How to allow private namespaces where this user is refused them. `refusal`: the error of unshare."""
    if "mount /proc failed" in refusal:
        return (
            "Something is mounted inside this /proc, as container engines do, and the kernel then allows no "
            "new /proc in a user namespace. It works outside the container, or with an unmasked /proc "
            "(Docker: --security-opt systempaths=unconfined). With sudo a lab runs without any change."
        )
    if APPARMOR_RESTRICTION.exists() and APPARMOR_RESTRICTION.read_text().strip() == "1":
        return (
            "AppArmor restricts user namespaces on this machine, as on Ubuntu 24.04. `make setup` gives this "
            "checkout's launcher a profile that allows them; or, as root, for all programs: sysctl -w "
            "kernel.apparmor_restrict_unprivileged_userns=0. With sudo a lab runs without any change."
        )
    return (
        "As root: sysctl -w user.max_user_namespaces=10000 (and kernel.unprivileged_userns_clone=1 where "
        "that exists). With sudo a lab runs without any change."
    )


def check_machine() -> None:
    """Raise MachineError if this machine lacks something that the lab needs; nothing is started."""
    for name in PROGRAMS:
        tool(name)
    if not TUN.exists():
        raise MachineError(
            f"{TUN} is not there, and Open vSwitch needs it for its bridges. As root: modprobe tun, or "
            f"mkdir -p /dev/net && mknod {TUN} c 10 200 && chmod 666 {TUN}."
        )
    if not os.access(TUN, os.R_OK | os.W_OK):
        raise MachineError(
            f"{TUN} may not be opened by this user. As root: chmod 666 {TUN} (the usual mode)."
        )


def unshare_command() -> list[str]:
    """The command prefix that runs a program as pid 1 of private network, mount and process namespaces.

    Root keeps its powers (and with them larger send buffers); anyone else becomes root of a user namespace.
    Every level dies with its parent, so a killed command takes the lab along.
    """
    # a copy of unshare with an AppArmor profile, where AppArmor restricts unshare
    launcher = Path(sys.prefix) / "bin" / "railweave-unshare"
    unshare = str(launcher) if launcher.exists() else tool("unshare")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    spaces = ["--net", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc"]
    return [tool("setpriv"), "--pdeathsig", "KILL", unshare, *user, *spaces]


class Sandbox:
    """One lab: its first process and the channel to it. Use as a context manager; leaving it ends the lab.

    `files`: descriptors that the lab inherits under the same numbers. `terminal`: it owns the terminal.
    """

    def __init__(
        self, task: str, message: Mapping[str, Any], *, files: Sequence[int] = (), terminal: bool = False
    ) -> None:
        check_machine()
        surroundings = Surroundings(
            files=files,
            environment={"PATH": search_path()},  # Mininet looks for its programs itself
            prefix=unshare_command(),
            own_session=not terminal,  # Ctrl-C reaches this process alone, which then ends the lab in order
            terminal=terminal,
        )
        self._process = ChildProcess("the lab", "railweave.framework.lab", [task], surroundings)
        try:
            self._process.channel.send(dict(message))
        except ChannelClosedError:
            error = self._cause_of_death()
            self.stop()
            raise error from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def messages(self) -> Iterator[Any]:
        """The events of the lab's task; the last is TaskEnded or TaskFailed. Raises LabError if the lab ends
        without one."""
        while True:
            try:
                message = self._process.channel.receive()
            except ChannelClosedError:
                raise self._cause_of_death() from None
            yield message
            if isinstance(message, TaskEnded | TaskFailed):
                return

    def stop(self) -> None:
        """End the lab; returns when the kernel has removed everything in it."""
        self._process.stop(STOP_S)

    def _cause_of_death(self) -> LabError | MachineError:
        # unshare itself, or the launcher with an AppArmor profile, says why it was refused
        obituary = self._process.obituary(STOP_S)
        refused = [line for line in obituary.splitlines() if line.partition(" ")[0].endswith("unshare:")]
        if refused:
            return MachineError(
                f"this user may not make private namespaces ({refused[-1]}). {namespaces_fix(refused[-1])}"
            )
        return LabError(obituary)
