"""For all tests: caches go to a temporary folder; and fixtures that several tests need."""

from __future__ import annotations

import atexit
import os
import signal
import tempfile
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from railweave.framework.studies.leftovers import MARK, footprint

_CACHE = tempfile.TemporaryDirectory(prefix="railweave-tests-")
atexit.register(_CACHE.cleanup)
os.environ["XDG_CACHE_HOME"] = _CACHE.name  # some plugins are configured while tests are collected


# the same draws everywhere, and none judged by how long it takes; `--hypothesis-profile=search` draws others
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", _UNTIMED, derandomize=True)
settings.register_profile("search", _UNTIMED)
settings.load_profile("fixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("laws", "draws of the laws (tests/laws)")
    group.addoption("--laws", type=int, default=300, help="how many experiments to draw")
    group.addoption("--laws-seed", type=int, default=1, help="seed of the draws")
    group.addoption("--laws-draw", type=int, help="the only draw of each law, by its number")
    group.addoption("--laws-router", help="the only router to draw")


@pytest.fixture
def sigint_as_at_a_terminal() -> Iterator[None]:
    """A script's background jobs, and their children, start with SIGINT ignored. Tests need its default."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test with it may leave a process of its own, an interface or a mount on the machine."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    monkeypatch.setenv(MARK, mark)
    before = footprint(mark)
    yield
    end = time.monotonic() + 20
    while (left := footprint(mark) - before) and time.monotonic() < end:
        time.sleep(0.05)  # the kernel takes a lab down after its command has gone; nothing tells when
    assert not left
