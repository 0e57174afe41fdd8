"""The sampler's process, on counters that run with the clock."""

from __future__ import annotations

import os
import signal
import socket
import time

import numpy as np

from railweave.framework.lab.measuring.queue_counters import QueueCounters
from railweave.framework.lab.measuring.sampler import Sampler

RATE_BPS, PACKET = 8e6, 1000


class Backlogged:
    """The queues of one link that always has work. Shape: queue_counters.ShardQueues."""

    def __init__(self) -> None:
        self._socket, self._began = socket.socket(), time.monotonic()

    def fileno(self) -> int:
        return self._socket.fileno()

    def dump(self) -> tuple[float, int]:
        now = time.monotonic()
        return now, int((now - self._began) * RATE_BPS / 8 / PACKET)

    def read(self, dumps: list[tuple[float, int]], into: QueueCounters) -> None:
        for row, (now, packets) in enumerate(dumps):
            values = (now, packets * PACKET, packets, 0, 100 * PACKET, 100)
            for counter, value in zip(into, values, strict=True):
                counter[row, 0] = value


def test_what_waited_never_falls_although_the_process_ends() -> None:
    queues = Backlogged()
    sampler = Sampler([queues], np.array([RATE_BPS]), PACKET)  # type: ignore[list-item]
    pid = sampler.start()
    time.sleep(0.3)
    before = sampler.read()
    assert before.waited_bytes[0] >= 10 * PACKET  # and no more than were sent
    os.kill(pid, signal.SIGKILL)
    sampler.ended()
    after = [sampler.read().waited_bytes[0] for _ in range(3)]
    assert [before.waited_bytes[0], *after] == sorted([before.waited_bytes[0], *after])
    queues._socket.close()
