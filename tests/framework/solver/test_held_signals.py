"""Signals while numba compiles."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from railweave.framework.solver.held_signals import hold_signals

numba = pytest.importorskip("numba")
event = pytest.importorskip("numba.core.event")


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Ctrl-C raises; a process that a shell has begun in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def inner(x: int) -> int:
    return x + 1


class Sender(event.Listener):  # type: ignore[misc]
    """Sends the process SIGINT in the middle of the n-th pass."""

    def __init__(self, n: int) -> None:
        self._left, self.went_on = n, False

    def on_start(self, event: Any) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGINT)
            self.went_on = [x for x in range(10)] == [*range(10)]  # a handler would have run by now

    def on_end(self, event: Any) -> None:
        pass


@pytest.mark.parametrize("n", [1, 12, 30])
def test_an_interrupt_waits_for_the_pass_and_what_it_stopped_compiles_later(n: int) -> None:
    """Passes of the function and of the one that it calls."""
    hold_signals()
    called = numba.njit(inner)

    @numba.njit
    def outer(x: int) -> int:
        return int(called(x) * 2)

    before, sender = signal.getsignal(signal.SIGINT), Sender(n)
    event.register("numba:run_pass", sender)
    try:
        with pytest.raises(KeyboardInterrupt):
            outer(1)
    finally:
        event.unregister("numba:run_pass", sender)
    assert sender.went_on and signal.getsignal(signal.SIGINT) is before
    assert outer(1) == 4


def test_signals_are_held_by_nothing_once_a_function_is_compiled() -> None:
    hold_signals()
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert numba.njit(inner)(1) == 2
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
