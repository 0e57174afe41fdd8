"""Opens a lab for a block of a script."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from railweave.framework.errors import ChannelClosedError, InputError, RailweaveError
from railweave.framework.experiment.plan import Plan
from railweave.framework.lab.handle.client import LabClient
from railweave.framework.lab.plugin import STOP_S, lab_process, outcome
from railweave.framework.lab.sandbox import why_it_ended
from railweave.framework.model.events import RunEvent
from railweave.framework.processes.channel import Channel
from railweave.framework.processes.child import ChildProcess
from railweave.framework.registry import Registers


@contextmanager
def open_lab(plan: Plan, registers: Registers, on_event: Callable[[RunEvent], None]) -> Iterator[LabClient]:
    """The lab of a plan, up during the block; raises what the lab ended with if it ends in the block."""
    check_openable(plan)
    control, their_control = socket.socketpair()
    door, their_door = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    files = (their_control.fileno(), their_door.fileno())
    message = {"document": plan.document(), "control": files[0], "door": files[1]}
    with their_control, their_door, lab_process("open", message, files=files) as lab:
        their_control.close()
        their_door.close()
        client = LabClient(plan, registers, Channel(control), door, on_event, lambda: _why(lab))
        try:
            assert client.rate_scale
            yield client
            client.check()
        finally:
            client.close()
        lab.channel.receive()  # it has taken everything down


def check_openable(plan: Plan) -> None:
    """Raises InputError for a plan that needs the iterations of a run, or an engine without labs."""
    plan.check_lab()
    if plan.experiment.program:
        raise InputError(
            "program: a lab that stays up starts programs one by one. Leave it out, and run it by exec."
        )
    if plan.named_jobs or len(plan.ranks) < plan.fabric.n_gpus:
        key = "jobs" if plan.named_jobs else "ranks"
        raise InputError(f"{key}: choose the GPUs of one run. Leave it out, or use `railweave run`.")
    if plan.pcap_links:
        raise InputError("pcap: captures the packets of one run. Leave it out, or use `railweave run`.")
    for fault in plan.faults:
        if fault.at_iteration is not None:
            raise InputError(
                f"{fault.text!r}: counts the iterations of a run. Give it to the run, or give a time: at=2s."
            )


def _why(lab: ChildProcess) -> RailweaveError:
    """Why a lab ended, which does not serve its client any more."""
    try:
        outcome(lab.channel.receive())
    except ChannelClosedError:
        return why_it_ended(lab.obituary(STOP_S))
    except RailweaveError as error:
        return error
    return InputError("the lab is closed.")
