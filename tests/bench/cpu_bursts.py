"""A process that keeps a core busy for a while in every second."""

import select
import signal
import sys
import time

from railweave.framework.processes.channel import Channel
from railweave.framework.processes.child import ChildProcess
from railweave.framework.processes.namespaces import die_with_parent

BURST_S, PERIOD_S = 0.2, 1.0
"""Processor time of a burst; from one beginning to the next."""


def cpu_bursts() -> ChildProcess:
    """The process, which goes on until it is stopped."""
    return ChildProcess("the CPU bursts", __name__)


def burst(channel: Channel) -> None:
    """Compute until the channel closes."""
    due = time.monotonic()
    while not select.select([channel], (), (), max(0.0, due - time.monotonic()))[0]:
        due = max(due + PERIOD_S, time.monotonic())
        end = time.thread_time() + BURST_S
        while time.thread_time() < end:
            pass


if __name__ == "__main__":
    die_with_parent(signal.SIGKILL)
    burst(Channel.from_fd(int(sys.argv[1])))
