"""The lab's side of a controller: starts the process, speaks to it, and never waits for it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from railweave.controllers import wire
from railweave.controllers.frames import HEADER_BYTES, NUMBERS
from railweave.framework.addressing import dpid
from railweave.framework.channel import Channel
from railweave.framework.errors import ChannelClosedError, ControllerError
from railweave.framework.hookspecs import Event
from railweave.framework.model import Rule, RuleUpdate
from railweave.framework.parameters import Parameter, Value

STOP_S = 2.0
WHY_LINES = 12
LOG_TAIL_BYTES = 4096


class PatientSocket(socket.socket):
    """A socket whose `sendall` never waits: what the kernel does not take yet is kept for `flush`."""

    def __init__(self, fileno: int) -> None:
        super().__init__(fileno=fileno)
        self._rest = bytearray()

    def sendall(self, data: Any, flags: int = 0) -> None:
        self._rest += data
        self.flush()

    def flush(self) -> bool:
        """Whether something is left. Raises BrokenPipeError or ConnectionResetError when nobody will read it."""
        with contextlib.suppress(BlockingIOError):
            while self._rest:
                del self._rest[: self.send(self._rest, socket.MSG_DONTWAIT)]
        return bool(self._rest)


class ControllerProcess:
    """A controller of the register: the shape is hookspecs.Controller.

    `fileno()` stays the same from the first `start` to `stop`, over restarts. Commands given while the process
    is starting wait for it; commands to a dead one are dropped, since `died` is reported and its successor
    needs the whole intent anyway.
    """

    parameters: tuple[Parameter, ...] = ()

    def __init__(self, library: str, summary: str) -> None:
        self.summary = summary
        self._library = library
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: PatientSocket | None = None
        self._channel: Channel | None = None
        self._epoll: select.epoll | None = None
        self._log = Path()
        self._log_begin = 0

    def configured(self, options: Mapping[str, Value]) -> ControllerProcess:
        return ControllerProcess(self._library, self.summary)

    def start(self, listeners: Sequence[int], log_path: str) -> None:
        """Start the process, again after `died`. `ready` follows; then give it the whole intent.

        The thread that calls this must outlive the process: the kernel ends the process with it.
        """
        if self._process is not None:
            raise ControllerError(f"{self._library} is already running. Stop it, or wait for its `died`.")
        self._log = Path(log_path)
        ours, theirs = socket.socketpair()
        with ours, theirs, self._log.open("ab") as log:
            self._log_begin = log.tell()
            command = [sys.executable, "-P", "-W", "ignore", "-m", "railweave.controllers.launcher"]
            command += ["--library", self._library, "--parent", str(os.getpid())]
            command += ["--channel", str(theirs.fileno()), "--listeners", *map(str, listeners)]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
                pass_fds=[theirs.fileno(), *listeners],
                start_new_session=True,  # a Ctrl-C is the lab's to handle
            )
            self._socket = PatientSocket(ours.detach())
        self._channel = Channel(self._socket)
        if self._epoll is None:
            self._epoll = select.epoll()
        self._epoll.register(self._socket.fileno(), select.EPOLLIN)

    def fileno(self) -> int:
        """Readable when `events` has something to do."""
        if self._epoll is None:
            raise ControllerError(f"{self._library} was not started; it has no descriptor to wait on.")
        return self._epoll.fileno()

    def pid(self) -> int:
        if self._process is None:
            raise ControllerError(f"{self._library} is not running; it has no process id.")
        return self._process.pid

    def set_rules(self, rules: Sequence[Rule]) -> None:
        self._post(wire.set_rules(rules))

    def apply(self, update: RuleUpdate) -> None:
        self._post(wire.apply(update))

    def retire(self, version: int) -> None:
        self._post(wire.retire(version))

    def send_train(self, switch: int, port: int, packets: int, size_bytes: int, timed: int = 0) -> None:
        """`size_bytes` is the whole frame without its FCS."""
        if timed and (packets < 2 or not 0 < timed < NUMBERS):
            raise ControllerError(
                f"timed train {timed} of {packets} packets: its number lies in 1..{NUMBERS - 1}, and it takes a "
                "first packet and a last."
            )
        if size_bytes < HEADER_BYTES or packets < 1:
            raise ControllerError(
                f"a train of {packets} packets of {size_bytes} bytes: it takes 1 packet or more, of "
                f"{HEADER_BYTES} bytes (its headers) or more."
            )
        self._post(wire.train(dpid(switch), port, packets, size_bytes, timed))

    def poll_ports(self, number: int) -> None:
        self._post(wire.poll(number))

    def events(self) -> list[Event]:
        """What has happened since; the last is `died` when the process is gone."""
        if self._channel is None:
            return []
        self._flush()
        try:
            messages = self._channel.poll()
        except ChannelClosedError:
            return [Event("died", {"why": self._why()})]
        return [Event(message.pop("kind"), message) for message in messages]

    def stop(self) -> None:
        """End the process and wait for it. It has nothing to save: the switches keep their rules."""
        if self._process is not None:
            self._process.terminate()
            self._reap()
        if self._epoll is not None:
            self._epoll.close()
            self._epoll = None

    def _post(self, message: Any) -> None:
        if self._channel is not None:
            with contextlib.suppress(ChannelClosedError):  # `events` will report it, with the reason
                self._channel.send(message)
            self._flush()

    def _flush(self) -> None:
        """Send what waits, and be woken when there is room for what still does."""
        assert self._socket is not None and self._epoll is not None
        left = False
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # `events` will report it
            left = self._socket.flush()
        self._epoll.modify(self._socket.fileno(), select.EPOLLIN | (select.EPOLLOUT if left else 0))

    def _why(self) -> str:
        status = self._reap()
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        with self._log.open("rb") as log:
            log.seek(max(self._log_begin, self._log.stat().st_size - LOG_TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()[-WHY_LINES:]
        said = "; its last words:\n" + "\n".join(lines) if lines else " without a word"
        return f"{self._library} {how}{said}"

    def _reap(self) -> int:
        """The exit status of a process that is ending; one that does not is killed."""
        assert self._process is not None and self._channel is not None
        try:
            status = self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._channel.close()
        self._process = self._channel = self._socket = None
        return status


def _environment() -> dict[str, str]:
    """Ours, with two of the libraries' own switches that cut Ryu's start-up to under a half.

    No DNS under eventlet (nothing here resolves a name), and the standard library's distutils, where there is
    one (Ryu compares one version string; setuptools' replacement imports half of setuptools).
    """
    environment = dict(os.environ, EVENTLET_NO_GREENDNS="yes")
    if sys.version_info < (3, 12):
        environment["SETUPTOOLS_USE_DISTUTILS"] = "stdlib"
    return environment
