"""A program in the namespaces of one rank, as the invoking user, and nothing left of it when it has ended.

The first process of the rank's process namespace starts the program and waits for it. When it ends, or is
killed, the kernel ends everything else in there, whatever daemons the program has left.
"""

import errno
import os
import pwd
import resource
import signal
import socket
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from railweave.framework.lab.interface_names import host_name, program_host_name
from railweave.framework.model import Endpoint, Fabric
from railweave.framework.processes.namespaces import (
    CLONE_NEWIPC,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    MS_BIND,
    die_with_parent,
    enter,
    mount,
    unshare,
)
from railweave.framework.processes.sessions import weigh_session

FOLDER = Path("/run/railweave/programs")
"""What programs and the lab share: pipes, the file of host names, the launcher's socket."""
HOSTS = FOLDER / "hosts"
NICENESS = 10
"""Programs leave the processors to the switches: MPI polls, and would starve them. At 19 they would wait for
everything else on the machine."""
NOT_STARTED = 127
"""Status of a program that could not be started, as of a shell."""
_ENDED = struct.Struct("=id")


@dataclass(frozen=True, slots=True)
class User:
    """Whom programs run as: the user who called the command. `mapped`: the lab is a user namespace of that
    user, in which the same user is called root."""

    uid: int
    gid: int
    mapped: bool

    @classmethod
    def invoking(cls) -> "User":
        """As seen from a process of the lab; with sudo, the user who called sudo."""
        uid, gid = (_outer(f"/proc/self/{kind}_map") for kind in ("uid", "gid"))
        if uid or gid:
            return cls(uid, gid, True)
        return cls(int(os.environ.get("SUDO_UID", "0")), int(os.environ.get("SUDO_GID", "0")), False)

    @property
    def switched(self) -> bool:
        """Whether this is another user than the lab's, whose environment names someone else."""
        return not self.mapped and self.uid != 0

    @property
    def login(self) -> dict[str, str]:
        """What names this user in an environment."""
        try:
            user = pwd.getpwuid(self.uid)
        except KeyError:
            return {}
        return {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell}

    def environment(self, theirs: Mapping[str, str]) -> dict[str, str]:
        """The environment of this user's programs, from that of the caller."""
        return {**self.login, **theirs, **(self.login if self.switched else {})}

    def become(self) -> None:
        """Give up every power over the lab."""
        if self.mapped:
            unshare(CLONE_NEWUSER)
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{self.uid} 0 1")
            Path("/proc/self/gid_map").write_text(f"{self.gid} 0 1")
        elif self.switched:
            os.initgroups(pwd.getpwuid(self.uid).pw_name, self.gid)
            os.setresgid(self.gid, self.gid, self.gid)
            os.setresuid(self.uid, self.uid, self.uid)


def _outer(id_map: str) -> int:
    """The id outside of this user namespace that is 0 inside."""
    inside, outside, _ = Path(id_map).read_text().split()[:3]
    return int(outside) if inside == "0" else 0


@dataclass(frozen=True, slots=True)
class RankCommand:
    """What is run on a host, and for whom. `host`: path of the network namespace, host name. `stdio`:
    descriptors of standard input, output and error, which stay the caller's."""

    host: tuple[str, str]
    words: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    stdio: tuple[int, int, int]
    user: User


@dataclass(frozen=True, slots=True)
class Ended:
    """`status`: the program's exit code, or minus its signal. `error`: why it was not started. `cpu_s`:
    processor seconds of it and its children."""

    status: int
    cpu_s: float
    error: str


class RunningProgram:
    """A program in a rank's namespaces. `pidfd`: readable once it has ended and nothing of it is left."""

    def __init__(self, command: RankCommand) -> None:
        self._report, report = os.pipe()
        own_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY)
        unshare(CLONE_NEWPID)
        pid = os.fork()
        if pid == 0:
            _first_process(command, report)
        enter(own_namespace)
        os.close(own_namespace)
        os.close(report)
        self.pidfd = os.pidfd_open(pid)
        self._pid = pid

    def signal(self, number: signal.Signals) -> None:
        """SIGTERM reaches every process of the program; SIGKILL ends the namespace."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def ended(self) -> Ended:
        """How it ended; waits for that."""
        _, wait_status = os.waitpid(self._pid, 0)
        words = b""
        while data := os.read(self._report, 1 << 16):
            words += data
        os.close(self._report)
        os.close(self.pidfd)
        if words.startswith(b"S") and len(words) == 1 + _ENDED.size:
            status, cpu_s = _ENDED.unpack(words[1:])
            return Ended(os.waitstatus_to_exitcode(status), cpu_s, "")
        error = words.partition(b"S")[0] if words.startswith(b"E") else b""
        status = NOT_STARTED if error else os.waitstatus_to_exitcode(wait_status)
        return Ended(status, 0.0, error[1:].decode(errors="replace"))


def _first_process(command: RankCommand, report: int) -> NoReturn:
    """Enter the rank's namespaces, start the program, reap, and end with it."""
    try:
        keep_only({*command.stdio, report})
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        _prepare(*command.host)
        command.user.become()
        die_with_parent(signal.SIGKILL)
        program = os.fork()
        if program == 0:
            _execute(command, report)
        signal.signal(signal.SIGTERM, lambda number, _frame: os.kill(-1, number))
        for fd in set(command.stdio):
            os.close(fd)
        status = None
        while status is None:
            pid, ended = os.waitpid(-1, 0)
            status = ended if pid == program else None
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        os.write(report, b"S" + _ENDED.pack(status, usage.ru_utime + usage.ru_stime))
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - a forked process must not return into the launcher
        os.write(report, b"E" + str(error).encode())
    os._exit(1)


def _prepare(namespace: str, name: str) -> None:
    """Namespaces and mounts of the rank on host `name`."""
    fd = os.open(namespace, os.O_RDONLY)
    enter(fd)
    os.close(fd)
    unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC)
    socket.sethostname(name)
    mount("proc", "/proc", "proc")
    if Path("/dev/shm").is_dir():
        mount("tmpfs", "/dev/shm", "tmpfs", data="mode=1777")
    resolve_host_names()


def write_host_names(fabric: Fabric, endpoints: Sequence[Endpoint]) -> list[str]:
    """Write the names of all hosts, each with its alias (`h0-0`, `h0.0`), to HOSTS; returns the names."""
    names = [program_host_name(fabric, end.gpu) for end in endpoints]
    HOSTS.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    lines = [
        f"{end.ip} {name} {host_name(fabric, end.gpu)}\n" for end, name in zip(endpoints, names, strict=True)
    ]
    HOSTS.write_text("127.0.0.1 localhost\n" + "".join(lines))
    return names


def resolve_host_names() -> None:
    """In this mount namespace, resolve the names in HOSTS and no others."""
    mount(str(HOSTS), "/etc/hosts", "", MS_BIND)
    if Path("/etc/resolv.conf").exists():  # no server can be reached, and a name must fail at once
        mount("/dev/null", "/etc/resolv.conf", "", MS_BIND)


def _execute(command: RankCommand, report: int) -> NoReturn:
    """Become the program."""
    name = command.words[0]
    try:
        os.setsid()
        os.nice(NICENESS)
        weigh_session(os.getpid(), NICENESS)
        for target, fd in enumerate(command.stdio):  # all above 2, which the launcher has open
            os.dup2(fd, target)
        os.set_inheritable(report, False)
        keep_only({0, 1, 2, report})
        os.chdir(command.directory)
        os.execvpe(name, list(command.words), dict(command.environment))
    except OSError as error:
        fix = " (a script needs #!, or its interpreter named)" if error.errno == errno.ENOEXEC else ""
        os.write(report, f"E{name} cannot be started: {error.strerror}{fix}".encode())
    except BaseException as error:  # noqa: BLE001 - a forked process must not return into the launcher
        os.write(report, f"E{name} cannot be started: {error}".encode())
    os._exit(127)


def keep_only(kept: set[int]) -> None:
    """Close all other descriptors."""
    low = 0
    for fd in sorted(kept):
        if low < fd:  # an empty range would close everything
            os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, 1 << 16)
