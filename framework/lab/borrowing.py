"""Sockets of other processes of the lab, borrowed by pidfd_getfd(2)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from railweave.framework.errors import LabError

SYS_PIDFD_GETFD = 438
CLOSERS = 64


def borrowed_sockets(pid: int, family: socket.AddressFamily) -> list[socket.socket]:
    """Descriptors of our own for the sockets of that family of process `pid`; none if it has ended."""
    found = []
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return []
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed since the folder was listed
                if not str(entry.readlink()).startswith("socket:"):
                    continue
                fd = libc.syscall(SYS_PIDFD_GETFD, pidfd, int(entry.name), 0)
                if fd < 0:
                    raise LabError(
                        f"cannot borrow a socket of process {pid}: {os.strerror(ctypes.get_errno())}."
                    )
                sock = socket.socket(fileno=fd)
                if sock.family == family:
                    found.append(sock)
                else:
                    sock.close()
    except FileNotFoundError:  # the process itself has ended
        return found
    finally:
        os.close(pidfd)
    return found


@contextlib.contextmanager
def closing_together(pids: Sequence[int]) -> Iterator[None]:
    """End processes that hold many packet sockets inside this block; their sockets are closed when it ends.

    Closing a packet socket waits for a grace period of the kernel, some 10 ms. A process that ends waits for
    each in turn; threads that close at once wait together.
    """
    sockets = [sock for pid in pids for sock in borrowed_sockets(pid, socket.AF_PACKET)]
    try:
        yield
    finally:
        with ThreadPoolExecutor(CLOSERS) as pool:
            list(pool.map(socket.socket.close, sockets))
