"""The controller process by itself."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence

import pytest

LAUNCHER = [sys.executable, "-W", "ignore", "-m", "railweave.controllers.launcher"]


def run(*arguments: str, pass_fds: Sequence[int] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAUNCHER, *arguments], capture_output=True, text=True, timeout=60, check=False, pass_fds=pass_fds
    )


@pytest.mark.parametrize("library", ["ryu", "os-ken", "c65of"])
def test_a_process_whose_channel_is_closed_ends(library: str) -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        done = run(str(theirs.fileno()), library, pass_fds=[theirs.fileno()])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "named"), [(["3"], "library"), (["3", "pox"], "pox"), (["x", "ryu"], "channel")]
)
def test_wrong_arguments_are_refused(words: list[str], named: str) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert named in done.stderr
