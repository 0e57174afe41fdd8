"""The controller process by itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LAUNCHER = [sys.executable, "-W", "ignore", "-m", "railweave.controllers.launcher"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*LAUNCHER, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_a_process_whose_starter_is_gone_ends_before_it_does_anything() -> None:
    done = run("--library", "ryu", "--channel", "99", "--listeners", "--parent", str(os.getppid()))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("missing", ["--library", "--channel", "--listeners", "--parent"])
def test_nothing_is_guessed(missing: str) -> None:
    given = {"--library": ["ryu"], "--channel": ["3"], "--listeners": [], "--parent": ["1"]}
    words = [word for name, value in given.items() if name != missing for word in (name, *value)]
    done = run(*words)
    assert done.returncode == 2
    assert missing in done.stderr
