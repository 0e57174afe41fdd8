"""Serves pages on this machine's loopback address, in a thread of its own."""

import os
import socket
import threading
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from railweave.framework.errors import InputError

ADDRESS = "127.0.0.1"
MOST_CONNECTIONS, SEND_BYTES, STOP_S = 64, 1 << 16, 1
"""Connections at once; what the kernel keeps for a page that does not read; seconds for what is under way
when the server stops."""


class PageServer:
    """Serves an application during a `with` block. `url`: where, without a path.

    Raises InputError for a port that is taken.
    """

    def __init__(self, app: ASGIApp, port: int = 0) -> None:
        self._socket = _listening(port)
        self.url = f"http://{ADDRESS}:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(
            app,
            http="h11",
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=STOP_S,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="page server", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()  # connections wait in the backlog until it is up
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(2 * STOP_S)
        self._socket.close()


def _listening(port: int) -> socket.socket:
    try:
        listening = socket.create_server((ADDRESS, port), backlog=MOST_CONNECTIONS)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise InputError(
            f"port {port} of {ADDRESS} cannot be had: {why}. Choose another, or 0 for one that is free."
        ) from None
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)  # connections inherit it
    return listening
