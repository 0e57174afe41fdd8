"""A child process for tests: `python -m tests.framework.processes.worker FD WHAT`."""

from __future__ import annotations

import os
import signal
import sys
import time

from railweave.framework.errors import ChannelClosedError
from railweave.framework.processes.channel import Channel
from railweave.framework.processes.namespaces import die_with_parent


def main() -> None:
    die_with_parent(signal.SIGKILL)
    channel = Channel.from_fd(int(sys.argv[1]))
    what = sys.argv[2]
    print(f"asked to {what}", flush=True)
    if what == "fail":
        raise SystemExit("no such switch")
    if what == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        channel.send("ready")
        while True:
            time.sleep(60)
    if what == "start-another":
        from railweave.framework.processes.child import ChildProcess

        child = ChildProcess("another", "tests.framework.processes.worker", ["hang"])
        child.channel.receive()
        channel.send(child.pid)
    channel.send(os.environ.get("COLOUR"))
    try:
        while True:
            channel.send(channel.receive())
    except ChannelClosedError:
        return


main()
