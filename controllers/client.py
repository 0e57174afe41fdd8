"""The lab's side of a controller: starts the process and exchanges messages with it, without blocking."""

import contextlib
import select
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Self

from railweave.controllers import wire
from railweave.controllers.packages import check_installed
from railweave.framework.errors import ControllerError
from railweave.framework.model import Rule, RuleUpdate
from railweave.framework.model.addressing import dpid
from railweave.framework.model.events import ControllerEvent, ProcessDied
from railweave.framework.parameters import Parameter, Value
from railweave.framework.processes.child import ChildProcess

STOP_S = 2.0
"""Seconds from SIGTERM to SIGKILL."""
ENVIRONMENT = {"EVENTLET_NO_GREENDNS": "yes"} | (
    {"SETUPTOOLS_USE_DISTUTILS": "stdlib"} if sys.version_info < (3, 12) else {}
)
"""Two settings that more than halve Ryu's start-up: eventlet without DNS (nothing here resolves a name), and
the standard library's distutils where it exists (Ryu compares one version string; setuptools' replacement
imports half of setuptools)."""


class PatientSocket(socket.socket):
    """A socket whose `sendall` never blocks: it keeps what the kernel does not accept yet for `flush`."""

    def __init__(self, replaced: socket.socket) -> None:
        super().__init__(fileno=replaced.detach())
        self._rest = bytearray()

    def sendall(self, data: Any, flags: int = 0) -> None:
        self._rest += data
        self.flush()

    def flush(self) -> bool:
        """Whether data is left. Raises BrokenPipeError or ConnectionResetError if the peer is gone."""
        with contextlib.suppress(BlockingIOError):
            while self._rest:
                del self._rest[: self.send(self._rest, socket.MSG_DONTWAIT)]
        return bool(self._rest)


class ControllerProcess:
    """Supervises a controller process for the lab; implements hookspecs.Controller.

    `fileno()` stays the same from the first `start` to `stop`, over restarts. Commands to a starting process
    wait until it reads them. Commands to a dead one are dropped: ProcessDied is reported, and its successor
    needs all rules anyway.
    """

    parameters: tuple[Parameter, ...] = ()
    _socket: PatientSocket  # that of `_process`

    def __init__(self, library: str, summary: str) -> None:
        self.summary = summary
        self._library = library
        self._process: ChildProcess | None = None
        self._epoll: select.epoll | None = None

    def configured(self, options: Mapping[str, Value]) -> Self:
        """A controller for one run. Raises NotInstalledError if its library is missing."""
        check_installed(self._library)
        return type(self)(self._library, self.summary)

    def start(self, listeners: Sequence[int], log_path: str) -> None:
        """Start the process, again after ProcessDied. After ProcessReady, call `set_rules`.

        The calling thread must outlive the process, because the kernel ends the process with that thread.
        """
        self._process = ChildProcess(
            self._library,
            "railweave.controllers.launcher",
            [self._library, *map(str, listeners)],
            log_path=log_path,
            files=listeners,
            environment=ENVIRONMENT,
            wrap=self._patient,
        )

    def _patient(self, replaced: socket.socket) -> PatientSocket:
        self._socket = PatientSocket(replaced)
        self._epoll = self._epoll or select.epoll()
        self._epoll.register(self._socket, select.EPOLLIN)
        return self._socket

    def fileno(self) -> int:
        """Readable when `events` should be called."""
        if self._epoll is None:
            raise ControllerError(f"{self._library} was not started; it has no descriptor to wait on.")
        return self._epoll.fileno()

    def pid(self) -> int:
        if self._process is None:
            raise ControllerError(f"{self._library} is not running; it has no process id.")
        return self._process.pid

    def set_rules(self, rules: Sequence[Rule]) -> None:
        self._post("set_rules", wire.rows(rules))

    def apply(self, update: RuleUpdate) -> None:
        self._post("apply", update.version, wire.phases(update))

    def retire(self, version: int) -> None:
        self._post("retire", version)

    def send_train(self, switch: int, port: int, packets: int, size_bytes: int, timed: int = 0) -> None:
        """`size_bytes` is the whole frame without its FCS: headers or more; a timed train has two packets."""
        self._post("send_train", dpid(switch), port, packets, size_bytes, timed)

    def poll_ports(self, number: int) -> None:
        self._post("poll_ports", number)

    def events(self) -> list[ControllerEvent]:
        """The events since the last call; ProcessDied comes last if the process has ended."""
        if self._process is None:
            return []
        self._flush()
        events = self._process.events()
        if events and isinstance(events[-1], ProcessDied):
            self._end_process()
        return events

    def stop(self) -> None:
        """End the process and wait for its end; the switches keep their rules."""
        self._end_process()
        if self._epoll is not None:
            self._epoll.close()
            self._epoll = None

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.stop(STOP_S, signal.SIGTERM)
            self._process = None

    def _post(self, command: str, *arguments: Any) -> None:
        if self._process is not None:
            self._process.send([command, *arguments])  # if it has ended, `events` reports that and the reason
            self._flush()

    def _flush(self) -> None:
        """Send what is queued, and watch for room in the socket while something is left."""
        assert self._epoll is not None
        left = False
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # `events` will report it
            left = self._socket.flush()
        self._epoll.modify(self._socket.fileno(), select.EPOLLIN | (select.EPOLLOUT if left else 0))
