"""For all tests: caches go to a temporary folder; and a fixture that several tests need."""

from __future__ import annotations

import atexit
import os
import signal
import tempfile
from collections.abc import Iterator

import pytest

_CACHE = tempfile.TemporaryDirectory(prefix="railweave-tests-")
atexit.register(_CACHE.cleanup)
os.environ["XDG_CACHE_HOME"] = _CACHE.name  # some plugins are configured while tests are collected


@pytest.fixture
def sigint_as_at_a_terminal() -> Iterator[None]:
    """A script's background jobs, and their children, start with SIGINT ignored. Tests need its default."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
