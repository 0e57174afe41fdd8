"""What a user asks of a lab that is up, and the answers."""

import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from railweave.framework.analysis.explain import ExplainedPair, explain_pair, explained_path
from railweave.framework.errors import (
    ChannelClosedError,
    InputError,
    RailweaveError,
    did_you_mean,
)
from railweave.framework.experiment.faults import parse, resolve
from railweave.framework.experiment.plan import Plan, plan_from_keys
from railweave.framework.experiment.rank_programs import why_not_run, words_of
from railweave.framework.hookspecs import Callers, Engine
from railweave.framework.lab.handle.execution import HostCommand
from railweave.framework.lab.interface_names import host_name, program_host_name
from railweave.framework.lab.plugin import outcome
from railweave.framework.model.addressing import ipv4, ipv4_text
from railweave.framework.model.coordinates import Counting
from railweave.framework.model.events import Answered, RunEvent
from railweave.framework.model.findings import Findings, HealthPoint
from railweave.framework.parameters import Parameter
from railweave.framework.processes.channel import Channel
from railweave.framework.processes.programs import search_path
from railweave.framework.registry import Registers
from railweave.framework.results.directory import RunDirectory
from railweave.framework.results.result import RunResult
from railweave.framework.runs import runner

OF_RUNS = {
    "collective", "workload", "size", "dtype", "redop", "iterations", "faults", "timeout", "seed",
}  # fmt: skip
"""Keys of an experiment that each run in an open lab chooses; the others are those of the lab."""


class LabClient:
    """An open lab. Methods may be called from several threads at once; runs wait for each other.

    `control`, `door`: our ends of the channel for requests, and of the socket for commands. `on_event`
    receives every event of the lab in a thread of its own. `why()`: the error that says why the lab ended.
    """

    def __init__(
        self,
        plan: Plan,
        registers: Registers,
        control: Channel,
        door: socket.socket,
        on_event: Callable[[RunEvent], None],
        why: Callable[[], RailweaveError],
    ) -> None:
        self.plan, self.registers = plan, registers
        self._control, self._door, self._on_event, self._why = control, door, on_event, why
        self._on_run: Callable[[RunEvent], None] = lambda event: None
        self._lock, self._runs, self._number = threading.Lock(), threading.Lock(), 0
        self._waiting: dict[int, Future[Any]] = {0: Future()}
        self._ended: BaseException | None = None
        self._ready = self._waiting[0]
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    # -- what a user asks for --------------------------------------------------------------------------
    @property
    def rate_scale(self) -> float:
        """Emulated rate over declared rate; waits until the lab is up."""
        scale: float = self._ready.result()
        return scale

    def exec(
        self,
        host: str,
        command: str | Sequence[str],
        *,
        input: str = "",
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> CompletedProcess[str]:
        """Run a command on a host (`h0.0`) as the calling user, and wait for its end: `returncode`, `stdout`
        and `stderr`, 64 MiB at most of each.

        `env` is added to this process's environment, `cwd` is its directory by default; `timeout` in
        seconds. Nothing of the command is left afterwards, daemons included. Raises InputError for a host or
        program that does not exist, ProgramError for a command that takes too long.
        """
        with self.start(host, command, input=input, env=env, cwd=cwd) as started:
            return started.wait(timeout)

    def start(
        self,
        host: str,
        command: str | Sequence[str],
        *,
        input: str = "",
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> HostCommand:
        """Start a command, such as a server, and do not wait: `with lab.start("h1.0", "iperf3 -s"): ...` ends
        it with its block, and `wait()` waits for it. Arguments and errors as of `exec`."""
        words = words_of(command if isinstance(command, str) else [os.fspath(word) for word in command])
        directory = Path.cwd() if cwd is None else Path(cwd).absolute()
        environment = {**os.environ, "PATH": search_path(), **(env or {})}
        gpu = self.gpu(host)
        if not directory.is_dir():
            raise InputError(f"cwd: {directory} is not a directory. Give one that exists.")
        if why := why_not_run(words[0], directory, environment["PATH"]):
            raise InputError(why)
        name = program_host_name(self.plan.fabric, gpu)
        return HostCommand(
            self._door, name, words, directory=str(directory), environment=environment, stdin=input
        )

    def address(self, host: str) -> str:
        """The IPv4 address of a host."""
        return ipv4_text(ipv4(self.plan.fabric, self.gpu(host)))

    def fault(self, text: str) -> None:
        """Inject a fault now: `degrade rail:1 to=20%`; with `at=2s` in front, that long from now."""
        self._ask("fault", text)

    def health(self) -> HealthPoint:
        """The scores in force: of every rail and domain, and of every link."""
        point: HealthPoint = self._ask("health")
        return point

    def routes(self, src: str, dst: str) -> ExplainedPair:
        """The paths in use from GPU `src` to GPU `dst`, hop by hop, and what the router says of the pair."""
        fabric, counting = self.plan.fabric, Counting()
        pair = counting.gpu(fabric, src, "SRC"), counting.gpu(fabric, dst, "DST")
        use: dict[str, Any] = self._ask("routes", *pair) if pair[0] != pair[1] else {"paths": ()}
        name, router = self.plan.experiment.router.name, self.plan.router
        if not use["paths"]:
            return ExplainedPair(fabric.node_name(pair[0]), fabric.node_name(pair[1]), (), None, {})
        explained = explain_pair(name, router, fabric, use["health"], pair, counting)
        paths = tuple(explained_path(fabric, use["health"], path, counting) for path in use["paths"])
        return replace(explained, paths=paths)

    def run(
        self,
        *,
        out: str | os.PathLike[str] | None = None,
        on_event: Callable[[RunEvent], None] = lambda event: None,
        **keys: object,
    ) -> RunResult:
        """Run a collective or workload, as `rw.run` does, in this lab: its result.

        `keys`: `collective` or `workload` and their parameters, `size`, `dtype`, `redop`, `iterations`,
        `faults`, `timeout`, `seed`; the others are those of the lab. Faults in force count as injected when
        the run begins. Times are those of the lab, which began when it was up.
        """
        plan = self.run_plan(keys)
        directory = None if out is None else RunDirectory.create(Path(out), "")
        with self._runs:
            in_force = [resolve(parse(text), plan.fabric) for text in self._ask("in_force")]
            engine = _OpenEngine(self, plan.engine.parameters)
            plan = replace(plan, engine=engine, faults=(*in_force, *plan.faults))
            return runner.run(plan, self.registers, directory, on_event)

    def run_plan(self, keys: Mapping[str, object]) -> Plan:
        """The checked plan of a run in this lab."""
        lab: dict[str, object] = self.plan.document()
        chosen = next((kind for kind in ("workload", "collective") if kind in keys), None)
        base = {key: value for key, value in lab.items() if key != "faults"}
        if chosen is not None:
            base = {key: value for key, value in base.items() if key not in ("workload", "collective")}
        if "program" in keys:
            raise InputError("program: a run in an open lab is one of a collective. Start programs by exec.")
        plan = plan_from_keys(keys, self.registers, base=base)
        mine = plan.document()
        for key in sorted({*lab, *mine} - OF_RUNS):
            if lab.get(key) != mine.get(key):
                raise InputError(
                    f"{key}: belongs to the lab, which is up. Open another lab with it; a run takes "
                    f"{', '.join(sorted(OF_RUNS))}, and the parameters of what it carries out."
                )
        return plan

    # -- requests and answers --------------------------------------------------------------------------
    def findings(
        self, document: Mapping[str, object], directory: str | None, emit: Callable[[RunEvent], None]
    ) -> Findings:
        """What the run of a document found; `emit` receives its events. Interrupting it keeps the lab."""
        self._on_run = emit
        number, answer = self._request("run", document=dict(document), directory=directory)
        try:
            findings: Findings = answer.result()
        except BaseException as error:
            if not isinstance(error, Exception):
                self._send({"do": "interrupt", "number": number})
                with suppress(RailweaveError):
                    answer.result()
            raise
        finally:
            self._on_run = lambda event: None
        return findings

    def check(self) -> None:
        """Raise what the lab has ended with, or a mistake in `on_event`."""
        with self._lock:
            if self._ended is not None:
                raise self._ended

    def close(self) -> None:
        """Let the lab end. Nothing is read from its channels any more when this returns."""
        with self._lock:
            self._ended = self._ended or InputError("the lab is closed: its `with` block has ended.")
        with suppress(OSError):
            self._control.shutdown()
        self._listener.join()
        self._control.close()
        self._door.close()

    def gpu(self, host: str) -> int:
        """The GPU of a host."""
        fabric = self.plan.fabric
        hosts = {host_name(fabric, gpu): gpu for gpu in range(fabric.n_gpus)}
        if (name := host.replace("-", ".")) not in hosts:
            like = did_you_mean(host, hosts) or f" Hosts are called {next(iter(hosts))}, ..."
            raise InputError(f"there is no host {host!r}.{like}")
        return hosts[name]

    def _ask(self, do: str, *arguments: object) -> Any:
        return self._request(do, arguments=list(arguments))[1].result()

    def _request(self, do: str, **fields: object) -> tuple[int, Future[Any]]:
        answer: Future[Any] = Future()
        with self._lock:
            if self._ended is not None:
                raise self._ended
            self._number += 1
            number = self._number
            self._waiting[number] = answer
        self._send({"number": number, "do": do, **fields})
        return number, answer

    def _send(self, message: Mapping[str, object]) -> None:
        with self._lock, suppress(ChannelClosedError):  # which the listener notices
            self._control.send(message)

    def _listen(self) -> None:
        try:
            while True:
                event = self._control.receive()
                if isinstance(event, Answered):
                    self._settle(event)
                else:
                    self._on_run(event)
                    self._on_event(event)
        except ChannelClosedError:
            ended: BaseException = self._ended or self._why()
        except BaseException as error:  # noqa: BLE001 - a mistake in on_event is raised where the user waits
            ended = error
        with self._lock:
            self._ended = ended
            waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer.set_exception(ended)

    def _settle(self, event: Answered) -> None:
        with self._lock:
            answer = self._waiting.pop(event.number)
        try:
            answer.set_result(outcome(event.outcome))
        except RailweaveError as error:
            answer.set_exception(error)


class _OpenEngine(Engine):
    """Carries out a run in a lab that is up (hookspecs.Engine)."""

    summary = "an open lab"

    def __init__(self, lab: LabClient, parameters: tuple[Parameter, ...]) -> None:
        self._lab, self.parameters = lab, parameters

    def run(
        self,
        plan: Plan,
        observers: Callers,
        emit: Callable[[RunEvent], None],
        directory: str | None = None,
        pcap: int | None = None,
    ) -> Findings:
        return self._lab.findings(plan.document(), directory, emit)
