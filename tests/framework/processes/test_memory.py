"""Limits of memory while something is planned."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from railweave.framework.processes.memory import machine_bytes, peak_bytes, refused_beyond_memory

resource = pytest.importorskip("resource")


def test_what_the_machine_lacks_is_refused_and_the_limit_is_gone_afterwards() -> None:
    before, there = resource.getrlimit(resource.RLIMIT_AS), machine_bytes()
    assert there is not None
    with pytest.raises(MemoryError), refused_beyond_memory():
        np.empty(2 * there, np.uint8)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_other_threads_leave_the_limit_alone() -> None:
    before, seen = resource.getrlimit(resource.RLIMIT_AS), []

    def plan() -> None:
        with refused_beyond_memory():
            seen.append(resource.getrlimit(resource.RLIMIT_AS))

    thread = threading.Thread(target=plan)
    thread.start()
    thread.join()
    assert seen == [before]


def test_the_peak_is_some_of_the_machine() -> None:
    peak, there = peak_bytes(), machine_bytes()
    assert peak is not None and there is not None and 0 < peak < there
