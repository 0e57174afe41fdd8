"""The lab's event loop: one selector over channels, dying processes and time."""

import os
import selectors
from collections.abc import Callable
from typing import Any


class Watch:
    """Calls back when a descriptor is readable or a process ends. The lab waits nowhere else than in
    `wait`."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._pidfds: dict[int, int] = {}

    def readable(self, source: Any, call: Callable[[], None]) -> None:
        self._selector.register(source, selectors.EVENT_READ, call)

    def forget(self, source: Any) -> None:
        self._selector.unregister(source)

    def ending(self, pid: int, call: Callable[[], None]) -> None:
        """Call once when process `pid` ends."""
        pidfd = os.pidfd_open(pid)
        self._pidfds[pid] = pidfd

        def ended() -> None:
            self.forget_process(pid)
            call()

        self._selector.register(pidfd, selectors.EVENT_READ, ended)

    def forget_process(self, pid: int) -> None:
        pidfd = self._pidfds.pop(pid, None)
        if pidfd is not None:
            self._selector.unregister(pidfd)
            os.close(pidfd)

    def wait(self, timeout_s: float | None) -> None:
        """Wait for the first event, or until `timeout_s` is over, and call back."""
        for key, _ in self._selector.select(timeout_s):
            key.data()
