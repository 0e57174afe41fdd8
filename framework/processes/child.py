"""A child process that runs a Python module, with a channel to it and a log."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from railweave.framework.errors import ChannelClosedError
from railweave.framework.model.events import ProcessDied
from railweave.framework.processes.channel import Channel

STOP_S = 3.0
"""Seconds from SIGTERM to SIGKILL."""
LOG_TAIL_BYTES, LOG_TAIL_LINES = 4096, 15
"""Bytes and lines of a log that an error shows at most."""


class ChildProcess:
    """`PREFIX python -P -W ignore -m MODULE FD ARGUMENTS`; descriptor FD is its end of `channel`.

    MODULE asks for SIGKILL at the death of its parent (namespaces.die_with_parent), so the thread that makes
    this object must outlive the process; and it ends when the channel closes. `name` is what messages call
    the process. `wrap` replaces the socket at this end.

    `log_path`: its standard output and error are appended there; None: to a file in memory. `files`:
    descriptors that it inherits under the same numbers. `environment` is added to this process's own.
    `prefix`: a command that starts the interpreter. `terminal`: it keeps standard input, output and error;
    without, it has a session of its own, and Ctrl-C at the terminal does not reach it.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str] = (),
        *,
        log_path: str | None = None,
        files: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        terminal: bool = False,
        wrap: Callable[[socket.socket], socket.socket] = lambda sock: sock,
    ) -> None:
        self._name, self._death_reported = name, False
        # the log stays open while the process lives: its end is part of the error that reports a death
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        log = os.open(log_path, flags, 0o666) if log_path else os.memfd_create("log")
        self._log, self._log_begin = os.fdopen(log, "rb"), os.fstat(log).st_size
        output = None if terminal else log
        ours, theirs = socket.socketpair()
        with theirs:
            fd = theirs.fileno()
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-P", "-W", "ignore", "-m", module, str(fd), *arguments],
                stdin=None if terminal else subprocess.DEVNULL, stdout=output, stderr=output,
                pass_fds=(fd, *files), env={**os.environ, **(environment or {})},
                start_new_session=not terminal,
            )  # fmt: skip
        self.channel, self.pid = Channel(wrap(ours)), self._process.pid

    def send(self, message: object) -> None:
        """Send a message; it is dropped if the process is gone, which reading the channel reports."""
        with contextlib.suppress(ChannelClosedError):
            self.channel.send(message)

    def events(self) -> list[Any]:
        """Every message since the last call; never waits. The end of the process is reported once:
        ProcessDied."""
        if self._death_reported:
            return []
        try:
            messages = self.channel.poll()
        except ChannelClosedError:
            messages = [ProcessDied(self.obituary())]
        self._death_reported = any(isinstance(message, ProcessDied) for message in messages)
        return messages

    def stop(self, within_s: float = STOP_S, by: signal.Signals | None = None) -> int:
        """Close the channel (and send the signal `by`), wait for the end, kill after `within_s`; returns the
        status, or minus the signal that ended the process."""
        self.channel.close()
        if by is not None:
            self._process.send_signal(by)
        self._log.close()
        return self._ended(within_s)

    def obituary(self, within_s: float = STOP_S) -> str:
        """How the process ended, and the last lines it logged: between the closing of its channel and `stop`.
        A process that does not end within `within_s` is killed."""
        status = self._ended(within_s)
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        begin = max(self._log_begin, os.fstat(self._log.fileno()).st_size - LOG_TAIL_BYTES)
        log = os.pread(self._log.fileno(), LOG_TAIL_BYTES, begin).decode(errors="replace")
        if not (lines := log.splitlines()[-LOG_TAIL_LINES:]):
            return f"{self._name} {how} and logged nothing"
        return "\n".join([f"{self._name} {how}; the last lines of its log:", *lines])

    def _ended(self, within_s: float) -> int:
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
