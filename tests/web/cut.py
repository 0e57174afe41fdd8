"""A way to a server that can be cut: connections pass through until all are reset at once."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from threading import Lock, Thread
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit


class Way:
    """Passes connections of `url` on to the server. `connections`: how many there have been."""

    def __init__(self, server_url: str) -> None:
        parts = urlsplit(server_url)
        self._server = (parts.hostname or "", parts.port or 80)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        self._lock = Lock()
        self.connections = 0
        address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.url = urlunsplit(parts._replace(netloc=address))

    def cut(self) -> None:
        """Reset every connection, so that neither end is told in good order."""
        with self._lock:
            for end in self._ends:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
            self._ends.clear()

    def __enter__(self) -> Self:
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
                server = socket.create_connection(self._server)
            except OSError:
                return
            with self._lock:
                self._ends += [client, server]
                self.connections += 1
            for source, sink in ((client, server), (server, client)):
                Thread(target=_pass_on, args=(source, sink), daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
