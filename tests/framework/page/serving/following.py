"""Pages without a browser: a server of a run that a test tells what happens, and clients by plain sockets."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from itertools import islice
from typing import Any, Self
from urllib.parse import urlsplit


def get(url: str, path: str = "", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a GET request to `url` + `path`."""
    return ask("GET", url, path, **headers)


def ask(method: str, url: str, path: str = "", **headers: str) -> tuple[int, dict[str, str], bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    try:
        connection.request(
            method, parts.path + path, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


class Stream:
    """Follows `url` from message `after` on; `last_id` as a browser that was cut off sends it."""

    def __init__(self, url: str, after: int | str = 0, last_id: int | None = None) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=20)
        head = (
            f"GET {parts.path}events?after={after} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n"
        )
        head += "" if last_id is None else f"Last-Event-ID: {last_id}\r\n"
        self._socket.sendall(f"{head}\r\n".encode())
        self.file = self._socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])

    def messages(self) -> Iterator[tuple[int | None, dict[str, Any]]]:
        """Number and content of each, until the server ends it."""
        number = None
        for line in self.file:
            name, _, value = line.decode().rstrip("\r\n").partition(": ")
            if name == "id":
                number = int(value)
            elif name == "data":
                yield number, json.loads(value)

    def numbers(self, most: int | None = None) -> list[int | None]:
        """Of the next messages, at most so many."""
        return [number for number, _ in islice(self.messages(), most)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self._socket.close()
