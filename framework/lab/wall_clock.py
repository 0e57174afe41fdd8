"""The run's clock in a lab: wall-clock time, and the event loop that waits for it."""

import time

from railweave.framework.processes.event_loop import Watch


class WallClock:
    """Stands at 0 until `start`. `start_s`: time.monotonic() of the start, None before."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.start_s: float | None = None

    def start(self) -> None:
        if self.start_s is None:
            self.start_s = time.monotonic()

    def now_s(self) -> float:
        return 0.0 if self.start_s is None else time.monotonic() - self.start_s

    def wait(self, until_s: float) -> None:
        """Make the calls of the event loop that come first, at `until_s` at the latest."""
        left = until_s - self.now_s()
        self._watch.wait(None if left == float("inf") else max(0.0, left))
