"""Runs the command as on a system that lacks what only Unix or Linux has: `python bare_system.py run ...`."""

import builtins
import ctypes
import io
import os
import pathlib
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

MISSING = ("fcntl", "resource", "pwd", "grp", "termios", "mininet", "ryu", "os_ken", "scapy", "numba")
FUNCTIONS = ("sched_getaffinity", "sched_setaffinity", "sysconf", "getuid", "geteuid", "fork", "setns")
SIGNALS = ("SIGHUP", "SIGUSR1", "SIGCHLD", "SIGKILL")


def without_proc(opening: Callable[..., Any]) -> Callable[..., Any]:
    def opened(path: Any, *arguments: Any, **options: Any) -> Any:
        if str(path).startswith("/proc"):
            raise FileNotFoundError(2, "there is no /proc", str(path))
        return opening(path, *arguments, **options)

    return opened


if __name__ == "__main__":
    import platform
    from asyncio import base_events  # noqa: F401 - the standard library's own uses come first

    platform.release()
    for name in MISSING:
        sys.modules[name] = None  # type: ignore[assignment]
    for owner, names in (
        (os, FUNCTIONS),
        (signal, SIGNALS),
        (socket, ("AF_UNIX", "AF_PACKET", "AF_NETLINK")),
    ):
        for name in names:
            if hasattr(owner, name):
                delattr(owner, name)
    ctypes.CDLL = None  # type: ignore[assignment,misc]
    builtins.open = without_proc(builtins.open)
    io.open = without_proc(io.open)
    os.open = without_proc(os.open)
    pathlib.Path.open = without_proc(pathlib.Path.open)  # type: ignore[method-assign]

    from railweave.framework.cli import main

    main(sys.argv[1:])
