"""What holds for all tests: caches go to a folder that is gone afterwards."""

from __future__ import annotations

import atexit
import os
import tempfile

_CACHE = tempfile.TemporaryDirectory(prefix="railweave-tests-")
atexit.register(_CACHE.cleanup)
os.environ["XDG_CACHE_HOME"] = _CACHE.name  # some plugins are configured while tests are collected
