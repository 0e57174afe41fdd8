"""When messages of switches arrived, whatever the process did meanwhile."""

import socket
import struct
import time
from typing import Any

SO_TIMESTAMPNS = 35
"""include/uapi/asm-generic/socket.h, with 64-bit times; also the type of the note that brings one."""
TIMESPEC = struct.Struct("qq")


class StampedSocket:
    """A connection that keeps when the kernel received what was read last, in the terms of
    time.monotonic(): a busy controller reads later. `arrived_s` is that time.

    What arrives before earlier bytes were read may share one time, the later one.
    """

    def __init__(self, sock: Any) -> None:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket, self._raw = sock, getattr(sock, "fd", sock)  # eventlet's socket has the real one
        self.arrived_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def recv(self, size: int) -> bytes:
        """Waits as the library's own does."""
        self._socket.recv(1, socket.MSG_PEEK)
        data, notes, *_ = self._raw.recvmsg(size, socket.CMSG_SPACE(TIMESPEC.size), socket.MSG_DONTWAIT)
        late_ns = 0
        for _, kind, stamp in notes:
            if kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = TIMESPEC.unpack(stamp)
                late_ns = time.time_ns() - (seconds * 10**9 + nanoseconds)  # floats err by 0.2 us
        self.arrived_s = time.monotonic() - late_ns * 1e-9
        received: bytes = data
        return received
