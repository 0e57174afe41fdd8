"""Sockets of the lab's other processes, borrowed with pidfd_getfd(2)."""

import contextlib
import ctypes
import errno
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from railweave.framework.errors import LabError

SYS_PIDFD_GETFD = 438
"""Number of pidfd_getfd(2), the same on x86 and ARM."""
CLOSERS = 64
"""Threads that close sockets: each waits for a grace period of the kernel, and does nothing meanwhile."""


def borrowed_sockets(pid: int, family: socket.AddressFamily) -> list[socket.socket]:
    """Our own descriptors of the sockets of this family in process `pid`; none if it has ended."""
    sockets = []
    libc = ctypes.CDLL(None, use_errno=True)
    ended = contextlib.suppress(ProcessLookupError, FileNotFoundError)
    with ended, os.fdopen(os.pidfd_open(pid), "rb", buffering=0) as process:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed since the folder was listed
                if not str(entry.readlink()).startswith("socket:"):
                    continue
                fd = libc.syscall(SYS_PIDFD_GETFD, process.fileno(), int(entry.name), 0)
                if fd < 0 and ctypes.get_errno() == errno.EBADF:  # closed since its link was read
                    continue
                if fd < 0:
                    raise LabError(
                        f"cannot borrow a socket of process {pid}: {os.strerror(ctypes.get_errno())}."
                    )
                sock = socket.socket(fileno=fd)
                if sock.family == family:
                    sockets.append(sock)
                else:
                    sock.close()
    return sockets


@contextlib.contextmanager
def closing_together(pids: Sequence[int], kept: Iterable[socket.socket] = ()) -> Iterator[None]:
    """A block that ends processes with many packet sockets; their sockets are closed at its end, and those of
    them that were borrowed before and `kept`.

    Closing a packet socket waits for a grace period of the kernel, about 10 ms. An ending process waits for
    each socket in turn; threads that close them at the same time wait once.
    """
    sockets = [*kept, *(sock for pid in pids for sock in borrowed_sockets(pid, socket.AF_PACKET))]
    try:
        yield
    finally:
        with ThreadPoolExecutor(CLOSERS) as pool:
            list(pool.map(socket.socket.close, sockets))
