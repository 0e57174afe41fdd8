"""Programs in the namespaces of ranks: what they see, how they end, and that nothing of them is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from railweave.framework.lab.sandbox import unshare_command

pytestmark = [pytest.mark.lab, pytest.mark.untimed]

WORKER = Path(__file__).with_name("worker.py")
NOBODY = 65534


def ended(*command: str, ranks: int = 2, output: str = "", **more: Any) -> dict[str, Any]:
    """How the launcher says that a command ended on `ranks` hosts."""
    done = subprocess.run(
        [*unshare_command(), sys.executable, "-W", "ignore", str(WORKER), str(ranks), output, *command],
        capture_output=True, text=True, timeout=60, check=False, **more,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert result["left"] == [], "processes of a program outlived it"
    return result


def test_a_rank_has_a_host_of_its_own() -> None:
    script = """
        echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $NODE_RANK $MASTER_ADDR $MASTER_PORT
        hostname; getent hosts h1-0 | tr -s ' '; ls -A /dev/shm; echo $RANK > /dev/shm/mine; echo pid $$
        ls /sys/class/net >/dev/null; cat /proc/net/dev | grep -c :
    """
    result = ended("sh", "-c", script)
    assert result["outcomes"]["1"][2].splitlines() == [
        "1 2 0 1 1 10.0.0.1 29500", "h1-0", "10.1.0.1 h1-0", "pid 2", "1",
    ]  # fmt: skip
    assert result["failed"] == "" and result["outcomes"]["0"][0] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="another user can be had as root alone")
def test_a_program_is_the_user_who_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a uid of its own in a user namespace, with no power over the lab."""
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    script = "id -u; id -g; cat /proc/self/status | grep CapEff; umount /dev/shm 2>/dev/null || echo refused"
    result = ended("sh", "-c", script, ranks=1, user=NOBODY, group=NOBODY, extra_groups=[])
    lines = result["outcomes"]["0"][2].splitlines()
    assert lines == [str(NOBODY), str(NOBODY), "CapEff:\t0000000000000000", "refused"]


def test_the_first_rank_that_fails_is_named_with_its_last_lines() -> None:
    """Others ignore SIGTERM, if they got so far, and have left daemons; all of it is ended."""
    script = """
        trap '' TERM; (setsid sleep 300 &)
        if [ $RANK = 2 ]; then echo out of luck; exit 3; fi
        sleep 300
    """
    result = ended("sh", "-c", script, ranks=3)
    assert result["failed"] == "rank 2 on h2-0 ended with status 3; its last lines:\nout of luck"
    assert result["status"] == 0, "the launcher ended by itself"


@pytest.mark.parametrize(
    ("command", "words", "status"),
    [
        (["sh", "-c", "kill -SEGV $$"], "was ended by SIGSEGV, and printed nothing.", -11),
        (["/nothing/there"], "/nothing/there cannot be started: No such file or directory.", 127),
        (["/dev/null"], "/dev/null cannot be started: Permission denied.", 127),
    ],
)
def test_how_it_failed_is_said(command: list[str], words: str, status: int) -> None:
    result = ended(*command, ranks=1)
    assert result["failed"].startswith("rank 0 on h0-0") and result["failed"].endswith(words)
    assert result["outcomes"]["0"][0] == status


def test_a_daemon_ends_with_its_program() -> None:
    script = "(setsid sleep 300 </dev/null >/dev/null 2>&1 &) ; echo done"
    assert ended("sh", "-c", script)["outcomes"]["0"][2] == "done\n"


def test_an_iteration_ends_when_every_rank_has_marked() -> None:
    script = "for i in $(seq $((3 + RANK))); do echo >> $RAILWEAVE_MARKS; done"
    assert ended("sh", "-c", script)["marks"] == 3


def test_a_flood_of_output_is_cut(tmp_path: Path) -> None:
    result = ended("sh", "-c", "yes | head -c 200000000; echo end", ranks=1, output=str(tmp_path))
    kept = tmp_path / "rank-0.txt"
    assert result["outcomes"]["0"] == [0, 200000004, None]
    assert kept.stat().st_size == (64 << 20) + len("\n[railweave: cut here, after 64 MiB]\n")
    assert result["shown"] < 1 << 20
