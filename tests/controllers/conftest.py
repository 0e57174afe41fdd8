"""Runs the scenarios of lab_worker.py in namespaces of their own."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WORKER = Path(__file__).with_name("lab_worker.py")
NAMESPACES = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.fixture(scope="session")
def in_lab() -> Callable[[str, str], dict[str, Any]]:
    """Run a scenario with a library; what it observed. Several tests may look at one run."""

    @functools.cache
    def run(scenario: str, library: str) -> dict[str, Any]:
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        command = [*NAMESPACES, *user, sys.executable, str(WORKER), scenario, library]
        with tempfile.TemporaryDirectory(
            prefix="rw"
        ) as place:  # short: OVS' socket paths have 108 characters
            environment = dict(os.environ, TMPDIR=place)
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=120, check=False, env=environment
            )
        assert done.returncode == 0, done.stderr
        observed: dict[str, Any] = json.loads(done.stdout)
        return observed

    return run
