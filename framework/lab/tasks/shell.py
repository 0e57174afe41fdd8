"""`railweave shell`: an open lab, and Mininet's prompt in a process of its own beside it."""

import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from railweave.framework.errors import LabError
from railweave.framework.experiment.plan import Plan
from railweave.framework.lab.handle.client import LabClient
from railweave.framework.lab.handle.opening import check_openable
from railweave.framework.lab.plugin import in_lab
from railweave.framework.lab.programs.rank_space import User, keep_only
from railweave.framework.lab.tasks.open_lab import OpenLab, opened, tell
from railweave.framework.lab.tasks.run import LabSession
from railweave.framework.model.events import Note, PhaseStarted, RunEvent
from railweave.framework.processes.channel import Channel
from railweave.framework.processes.namespaces import die_with_parent
from railweave.framework.registry import load_plugins
from railweave.framework.results.result import RunResult

INTERRUPTED = 130
"""Exit status of a shell that Ctrl-C has ended."""
WELCOME = "hosts h<gpu>, switches as in `railweave topo show`; try: h0.0 ping -c2 h1.0, help, exit"


def shell(plan: Plan, task: str) -> int:
    """Open the prompt for this plan's fabric, and return its exit status once it was left and the lab is
    gone. `task`: the module whose task calls `hold_prompt`."""
    check_openable(plan)
    # Ctrl-C belongs to the prompt. The lab would inherit SIG_IGN; it does not inherit a handler.
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        status: int = in_lab(task, {"document": plan.document()}, lambda _: None, terminal=True)
        return status
    finally:
        signal.signal(signal.SIGINT, before)


def hold_prompt(
    message: Mapping[str, Any],
    line: Callable[[RunEvent], str | None],
    report: Callable[[RunResult], str | None],
) -> int:
    """Bring up the lab of `message["document"]` and serve its prompt until it is left; its exit status.
    `line`, `report`: what is shown of events and results."""
    ours, theirs = map(Channel, socket.socketpair())
    door, executors_door = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    is_up = False

    def emit(event: RunEvent) -> None:
        if is_up:
            tell(ours, event)
        elif isinstance(event, PhaseStarted | Note) and event.text:
            print(f"* {event.text}", flush=True)  # noqa: T201 - this process owns the terminal

    _login()
    with opened(message, emit, executors_door.detach()) as session:
        is_up = True
        pid = os.fork()
        if pid == 0:
            _become_prompt(session, theirs, door, line, report)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        theirs.close()
        door.close()
        OpenLab(session, ours).serve()
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _login() -> None:
    """HOME, SHELL and the like for the shells of hosts, which are root of the lab."""
    user = User.invoking()
    for name, value in (user if user.mapped else User(0, 0, False)).login.items():
        os.environ.setdefault(name, value)


def _become_prompt(
    session: LabSession,
    control: Channel,
    door: socket.socket,
    line: Callable[[RunEvent], str | None],
    report: Callable[[RunResult], str | None],
) -> NoReturn:
    """The prompt's process: Mininet's objects as they are, and nothing else of the lab."""
    status = 1
    try:
        from railweave.framework.lab.tasks.prompt import Prompt

        lab, net = session.engine.lab, session.engine.lab.net
        namespaces = {space.fd for space in (*lab.hosts.values(), *(shard.namespace for shard in lab.shards))}
        # an end of a channel that stayed open here would hide that the lab has closed it
        keep_only({0, 1, 2, control.fileno(), door.fileno(), *namespaces})
        die_with_parent(signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        prompt = Prompt(net, line, report)
        client = LabClient(
            session.plan, load_plugins(), control, door, prompt.heard, lambda: LabError("the lab has ended.")
        )
        assert client.rate_scale
        print(f"* {WELCOME}", flush=True)  # noqa: T201
        prompt.open(client)
        status = int(prompt.failed and not prompt.isatty())
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BaseException:  # noqa: BLE001 - a forked process must not return into the lab
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
