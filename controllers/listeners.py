"""Accepts switches on listening sockets that the lab opened, one in each of its network namespaces."""

import contextlib
import os
import socket
import traceback
from collections.abc import Sequence
from typing import Any

from railweave.controllers.arrival_times import StampedSocket
from railweave.controllers.library import ECHO_OPTIONS, controller, hub


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
