"""Accepts switches on listening sockets that the lab opened, one in each of its network namespaces."""

import contextlib
import os
import socket
import struct
import time
import traceback
from collections.abc import Sequence
from typing import Any

from railweave.controllers.library import ECHO_OPTIONS, controller, hub

SO_TIMESTAMPNS = 35
"""include/uapi/asm-generic/socket.h, with 64-bit times; also the type of the note that brings one."""
TIMESPEC = struct.Struct("qq")


class Connection(controller.Datapath):  # type: ignore[misc]
    """A datapath whose end is reported by every library.

    When a switch leaves, the libraries kill the sending thread. os-ken's native threads cannot be killed and
    wait for something to send, so the connection would never be reported as dead.
    """

    @property
    def arrived_s(self) -> float:
        """When the message being read arrived."""
        arrived_s: float = self.socket.arrived_s
        return arrived_s

    def _recv_loop(self) -> None:
        try:
            super()._recv_loop()
        finally:
            self.close()
            self.send(b"", close_socket=True)


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
        late_s = 0.0
        for _, kind, stamp in notes:
            if kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = TIMESPEC.unpack(stamp)
                late_s = time.time() - (seconds + nanoseconds / 1e9)
        self.arrived_s = time.monotonic() - late_s
        received: bytes = data
        return received


class InheritedListeners:
    """Replaces the library's own server: accepts on the given descriptors and opens nothing."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        self._sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]

    def __call__(self) -> None:
        """How Ryu and os-ken run a server."""
        hub.joinall(self.start())

    def start(self) -> list[Any]:
        """How c65of starts a server: the threads that accept."""
        return [hub.spawn(_accept, listener) for listener in self._sockets]


def _accept(listener: socket.socket) -> None:
    """Accept for ever. The lab and earlier controllers share the socket, and with it its blocking mode."""
    listener.setblocking(True)
    try:
        while True:
            with contextlib.suppress(ConnectionAbortedError):  # a switch that gave up while it queued
                hub.spawn(_serve, *listener.accept())
    except OSError:
        traceback.print_exc()
        os._exit(1)


def _serve(sock: Any, address: Any) -> None:
    with contextlib.closing(Connection(StampedSocket(sock), address, **ECHO_OPTIONS)) as datapath:
        datapath.serve()
