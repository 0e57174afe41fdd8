"""What a lab could leave: a process is a run's own by the mark it inherited."""

from __future__ import annotations

import os
import subprocess

from railweave.framework.studies.leftovers import MARK, footprint


def test_processes_of_another_run_do_not_count() -> None:
    nothing = footprint("one-run")
    with subprocess.Popen(
        ["cat", "-u"], env={**os.environ, MARK: "one-run"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(b"\n")
            process.stdin.flush()
            process.stdout.read(1)  # it runs: until exec is complete, /proc shows no environment
            assert footprint("one-run") - nothing == {f"process {process.pid} (cat -u)"}
            assert footprint("another-run") == nothing
        finally:
            process.kill()
    assert footprint("one-run") == nothing
