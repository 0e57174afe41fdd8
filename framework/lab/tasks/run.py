"""One run, in the lab's first process."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.experiment.plan import from_document
from railweave.framework.lab.emulated_run import EmulatedRun, lab_session
from railweave.framework.model.events import RunEvent
from railweave.framework.model.findings import Findings
from railweave.framework.registry import load_plugins
from railweave.framework.runs.session import Session

LabSession = Session[EmulatedRun]


def lab_task(
    message: Mapping[str, Any],
    emit: Callable[[RunEvent], None],
    *,
    faults: Sequence[ResolvedFault] | None = None,
    probing: bool = True,
    directory: str | None = None,
    hosts_open: bool = False,
) -> LabSession:
    """The lab of the experiment `message["document"]`: up inside a `with` block, down after it.

    `faults`, `probing`, `directory` and `hosts_open` as `lab_session` takes them.
    """
    registers = load_plugins()
    plan = from_document(message["document"], registers)
    return lab_session(
        plan, registers, emit, faults=faults, probing=probing, directory=directory, hosts_open=hosts_open
    )


def task(message: Mapping[str, Any], emit: Callable[[RunEvent], None]) -> Findings:
    """Carry out the run of `message["document"]` and return its findings.

    `message["directory"]`: the run directory's absolute path, or None; `message["pcap"]`: a descriptor, or
    None.
    """
    experiment, directory = message["document"], message["directory"]
    session = lab_task(message, emit, directory=directory)
    session.recorder.observers.fire("on_run_start", experiment=experiment, directory=directory)
    with session:
        with session.engine.captured(message["pcap"]):
            session.iterate()
        session.recorder.phase("tear-down")
        return session.findings()
