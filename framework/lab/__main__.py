"""The lab's first process: `python -m railweave.framework.lab TASK FD PARENT`, started by the sandbox."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from railweave.framework.channel import Channel
from railweave.framework.errors import RailweaveError
from railweave.framework.lab.namespaces import die_with_parent, mount

TASKS = {
    "run": "railweave.framework.lab.conductor",
    "shell": "railweave.framework.lab.shell",
    "bring-up": "railweave.framework.lab.bench",
    "verify": "railweave.framework.lab.verify",
    "watch": "railweave.framework.lab.idle",
    "throughput": "railweave.framework.lab.throughput",
    "doctor": "railweave.framework.lab.doctor",
}
"""Modules with a `task(message, channel)`."""


def main() -> int:
    die_with_parent(signal.SIGKILL)
    task_name, fd = sys.argv[1], int(sys.argv[2])
    channel = Channel.from_fd(fd)
    message = channel.receive()
    mount("tmpfs", "/run", "tmpfs", data="mode=755")
    if task_name != "shell":
        _end_with(channel)
    task: Callable[[Mapping[str, Any], Channel], None] = import_module(TASKS[task_name]).task
    try:
        task(message, channel)
    except RailweaveError as error:
        channel.send({"kind": "error", "type": type(error).__name__, "message": str(error)})
        return error.exit_code
    except Exception:  # noqa: BLE001 - whatever it was, the outside is told, and then the lab ends
        channel.send({"kind": "error", "type": "LabError", "message": traceback.format_exc()})
        return 1
    return 0


def _end_with(channel: Channel) -> None:
    """End at once when the command at the other end is gone, whatever this process is doing.

    Nothing is ever sent to the lab after its first message, so a readable channel is a closed one.
    """

    def watch() -> None:
        select.select([channel], [], [])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # as pid 1: the kernel ends everything else
