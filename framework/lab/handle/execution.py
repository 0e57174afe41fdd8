"""A command on a host of an open lab, as subprocess would run one here."""

import json
import os
import selectors
import signal
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from subprocess import CompletedProcess
from typing import Any, Self

from railweave.framework.errors import LabError, ProgramError

MOST_BYTES = 64 << 20
"""Bytes that are kept of each stream of a command, the first."""
GRACE_S = 2.0
"""Seconds from SIGTERM to SIGKILL, for a command to end by itself."""


class _Stream:
    """What a command prints on one of its streams."""

    def __init__(self) -> None:
        self.end, self.theirs = os.pipe()
        self._data, self._left_out = bytearray(), 0

    def read(self) -> bool:
        """Read what is there; False at the end."""
        data = os.read(self.end, 1 << 16)
        room = MOST_BYTES - len(self._data)
        self._data += data[:room]
        self._left_out += max(0, len(data) - room)
        return bool(data)

    @property
    def text(self) -> str:
        cut = f"\n[railweave: cut here, {self._left_out} bytes left out]\n" if self._left_out else ""
        return self._data.decode(errors="replace") + cut


class HostCommand:
    """A command that runs on a host. As a context manager it ends with its block, and everything with it
    that it has started.

    `door`: where the lab takes requests (programs/commands.py). Raises LabError if the lab is gone.
    """

    def __init__(
        self,
        door: socket.socket,
        host: str,
        command: Sequence[str],
        *,
        directory: str,
        environment: Mapping[str, str],
        stdin: str,
    ) -> None:
        self._host, self._command = host, list(command)
        self._sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._out, self._err = _Stream(), _Stream()
        request = {
            "host": host, "command": self._command, "directory": directory, "environment": dict(environment),
        }  # fmt: skip
        outputs = (self._out.theirs, self._err.theirs)
        try:
            with theirs, tempfile.TemporaryFile() as fed:
                fed.write(stdin.encode())
                fed.seek(0)
                socket.send_fds(door, [b"."], [theirs.fileno()])
                socket.send_fds(self._sock, [json.dumps(request).encode()], [fed.fileno(), *outputs])
        except OSError as error:
            self.close()
            raise LabError(
                f"{host}: {command[0]} was not started: {error.strerror}. Is the lab up?"
            ) from None
        finally:
            for fd in outputs:
                os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill it if it still runs."""
        if self._sock.fileno() >= 0:
            self._sock.close()
            os.close(self._out.end)
            os.close(self._err.end)

    def wait(self, timeout: float | None = None) -> "CompletedProcess[str]":
        """Wait for its end: `returncode`, `stdout` and `stderr`, 64 MiB at most of each.

        Raises ProgramError if it could not be started, or takes longer than `timeout` seconds, after which it
        is ended; LabError if the lab ends first.
        """
        try:
            answer, late = self._answer(timeout)
        finally:
            self.close()
        name = self._command[0]
        if late:
            lines = (self._err.text or self._out.text).strip().splitlines()[-3:]
            printed = "Its last lines:\n" + "\n".join(lines) if lines else "It printed nothing."
            raise ProgramError(
                f"{self._host}: {name} took longer than the timeout, {timeout:g} s, and was ended. {printed}"
            )
        if answer is None:
            raise LabError(f"the lab ended while {self._host} ran {name}.")
        if answer["error"]:
            raise ProgramError(f"{self._host}: {answer['error']}.")
        return CompletedProcess(self._command, answer["status"], self._out.text, self._err.text)

    def _answer(self, timeout_s: float | None) -> tuple[dict[str, Any] | None, bool]:
        """How it ended, None where the lab did first; whether it took too long."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        signals, data, late = [signal.SIGTERM, signal.SIGKILL], b"", False
        with selectors.DefaultSelector() as selector:
            selector.register(self._sock, selectors.EVENT_READ)
            for stream in (self._out, self._err):
                selector.register(stream.end, selectors.EVENT_READ, stream)
            while selector.get_map():
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    late = True
                    with suppress(OSError):
                        self._sock.send(str(int(signals.pop(0))).encode())
                    end = time.monotonic() + GRACE_S if signals else None
                    continue
                for key, _ in selector.select(left):
                    if key.data is None:
                        with suppress(OSError):
                            data = self._sock.recv(1 << 16)
                        selector.unregister(self._sock)
                        end = None
                    elif not key.data.read():
                        selector.unregister(key.fileobj)
        return (json.loads(data) if data else None), late
