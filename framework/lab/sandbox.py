"""The lab seen from outside: start its first process in private namespaces, hear it, end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from railweave.framework.channel import Channel
from railweave.framework.errors import ChannelClosedError, LabError, MachineError
from railweave.framework.lab.ovs import search_path, tool

TUN = Path("/dev/net/tun")
APPARMOR_RESTRICTION = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
STOP_WITHIN_S = 10.0


def namespaces_mend(said: str) -> str:
    """What opens private namespaces to this user, where the kernel refuses them; `said`: unshare's own words."""
    if "mount /proc failed" in said:
        return (
            "Something is mounted within this /proc, as container engines do, and the kernel then gives user namespaces "
            "none of their own. It works outside the container, or where its /proc is whole (Docker: --security-opt "
            "systempaths=unconfined). With sudo a lab runs as it is."
        )
    if APPARMOR_RESTRICTION.exists() and APPARMOR_RESTRICTION.read_text().strip() == "1":
        return (
            "AppArmor restricts user namespaces on this machine, as on Ubuntu 24.04. Either `make setup` gives this "
            "checkout's launcher a profile that allows them, or, as root, for all programs: "
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0. With sudo a lab runs as it is."
        )
    return (
        "As root: sysctl -w user.max_user_namespaces=10000 (and kernel.unprivileged_userns_clone=1 where that exists). "
        "With sudo a lab runs as it is."
    )


def check_machine() -> None:
    """Raise MachineError for what the lab needs and this machine lacks; nothing is started."""
    for name in ("unshare", "setpriv", "ip", "tc", "nft", "ovsdb-server", "ovsdb-tool", "ovs-vswitchd", "ovs-vsctl",
                 "ovs-ofctl", "ovs-dpctl"):  # fmt: skip
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


def unshare_command(*, own_session: bool = True) -> list[str]:
    """The words that run a command as pid 1 of private network, mount and process namespaces.

    Root keeps its powers (and with them larger send buffers); anyone else becomes root of a user namespace.
    Every level dies with its parent, so a killed command takes the lab along.
    """
    launcher = (
        Path(sys.prefix) / "bin" / "railweave-unshare"
    )  # allowed by AppArmor where that restricts unshare
    unshare = str(launcher) if launcher.exists() else tool("unshare")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    spaces = ["--net", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc"]
    return [tool("setpriv"), "--pdeathsig", "KILL", unshare, *user, *spaces]


class Sandbox:
    """One lab: its first process and the channel to it. Use as a context manager; leaving it ends the lab.

    `files`: descriptors that the lab inherits under the same numbers.
    """

    def __init__(
        self, task: str, message: Mapping[str, Any], *, files: Sequence[int] = (), interactive: bool = False
    ) -> None:
        check_machine()
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the lab; has no name on disk
        self.channel, theirs = Channel.pair()
        words = None if interactive else self._words
        try:
            self._process = subprocess.Popen(
                [*unshare_command(), sys.executable, "-P", "-W", "ignore", "-m", "railweave.framework.lab",
                 task, str(theirs.fileno()), str(os.getpid())],
                env={**os.environ, "PATH": search_path()},  # Mininet looks for its programs itself
                pass_fds=[theirs.fileno(), *files],
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=words, stderr=words,
                # Ctrl-C goes to this process alone, which then ends the lab in order
                start_new_session=not interactive,
            )  # fmt: skip
        finally:
            theirs.close()
        try:
            self.channel.send(dict(message))
        except ChannelClosedError:
            raise self._why_dead() from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def messages(self) -> Iterator[dict[str, Any]]:
        """What the lab says, until it says `end`. Raises the error it ended with."""
        while True:
            try:
                message = self.channel.receive()
            except ChannelClosedError:
                raise self._why_dead() from None
            yield message
            if message.get("kind") in ("result", "error"):
                return

    def wait(self) -> int:
        """Wait for the lab's first process and give its exit code (shell, bench)."""
        return self._process.wait()

    def stop(self) -> None:
        """End the lab; returns when the kernel has taken down everything in it."""
        self.channel.close()  # its first process sees that and ends
        try:
            self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        self._words.close()

    def _why_dead(self) -> LabError | MachineError:
        code = self._process.wait()
        self._words.seek(0)
        said = self._words.read().decode(errors="replace").strip()
        # unshare itself, or the launcher with a profile of its own, says why
        refused = [line for line in said.splitlines() if line.partition(" ")[0].endswith("unshare:")]
        if refused:
            return MachineError(
                f"this user may not make private namespaces ({refused[-1]}). {namespaces_mend(refused[-1])}"
            )
        tail = "\n".join(said.splitlines()[-15:]) or "it said nothing"
        return LabError(f"the lab ended by itself (exit {code}):\n{tail}")
