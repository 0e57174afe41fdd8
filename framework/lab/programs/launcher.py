"""The process that starts a program's ranks, reads what they print and mark, and ends them:
`python -m railweave.framework.lab.programs.launcher FD`, a child of the lab's first process.

It is told `Start` once; it answers with Printed, IterationMarked and, once, ProgramEnded. When the channel
closes it ends whatever still runs.
"""

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from railweave.framework.errors import ChannelClosedError
from railweave.framework.lab.programs.commands import Commands
from railweave.framework.lab.programs.mpi import AGENTS, ENDED, HOSTFILE, mpi_command, mpi_environment
from railweave.framework.lab.programs.output import Fifo, RankOutput, ShowBudget
from railweave.framework.lab.programs.rank_space import Ended, RankCommand, RunningProgram, User
from railweave.framework.model.events import IterationMarked, Printed, ProcessReady, ProgramEnded
from railweave.framework.model.traffic import RankOutcome
from railweave.framework.processes.channel import Channel
from railweave.framework.processes.namespaces import die_with_parent

GRACE_S = 2.0
"""Seconds from SIGTERM to SIGKILL, for a program to end by itself."""
LAST_LINES = 15
"""Lines of its output that the failure of a rank shows, the last."""


class Launcher:
    """One program on all its ranks. `hosts`: by rank, (network namespace, host name, IPv4 address); `output`:
    how the names of the files begin that keep what ranks print, None: none does; `folder`: for pipes and the
    like."""

    def __init__(self, channel: Channel, order: Mapping[str, Any]) -> None:
        self._channel, self._mpi = channel, order["launcher"] == "mpi"
        self._hosts = [tuple(host) for host in order["hosts"]]
        self._command, self._directory = list(order["command"]), order["directory"]
        self._folder = Path(order["folder"])
        self._user = User.invoking()
        self._selector = selectors.DefaultSelector()
        self._running: dict[RunningProgram, int | None] = {}
        self._agents: Commands | None = None
        self._outcomes: list[RankOutcome] = []
        self._mark_files: list[Fifo] = []
        self._marks, self._marked = [0] * len(self._hosts), 0
        self._cpu_s, self._failed, self._reported = 0.0, "", False
        self._environment = {
            **self._user.environment(order["environment"]),
            "WORLD_SIZE": str(len(self._hosts)),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": self._hosts[0][2],
            "MASTER_PORT": str(order["port"]),
            "RAILWEAVE_HOSTFILE": str(self._folder / HOSTFILE),
        }
        self._kept: str | None = order["output"]
        budget = ShowBudget()
        ranks: list[int | None] = [*range(len(self._hosts)), *([None] if self._mpi else [])]
        self._outputs = {rank: self._open_output(rank, budget) for rank in ranks}
        for rank in range(len(self._hosts)):
            marks = Fifo(self._folder / f"{rank}.marks")
            self._mark_files.append(marks)
            self._selector.register(marks, selectors.EVENT_READ, partial(self._hear_marks, rank))

    # -- start -------------------------------------------------------------------------------------------
    def start(self) -> None:
        nothing = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        if self._mpi:
            self._serve_agents()
            ended = Fifo(self._folder / ENDED)
            self._selector.register(ended, selectors.EVENT_READ, partial(self._hear_mpi_ranks, ended))
            command = mpi_command(self._command, len(self._hosts), self._folder)
            variables = mpi_environment(self._user, self._folder)
            self._start(None, 0, command, {**self._environment, **variables}, nothing)
        else:
            for rank in range(len(self._hosts)):
                variables = {
                    "RANK": str(rank),
                    "NODE_RANK": str(rank),
                    "RAILWEAVE_MARKS": str(self._folder / f"{rank}.marks"),
                }
                self._start(rank, rank, self._command, {**self._environment, **variables}, nothing)
        os.close(nothing)

    def _start(
        self, rank: int | None, place: int, command: list[str], environment: dict[str, str], nothing: int
    ) -> None:
        out = self._outputs[rank].fifo.opened()
        namespace, name, _ = self._hosts[place]
        program = RunningProgram(
            RankCommand(
                (namespace, name), command, environment, self._directory, (nothing, out, out), self._user
            )
        )
        os.close(out)
        self._running[program] = rank
        self._selector.register(program.pidfd, selectors.EVENT_READ, partial(self._hear_end, program))

    def _open_output(self, rank: int | None, budget: ShowBudget) -> RankOutput:
        name = "launcher" if rank is None else f"rank-{rank}"
        file = None if self._kept is None else Path(f"{self._kept}{name}.txt")
        output = RankOutput(Fifo(self._folder / f"{'launcher' if rank is None else rank}.out"), file, budget)
        self._selector.register(output.fifo, selectors.EVENT_READ, partial(self._hear_output, rank))
        return output

    # -- what is heard -----------------------------------------------------------------------------------
    def serve(self) -> None:
        """Until the channel closes."""
        self._selector.register(self._channel, selectors.EVENT_READ, self._channel.poll)
        try:
            while True:
                for key, _ in self._selector.select():
                    key.data()
        finally:
            self._end_all()

    def _hear_output(self, rank: int | None) -> None:
        if text := self._outputs[rank].take():
            self._channel.send(Printed(rank, text))

    def _hear_marks(self, rank: int) -> None:
        self._marks[rank] += self._mark_files[rank].read().count(b"\n")
        at_s = time.monotonic()
        while min(self._marks) > self._marked:
            self._marked += 1
            self._channel.send(IterationMarked(at_s))

    def _hear_end(self, program: RunningProgram) -> None:
        self._selector.unregister(program.pidfd)
        rank, ended = self._running.pop(program), program.ended()
        self._cpu_s += ended.cpu_s
        if rank is None:
            self._hear_last_of_mpi(ended)
            self._report()
        else:
            self._rank_ended(rank, ended.status, ended.error)
            if self._failed or not self._running:
                self._report()

    def _hear_mpi_ranks(self, fifo: Fifo) -> None:
        for line in fifo.read().decode().splitlines():
            rank, status = (int(word) for word in line.split())
            self._rank_ended(rank, status if status <= 128 else 128 - status, "")
        if self._failed:
            self._report()

    def _hear_last_of_mpi(self, ended: Ended) -> None:
        """What mpirun's ranks have written and was not read yet, and then its own end."""
        while ready := [key for key, _ in self._selector.select(0) if isinstance(key.fileobj, Fifo)]:
            for key in ready:
                key.data()
        if ended.status or ended.error:
            self._rank_ended(None, ended.status, ended.error)

    def _rank_ended(self, rank: int | None, status: int, error: str) -> None:
        output = self._outputs[rank]
        if text := output.finish():
            self._channel.send(Printed(rank, text))
        kept = None if self._kept is not None else output.tail
        self._outcomes.append(RankOutcome(rank, status, output.printed, kept))
        if (status or error) and not self._failed:
            self._failed = self._words(rank, status, error, output)

    def _words(self, rank: int | None, status: int, error: str, output: RankOutput) -> str:
        who = "mpirun" if rank is None else f"rank {rank} on {self._hosts[rank][1]}"
        if error:
            return f"{who}: {error}."
        how = f"ended with status {status}"
        if status < 0:
            with suppress(ValueError):
                how = f"was ended by {signal.Signals(-status).name}"
        lines = output.last_lines(LAST_LINES)
        return "\n".join(
            [f"{who} {how}; its last lines:", *lines] if lines else [f"{who} {how}, and printed nothing."]
        )

    def _report(self) -> None:
        if not self._reported:
            self._reported = True
            for rank in range(len(self._hosts)):
                self._hear_marks(rank)
            cpu_s = self._cpu_s + (self._agents.cpu_s if self._agents else 0.0)
            event = ProgramEnded(tuple(self._outcomes), self._failed, cpu_s, time.monotonic())
            self._channel.send(event)

    # -- what mpirun asks for ----------------------------------------------------------------------------
    def _serve_agents(self) -> None:
        agents = self._agents = Commands(
            self._selector,
            {name: namespace for namespace, name, _ in self._hosts},
            {**self._environment, **mpi_environment(self._user, self._folder)},
            self._directory,
            self._user,
        )
        path = self._folder / AGENTS
        server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        server.bind(str(path))
        path.chmod(0o666)
        server.listen(len(self._hosts))
        self._selector.register(server, selectors.EVENT_READ, lambda: agents.attend(server.accept()[0]))

    # -- the end -----------------------------------------------------------------------------------------
    def _end_all(self) -> None:
        """Ask every program to end, and then make it."""
        end = time.monotonic() + GRACE_S
        running = [*self._running, *(self._agents.running if self._agents else ())]
        for program in running:
            program.signal(signal.SIGTERM)
        with selectors.DefaultSelector() as waiting:
            for program in running:
                waiting.register(program.pidfd, selectors.EVENT_READ)
            while waiting.get_map() and (left := end - time.monotonic()) > 0:
                for output in self._outputs.values():  # who waits for room in its pipe cannot end
                    output.take()
                for key, _ in waiting.select(min(left, 0.05)):
                    waiting.unregister(key.fileobj)
        for program in running:
            program.signal(signal.SIGKILL)
            program.ended()
        for output in self._outputs.values():  # their last words
            output.finish()


def main() -> None:
    die_with_parent(signal.SIGKILL)
    channel = Channel.from_fd(int(sys.argv[1]))
    with suppress(ChannelClosedError):
        channel.send(ProcessReady())
        launcher = Launcher(channel, channel.receive())
        launcher.start()
        launcher.serve()


if __name__ == "__main__":
    main()
