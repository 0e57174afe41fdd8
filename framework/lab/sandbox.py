"""Private namespaces, in which a lab's first process runs: what they need, and why they are refused."""

import os
import sys
from pathlib import Path

from railweave.framework.errors import LabError, MachineError
from railweave.framework.processes.programs import tool

APPARMOR_RESTRICTION = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
PROGRAMS = (
    "unshare", "setpriv", "ip", "tc", "nft",
    "ovsdb-server", "ovsdb-tool", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl", "ovs-dpctl",
)  # fmt: skip


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


def why_it_ended(obituary: str) -> LabError | MachineError:
    """The error of a lab whose first process ended with this obituary (ChildProcess) before its task had."""
    # unshare itself, or the launcher with an AppArmor profile, says why it was refused; util-linux 2.38
    # complains about sigprocmask, too, where the lab was killed
    refused = [
        line
        for line in obituary.splitlines()
        if line.partition(" ")[0].endswith("unshare:") and "sigprocmask" not in line
    ]
    if refused:
        return MachineError(
            f"this user may not make private namespaces ({refused[-1]}). {namespaces_fix(refused[-1])}"
        )
    return LabError(obituary)
