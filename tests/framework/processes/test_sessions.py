"""Sessions weighed against each other, as the kernel reports it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from railweave.framework.processes.sessions import weigh_session


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this kernel does not group by session")
def test_a_session_gets_its_niceness_and_its_processes_keep_theirs() -> None:
    """proc(5): /proc/PID/autogroup reads `/autogroup-N nice M`; N numbers the sessions."""
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        child.stdout.readline()
        autogroup = Path(f"/proc/{child.pid}/autogroup")
        before = autogroup.read_text().split()
        weigh_session(child.pid, 5)
        assert before[1:] == ["nice", "0"]
        assert autogroup.read_text().split() == [before[0], "nice", "5"]
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == os.getpriority(os.PRIO_PROCESS, 0)
        child.communicate(b"\n")


def test_a_process_that_is_gone_is_left_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
        weigh_session(child.pid, 5)
