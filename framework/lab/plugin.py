"""Offers the engine `emulation`: Mininet on Open vSwitch, in private namespaces."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from railweave.framework import errors
from railweave.framework.errors import LabError, RailweaveError
from railweave.framework.hookspecs import Configurable, Engine, hookimpl
from railweave.framework.lab.memory import pss_bytes
from railweave.framework.lab.sandbox import Sandbox
from railweave.framework.lab.switching.datapath import DATAPATHS
from railweave.framework.model.events import RunEvent, TaskEnded, TaskFailed
from railweave.framework.model.findings import Findings
from railweave.framework.parameters import Parameter


class EmulationEngine(Configurable):
    """Starts a lab for a run, passes on its events and takes it down."""

    summary = "Mininet on Open vSwitch in private namespaces; real packets"
    parameters: tuple[Parameter, ...] = (
        Parameter(
            "datapath",
            "auto",
            "text",
            "what switches: Open vSwitch in the kernel or as a process",
            choices=DATAPATHS,
        ),
    )

    def run(
        self,
        document: Mapping[str, object],
        emit: Callable[[RunEvent], None],
        directory: str | None = None,
        pcap: int | None = None,
    ) -> Findings:
        files = () if pcap is None else (pcap,)
        message = {"document": dict(document), "directory": directory, "pcap": pcap}
        findings: Findings = in_lab("run", message, emit, files=files)
        memory = (findings.facts.memory_peak_bytes or 0) + pss_bytes()
        return replace(findings, facts=replace(findings.facts, memory_peak_bytes=memory))


def in_lab(
    task: str,
    message: Mapping[str, Any],
    on_event: Callable[[RunEvent], None],
    *,
    files: Sequence[int] = (),
    terminal: bool = False,
) -> Any:
    """Carry out a task in a lab of its own and return its result; `on_event` receives its events meanwhile.

    `files`: descriptors that the lab inherits under the same numbers. `terminal`: the lab owns the terminal.
    Raises what the task raised; the lab is gone by then.
    """
    with Sandbox(task, message, files=files, terminal=terminal) as lab:
        for event in lab.messages():
            match event:
                case TaskEnded():
                    return event.result
                case TaskFailed():
                    raise as_error(event)
                case _:
                    on_event(event)
    raise LabError("the lab ended without a result.")


def as_error(event: TaskFailed) -> RailweaveError:
    """The error that the lab's first process ended with, of its own class."""
    kind = getattr(errors, event.error, LabError)
    return kind(event.message) if issubclass(kind, RailweaveError) else LabError(event.message)


@hookimpl
def register_engines(register: Callable[[str, Engine], None]) -> None:
    register("emulation", EmulationEngine())
