"""A lab that stays up: it carries out one request after the other, and its health loop goes on meanwhile."""

import os
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from railweave.framework.errors import ChannelClosedError, FaultError, RailweaveError, TransportError
from railweave.framework.experiment.circuit_board import CircuitBoard
from railweave.framework.experiment.faults import parse, resolve, steps
from railweave.framework.experiment.plan import from_document
from railweave.framework.lab.programs.rank_space import resolve_host_names, write_host_names
from railweave.framework.lab.tasks.run import LabSession, lab_task
from railweave.framework.model.events import (
    Answered,
    ProcessDied,
    ProcessReady,
    RunEvent,
    TaskEnded,
    TaskFailed,
)
from railweave.framework.model.findings import Findings, HealthPoint
from railweave.framework.model.names import element_name
from railweave.framework.processes.channel import Channel
from railweave.framework.processes.child import ChildProcess
from railweave.framework.registry import load_plugins


class Interrupted(Exception):
    """The run under way is not wanted any more."""


class OpenLab:
    """Serves one client. Requests are mappings of `number`, `do` and arguments; each is answered once.

    All but runs are carried out at once, also while a run is under way; runs wait for each other.
    """

    def __init__(self, session: LabSession, control: Channel) -> None:
        self._session, self._control = session, control
        self._registers = load_plugins()
        self._runs: deque[Mapping[str, Any]] = deque()
        self._under_way: int | None = None
        fabric = session.plan.fabric
        self._board = None if fabric.circuits is None else CircuitBoard(fabric)
        self._open = True
        self._requests: Mapping[str, Callable[..., Any]] = {
            "fault": self._fault, "health": self._health, "routes": self._routes,
            "in_force": lambda: [fault.text for fault, _ in session.faults.in_force],
        }  # fmt: skip

    def serve(self) -> None:
        """Until the client closes its channel."""
        session = self._session
        session.engine.watch.readable(self._control, self._hear)
        session.start()
        self._answer(0, lambda: session.parts.rate_scale)
        while self._open:
            if self._runs:
                request = self._runs.popleft()
                self._answer(request["number"], partial(self._run, request))
                continue
            try:
                session.step()
                _ = session.engine.traffic.up  # raises what a transport ended of
            except TransportError as error:
                session.recorder.note(str(error))
                session.engine.restart_transport(session.control)
            except RailweaveError as error:  # the rest of the lab stays, to be examined
                session.recorder.note(str(error))
            session.recorder.forget()

    # -- requests --------------------------------------------------------------------------------------
    def _hear(self) -> None:
        try:
            requests = self._control.poll()
        except ChannelClosedError:
            self._open = False
            self._session.engine.watch.forget(self._control)
            requests = [{"do": "interrupt", "number": self._under_way}]
        interrupted = False
        for request in requests:
            match request["do"]:
                case "run":
                    self._runs.append(request)
                case "interrupt":
                    interrupted |= self._interrupt(request["number"])
                case do:
                    self._answer(request["number"], partial(self._requests[do], *request["arguments"]))
        if interrupted:
            raise Interrupted

    def _interrupt(self, number: int | None) -> bool:
        """Forget a run that waits; whether it is under way."""
        for request in [request for request in self._runs if request["number"] == number]:
            self._runs.remove(request)
            self._answer(request["number"], self._interrupted)
        return number is not None and number == self._under_way

    def _interrupted(self) -> None:
        raise TransportError("interrupted.")

    def _answer(self, number: int, call: Callable[[], Any]) -> None:
        outcome: TaskEnded | TaskFailed
        try:
            outcome = TaskEnded(call())
        except RailweaveError as error:
            outcome = TaskFailed(type(error).__name__, str(error))
        except Exception as error:
            if isinstance(error, Interrupted) and number != self._under_way:
                raise
            outcome = TaskFailed("LabError", traceback.format_exc())
        tell(self._control, Answered(number, outcome))

    # -- what is asked for -----------------------------------------------------------------------------
    def _fault(self, text: str) -> None:
        """Inject a fault now, or at its time from now on."""
        fault = parse(text if text.lstrip().startswith("at=") else f"at=0s {text}")
        if fault.at_iteration is not None:
            raise FaultError(
                f"{text!r}: no run is counting iterations here. Give the fault to the run, or a time: at=2s."
            )
        fabric = self._session.plan.fabric
        resolved = [resolve(step, fabric, board=self._board) for step in steps(fault)]
        for now in (step for step in resolved if not step.at_s):
            self._session.faults.inject(now)
        self._session.faults.add([step for step in resolved if step.at_s])

    def _health(self) -> HealthPoint:
        fabric, snapshot = self._session.plan.fabric, self._session.monitor.snapshot
        return HealthPoint(
            self._session.engine.clock.now_s(),
            snapshot.version,
            {element_name(fabric, node): float(snapshot.element_score[node])
             for node in np.unique(fabric.link_element[fabric.link_element >= 0]).tolist()},
            {fabric.link_name(link): float(score) for link, score in enumerate(snapshot.link_score)},
        )  # fmt: skip

    def _routes(self, src: int, dst: int) -> dict[str, Any]:
        """The paths in use from one GPU to another, and the scores in force."""
        paths = self._session.health.table.paths(np.array([src]), np.array([dst])).paths(0)
        return {"paths": paths, "health": self._session.monitor.snapshot}

    def _run(self, request: Mapping[str, Any]) -> Findings:
        """Carry out the plan of a document."""
        session, document = self._session, request["document"]
        engine, plan = session.engine, from_document(document, self._registers)
        self._under_way = request["number"]
        try:
            with session.carrying(plan):
                engine.take(plan)
                session.recorder.observers.fire(
                    "on_run_start", experiment=document, directory=request["directory"]
                )
                session.iterate()
                return replace(session.findings(), bring_up_s=0.0)
        except (Interrupted, RailweaveError) as error:
            engine.restart_transport(session.control)
            if isinstance(error, Interrupted):
                self._interrupted()
            raise
        finally:
            self._under_way = None


def tell(control: Channel, event: RunEvent | Answered) -> None:
    """Send the client an event; a client that is gone misses it, and `serve` notices."""
    with suppress(ChannelClosedError):
        control.send(event)


@contextmanager
def opened(message: Mapping[str, Any], emit: Callable[[RunEvent], None], door: int) -> Iterator[LabSession]:
    """The lab of `message["document"]` with its hosts open to programs, in which the commands that are asked
    for through the descriptor `door` are run."""
    executor = ChildProcess(
        "the executor", "railweave.framework.lab.programs.executor", [str(door)], files=(door,)
    )
    os.close(door)
    try:
        with lab_task(message, emit, hosts_open=True) as session:
            fabric, endpoints, ready = session.plan.fabric, session.engine.lab.endpoints(), False

            def hear() -> None:
                nonlocal ready
                for event in executor.events():
                    ready |= isinstance(event, ProcessReady)
                    if isinstance(event, ProcessDied):
                        session.engine.watch.forget(executor.channel)
                        session.recorder.note(event.why)

            session.engine.watch.readable(executor.channel, hear)
            names = write_host_names(fabric, endpoints)
            resolve_host_names()
            executor.send(
                {"hosts": {name: end.namespace for name, end in zip(names, endpoints, strict=True)}}
            )
            session.engine.until(lambda: ready, "the executor to start")
            yield session
    finally:
        executor.stop()


def task(message: Mapping[str, Any], _emit: Callable[[RunEvent], None]) -> None:
    """Hold the lab of `message["document"]` open for the client at the other end of the channel on descriptor
    `message["control"]`, which receives all events."""
    control = Channel.from_fd(message["control"])
    with opened(message, partial(tell, control), message["door"]) as session:
        OpenLab(session, control).serve()
