"""What pages that follow a run cost it: iteration time with 0, 1 and 5 streams of events."""

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from railweave.framework.experiment.plan import load_plan
from railweave.framework.model.events import IterationEnded, RunEvent
from railweave.framework.page.serving.live_page import LivePage, followed
from railweave.framework.registry import Registers

STREAMS = (0, 1, 5)
"""Of five one never reads."""


class Streams:
    """Clients that follow the page at `url`, from its latest message on."""

    def __init__(self, url: str, page: LivePage) -> None:
        self._parts, self._page, self._open = urlsplit(url), page, ExitStack()

    def number(self, count: int) -> None:
        """Close all, and open `count`; the fifth never reads."""
        self._open.close()
        for i in range(count):
            stream = socket.create_connection((self._parts.hostname, self._parts.port or 0))
            path, host = f"{self._parts.path}events?after={self._page.last}", self._parts.netloc
            stream.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            self._open.callback(_close, stream)
            if i != 4:
                threading.Thread(target=_read, args=[stream], daemon=True).start()


def _read(stream: socket.socket) -> None:
    with suppress(OSError):  # closed meanwhile
        while stream.recv(1 << 16):
            pass


def _close(stream: socket.socket) -> None:
    with suppress(OSError):  # the server has closed it
        stream.shutdown(socket.SHUT_RDWR)
    stream.close()


def live(
    registers: Registers,
    iterations: int,
    progress: Callable[[str], None],
    keys: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """The main job without a fault, served all the time; from iteration to iteration another number of
    streams follows it, in changing order. `iterations`: with each number; the first of all does not count.

    A row for each number of streams: median, least and longest time of an iteration, emulated, and the
    median over that without streams. `keys`: of the experiment, in place of the main job's.
    """
    order = [STREAMS[(i + turn) % len(STREAMS)] for turn in range(iterations) for i in range(len(STREAMS))]
    many = {"faults": [], **(keys or {}), "iterations": len(order) + 1}
    plan = load_plan(None, many, registers)
    seconds: dict[int, list[float]] = {count: [] for count in STREAMS}
    with TemporaryDirectory() as folder, followed(plan, Path(folder)) as (url, page):
        streams = Streams(url, page)

        def emit(event: RunEvent) -> None:
            page.emit(event)
            if not isinstance(event, IterationEnded):
                return
            if event.iteration:
                seconds[order[event.iteration - 1]].append(event.seconds)
            if event.iteration < len(order):
                streams.number(order[event.iteration])
            if event.iteration % len(STREAMS) == 0:
                progress(f"{event.iteration}/{len(order)} iterations")

        try:
            plan.engine.run(plan, registers, emit)
        finally:
            streams.number(0)
    alone = median(seconds[0])
    return {
        "rows": [
            {
                "streams": count,
                "iterations": len(times),
                "median_s": median(times),
                "least_s": min(times),
                "longest_s": max(times),
                "to_none": median(times) / alone,
            }
            for count, times in seconds.items()
        ]
    }
