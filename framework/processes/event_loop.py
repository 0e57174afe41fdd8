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

    def readable(self, source: Any, call: Callable[[], None]) -> None:
        self._selector.register(source, selectors.EVENT_READ, call)

    def forget(self, source: Any) -> None:
        """Call for this source no more."""
        self._selector.unregister(source)

    def ending(self, pid: int, call: Callable[[], None]) -> None:
        """Call once when process `pid` ends."""
        pidfd = os.pidfd_open(pid)

        def ended() -> None:
            self._selector.unregister(pidfd)
            os.close(pidfd)
            call()

        self.readable(pidfd, ended)

    def wait(self, timeout_s: float | None) -> None:
        """Wait for the first event, or until `timeout_s` is over, and call back."""
        for key, _ in self._selector.select(timeout_s):
            key.data()
