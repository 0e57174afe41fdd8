"""The lab's first process: `python -m railweave.framework.lab FD TASK`, started by the sandbox."""

import os
import select
import signal
import sys
import threading
import traceback
from importlib import import_module

from railweave.framework.errors import RailweaveError
from railweave.framework.model.events import TaskEnded, TaskFailed
from railweave.framework.processes.channel import Channel
from railweave.framework.processes.namespaces import die_with_parent, mount

TASKS = {
    "run": "railweave.framework.lab.tasks.run",
    "open": "railweave.framework.lab.tasks.open_lab",
    "bring-up": "railweave.framework.lab.tasks.lab_cycle",
    "verify": "railweave.framework.lab.tasks.verify",
    "watch": "railweave.framework.lab.tasks.watch",
    "benchmark": "railweave.framework.lab.tasks.benchmark",
    "doctor": "railweave.framework.lab.tasks.doctor",
}
"""The lab's own modules with a `task(message, emit)`, which carries out what `message` asks for, emits events
and returns a result. Callers above the lab name theirs by `__name__`."""


def main() -> int:
    die_with_parent(signal.SIGKILL)
    channel, task_name = Channel.from_fd(int(sys.argv[1])), sys.argv[2]
    message = channel.receive()
    mount("tmpfs", "/run", "tmpfs", data="mode=755")
    os.environ.pop("SETUPTOOLS_USE_DISTUTILS", None)  # of this process (plugin.py), not of those it starts
    threading.Thread(target=_end_with, args=[channel], daemon=True).start()
    task = import_module(TASKS.get(task_name, task_name)).task
    try:
        channel.send(TaskEnded(task(message, channel.send)))
        return 0
    except RailweaveError as error:
        channel.send(TaskFailed(type(error).__name__, str(error)))
        return error.exit_code
    except KeyboardInterrupt:  # Ctrl-C at a terminal that the lab owns
        channel.send(TaskFailed("LabError", "interrupted."))
    except Exception:  # noqa: BLE001 - whatever it was is reported, and then the lab ends
        channel.send(TaskFailed("LabError", traceback.format_exc()))
    return 1


def _end_with(channel: Channel) -> None:
    """End at once when the command at the other end is gone, whatever this process is doing.

    Nothing is ever sent to the lab after its first message, so a readable channel is a closed one.
    """
    select.select([channel], [], [])
    os._exit(1)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # as pid 1: the kernel ends everything else
