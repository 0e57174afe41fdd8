"""SIGTERM and SIGHUP as an exception, so that a lab is taken down before the command ends."""

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType


class Terminated(BaseException):
    """A signal asked the command to end. Not an Exception: nothing but the top may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = signal.Signals(number)


def _raise(number: int, _: FrameType | None) -> None:
    raise Terminated(number)


@contextmanager
def raised_signals() -> Iterator[None]:
    """Within it, SIGTERM and SIGHUP raise Terminated in the main thread (Ctrl-C raises KeyboardInterrupt
    anyway)."""
    with ExitStack() as restored:
        if threading.current_thread() is threading.main_thread():
            for number in filter(None, (signal.SIGTERM, getattr(signal, "SIGHUP", None))):
                restored.callback(signal.signal, number, signal.signal(number, _raise))
        yield
