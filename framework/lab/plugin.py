"""Offers the engine `emulation`: Mininet on Open vSwitch, in private namespaces."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from railweave.framework import errors
from railweave.framework.errors import ChannelClosedError, LabError, RailweaveError
from railweave.framework.experiment.ramp import MARK_PARAMETERS, ramp_of
from railweave.framework.experiment.run_plan import Plan
from railweave.framework.hookspecs import Callers, Engine, Estimate, hookimpl
from railweave.framework.lab.sandbox import check_machine, unshare_command, why_it_ended
from railweave.framework.lab.switching.datapath import DATAPATHS
from railweave.framework.model.events import RunEvent, TaskEnded, TaskFailed
from railweave.framework.model.findings import Findings
from railweave.framework.parameters import Parameter, Value
from railweave.framework.processes.child import ChildProcess
from railweave.framework.processes.memory import pss_bytes
from railweave.framework.processes.programs import search_path

_HAS_DISTUTILS = Path(os.__file__).with_name("distutils").joinpath("version.py").is_file()
OWN_DISTUTILS = {"SETUPTOOLS_USE_DISTUTILS": "stdlib"} if _HAS_DISTUTILS else {}
"""Mininet imports distutils.version, in place of which setuptools imports its own and all of itself: 0.15 s.
Python has one up to 3.11, where the distribution leaves it in."""
STOP_S = 10.0
"""Seconds for a lab to end by itself before it is killed."""


class EmulationEngine(Engine):
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
        Parameter(
            "slower",
            1.0,
            "factor",
            "how many times lower a rate scale of auto is than this machine carries: times have less of it",
            minimum=1,
            maximum=1000,
        ),
        *MARK_PARAMETERS,
        Parameter(
            "marked_by",
            "auto",
            "text",
            "the kernel's RED, or levels by sampled queues; auto: RED where the kernel has it",
            choices=("auto", "red", "levels"),
        ),
    )
    lacks: Mapping[str, str] = {"trace": "it sees links only when it samples their health (health.npz)"}

    def configured(self, options: Mapping[str, Value]) -> Engine:
        ramp_of(options)
        return self

    def estimate(self, plan: Plan) -> Estimate:
        from railweave.framework.lab.foresight import foreseen  # mininet's side of the lab is not needed else

        return foreseen(plan)

    def run(
        self,
        plan: Plan,
        observers: Callers,
        emit: Callable[[RunEvent], None],
        directory: str | None = None,
        pcap: int | None = None,
    ) -> Findings:
        message = {"document": plan.document(), "directory": directory, "pcap": pcap}
        findings: Findings = in_lab("run", message, emit, files=() if pcap is None else (pcap,))
        memory = (findings.facts.memory_peak_bytes or 0) + pss_bytes()
        return replace(findings, facts=replace(findings.facts, memory_peak_bytes=memory))


@contextmanager
def lab_process(
    task: str, message: Mapping[str, Any], *, files: Sequence[int] = (), terminal: bool = False
) -> Iterator[ChildProcess]:
    """A lab of its own that carries out a task and reports on its channel; gone after the block.

    `task`: the name of one of the lab's, or a module with a `task(message, emit)` (lab/__main__.py).
    `files`: descriptors that the lab inherits under the same numbers. `terminal`: the lab owns the terminal.
    A closed channel in the block is raised as why the lab ended.
    """
    check_machine()
    lab = ChildProcess(
        "the lab",
        "railweave.framework.lab",
        [task],
        files=files,
        environment={"PATH": search_path(), **OWN_DISTUTILS},  # Mininet looks for its programs itself
        prefix=unshare_command(),
        terminal=terminal,  # without it, Ctrl-C reaches this process alone, which then ends the lab in order
    )
    try:
        lab.channel.send(dict(message))
        yield lab
    except ChannelClosedError:
        raise why_it_ended(lab.obituary(STOP_S)) from None
    finally:
        lab.stop(STOP_S)


def in_lab(
    task: str,
    message: Mapping[str, Any],
    on_event: Callable[[RunEvent], None],
    *,
    files: Sequence[int] = (),
    terminal: bool = False,
) -> Any:
    """Carry out a task in a lab of its own and return its result; `on_event` receives its events meanwhile.

    `task`, `files` and `terminal` as of `lab_process`. Raises what the task raised; the lab is gone by then.
    """
    with lab_process(task, message, files=files, terminal=terminal) as lab:
        while not isinstance(event := lab.channel.receive(), TaskEnded | TaskFailed):
            on_event(event)
    return outcome(event)


def outcome(event: TaskEnded | TaskFailed) -> Any:
    """The result of a task; raises what it raised."""
    if isinstance(event, TaskEnded):
        return event.result
    kind = getattr(errors, event.error, LabError)
    raise kind(event.message) if issubclass(kind, RailweaveError) else LabError(event.message)


@hookimpl
def register_engines(register: Callable[[str, Engine], None]) -> None:
    register("emulation", EmulationEngine())
