"""Network namespaces, entered and left by the calling thread; mounts. Python 3.11 has no os.setns, 3.12
has."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Self

from railweave.framework.errors import LabError

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_BIND = 0x1000
PR_SET_PDEATHSIG = 1
"""linux/sched.h, linux/mount.h, linux/prctl.h."""
NETNS_DIR = Path("/run/netns")


@cache
def _libc() -> ctypes.CDLL:
    """The C library; other systems than Linux need nothing of it."""
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, call: str) -> None:
    if result != 0:
        raise LabError(f"{call}: {os.strerror(ctypes.get_errno())}.")


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    """mount(2), in this mount namespace."""
    _check(
        _libc().mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()),
        f"mount {kind or source} on {target}",
    )


def unshare(flags: int) -> None:
    """unshare(2): namespaces of its own for this process; a process namespace is for its next child."""
    _check(_libc().unshare(flags), "unshare")


def enter(namespace_fd: int) -> None:
    """setns(2): this thread goes into a namespace; a process namespace is for its next child."""
    _check(_libc().setns(namespace_fd, 0), "setns")


def die_with_parent(signal_number: int) -> None:
    """Ask the kernel to signal this process when its parent ends."""
    _check(_libc().prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


@contextmanager
def _returning() -> Iterator[None]:
    """Whatever network namespace the block enters, this thread comes back afterwards."""
    home = NetNamespace.current()
    try:
        yield
    finally:
        _check(_libc().setns(home.fd, CLONE_NEWNET), "setns")
        os.close(home.fd)


class NetNamespace:
    """A network namespace, bound to /run/netns/NAME where `ip -n NAME` and other processes of the lab find
    it."""

    def __init__(self, name: str, fd: int) -> None:
        self.name, self.fd, self.path = name, fd, str(NETNS_DIR / name)

    @classmethod
    def current(cls) -> Self:
        """The namespace of this process."""
        return cls("", os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))

    @classmethod
    def create(cls, name: str) -> Self:
        """A new one, with IPv6 off for every interface to come (a veth end must stay silent)."""
        NETNS_DIR.mkdir(parents=True, exist_ok=True)
        with _returning():
            _check(_libc().unshare(CLONE_NEWNET), "unshare(CLONE_NEWNET)")
            target = NETNS_DIR / name
            target.touch()
            mount("/proc/thread-self/ns/net", str(target), "", MS_BIND)
            silence_ipv6()
            return cls(name, os.open(target, os.O_RDONLY | os.O_CLOEXEC))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Run the block, and the processes it starts, inside; this thread comes back afterwards."""
        with _returning():
            _check(_libc().setns(self.fd, CLONE_NEWNET), "setns")
            yield


@contextmanager
def inside(path: str) -> Iterator[None]:
    """Run the block in the network namespace at `path`; this thread comes back afterwards. Raises LabError if
    there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise LabError(
            f"network namespace {path} cannot be opened: {error.strerror}. Is the lab up?"
        ) from error
    with os.fdopen(fd, "rb", buffering=0), NetNamespace("", fd).entered():
        yield


def silence_ipv6() -> None:
    """Turn IPv6 off in the current namespace: no router solicitation and no MLD packet must be counted."""
    for scope in ("default", "all"):
        knob = Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6")
        if knob.exists():  # not in a kernel without IPv6
            knob.write_text("1")
