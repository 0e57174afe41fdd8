"""Commands that are run on hosts on request: of mpirun's agents, and of `lab.exec`.

Each request has a socket of its own. It carries JSON (`host`, `command`; `directory` and `environment` where
they are not the usual ones) with three descriptors: the command's standard streams. The answer is JSON
(`status`, `error`) once the command has ended and nothing of it is left. Until then a message is the number
of a signal to send, and the end of the socket ends the command.
"""

import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from railweave.framework.lab.programs.rank_space import RankCommand, RunningProgram, User

MOST_REQUEST = 1 << 20
"""Bytes of a request at most: a command and its environment."""


class Commands:
    """Those of one lab. `hosts`: by the host's name, the path of its network namespace. `cpu_s`: processor
    seconds of those that have ended."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        hosts: Mapping[str, str],
        environment: Mapping[str, str],
        directory: str,
        user: User,
    ) -> None:
        self._selector, self._hosts, self._user = selector, hosts, user
        self._environment, self._directory = environment, directory
        self._running: dict[socket.socket, RunningProgram] = {}
        self.cpu_s = 0.0

    @property
    def running(self) -> list[RunningProgram]:
        return list(self._running.values())

    def attend(self, sock: socket.socket) -> None:
        """Carry out what is asked for on this socket."""
        self._selector.register(sock, selectors.EVENT_READ, partial(self._hear, sock))

    def _hear(self, sock: socket.socket) -> None:
        if (program := self._running.get(sock)) is None:
            self._start(sock)
            return
        try:
            number = sock.recv(16)
        except OSError:
            number = b""
        if number:
            program.signal(signal.Signals(int(number)))
        else:
            self._forget(sock)
            program.signal(signal.SIGKILL)

    def _start(self, sock: socket.socket) -> None:
        fds: list[int] = []
        try:
            data, fds, _, _ = socket.recv_fds(sock, MOST_REQUEST, 3)
            request = json.loads(data)
            theirs = request.get("environment")
            stdin, stdout, stderr = fds
            command = RankCommand(
                (self._hosts[request["host"]], request["host"]),
                request["command"],
                self._environment if theirs is None else self._user.environment(theirs),
                request.get("directory", self._directory),
                (stdin, stdout, stderr),
                self._user,
            )
            program = RunningProgram(command)
        except (ValueError, KeyError, TypeError, OSError) as error:
            print(f"a request was refused: {error}", file=sys.stderr)  # noqa: T201 - the log
            self._forget(sock)
            sock.close()
            return
        finally:
            for fd in fds:
                os.close(fd)
        self._running[sock] = program
        self._selector.register(program.pidfd, selectors.EVENT_READ, partial(self._answer, sock))

    def _answer(self, sock: socket.socket) -> None:
        program = self._running.pop(sock)
        self._selector.unregister(program.pidfd)
        self._forget(sock)
        ended = program.ended()
        self.cpu_s += ended.cpu_s
        with sock, suppress(OSError):
            sock.send(json.dumps({"status": ended.status, "error": ended.error}).encode())

    def _forget(self, sock: socket.socket) -> None:
        with suppress(KeyError, ValueError):  # the caller is gone
            self._selector.unregister(sock)
