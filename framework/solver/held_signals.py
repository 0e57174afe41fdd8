"""Signals that come while numba compiles. What their handlers raise in the middle of LLVM is swallowed where
it calls back, leaves numba without a function that it takes for compiled, or ends the process."""

import signal
import threading
from collections.abc import Callable
from functools import cache
from types import FrameType
from typing import Any

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
Handler = Callable[[int, FrameType | None], Any]


@cache
def hold_signals() -> None:
    """From now on, signals that end a program wait for the next of numba's passes while it compiles. Raises
    ImportError without numba."""
    from numba.core import event

    event.Listener.register(HeldSignals)
    signals = HeldSignals()
    for kind in ("numba:compile", "numba:run_pass"):
        event.register(kind, signals)


class HeldSignals:
    """A listener to numba's events, of this process's main thread: the one that handles signals."""

    def __init__(self) -> None:
        self._depth, self._handlers = 0, dict[int, Handler]()
        self._came: list[tuple[int, FrameType | None]] = []

    def notify(self, event: Any) -> None:
        """An event starts or ends; functions that are compiled for others lie within theirs."""
        if threading.current_thread() is not threading.main_thread():
            return
        if event.kind == "numba:compile":
            if not self._depth:
                self._hold()
            self._depth += 1 if event.is_start else -1
            if not self._depth:
                for number, handler in self._handlers.items():
                    signal.signal(number, handler)
        while self._came and (event.is_start or not self._depth):
            number, frame = self._came.pop(0)
            self._handlers[number](number, frame)

    def _hold(self) -> None:
        self._handlers.clear()
        for number in ENDING:
            if callable(handler := signal.getsignal(number)):
                self._handlers[number] = handler
                signal.signal(number, lambda *what: self._came.append(what))
