"""Accepts switches on sockets that were opened, and put into their namespaces, by whoever started us."""

from __future__ import annotations

import contextlib
import os
import socket
import traceback
from collections.abc import Sequence
from typing import Any

from railweave.controllers.library import controller, hub


class Connection(controller.Datapath):  # type: ignore[misc]
    """A datapath that ends under both hubs.

    When a switch leaves, the library ends the sending thread by killing it. os-ken's native threads cannot be
    killed, and wait for something to send: the connection would never be reported dead.
    """

    def _recv_loop(self) -> None:
        try:
            super()._recv_loop()
        finally:
            self.close()
            self.send(b"", close_socket=True)


class InheritedListeners:
    """Stands where the library starts its own server, and opens nothing: it accepts on the given descriptors."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        self._sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]

    def __call__(self) -> None:
        hub.joinall([hub.spawn(self._accept, listener) for listener in self._sockets])

    def _accept(self, listener: socket.socket) -> None:
        """Accept for ever. The descriptor is shared with our starter and with who served it before us, and so
        is its blocking mode."""
        listener.setblocking(True)
        try:
            while True:
                with contextlib.suppress(ConnectionAbortedError):  # a switch that gave up while it queued
                    hub.spawn(_serve, *listener.accept())
        except OSError:
            traceback.print_exc()
            os._exit(1)


def _serve(sock: Any, address: Any) -> None:
    with contextlib.closing(Connection(sock, address)) as datapath:
        datapath.serve()
