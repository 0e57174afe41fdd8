"""Which datapath a lab takes, and what it says where the kernel has none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = str(Path(sys.executable).with_name("railweave"))
SMALL = ("run", "--domains", "2", "--rails", "2", "--size", "64K", "--iterations", "1", "--fault", "none")

pytestmark = [pytest.mark.lab, pytest.mark.untimed]


def railweave(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=100, check=False)


def test_userspace_is_there_on_every_kernel(tmp_path: Path) -> None:
    done = railweave(*SMALL, "--datapath", "userspace", "--json", "-", "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["versions"]["datapath"] == "userspace"


def test_the_kernels_datapath_is_used_or_refused_with_its_mend(tmp_path: Path) -> None:
    """What `ovs-dpctl` says of this kernel decides which."""
    probe = "ovs-dpctl add-dp probe && ovs-dpctl del-dp probe"
    there = (
        subprocess.run(["unshare", "--net", "sh", "-c", probe], capture_output=True, check=False).returncode
        == 0
    )
    done = railweave(*SMALL, "--datapath", "kernel", "--json", "-", "--out", str(tmp_path / "run"))
    if there:
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["versions"]["datapath"] == "kernel"
    else:
        assert done.returncode == 2
        assert "engine.datapath is kernel" in done.stderr and "modprobe openvswitch" in done.stderr
        assert not (tmp_path / "run").exists()


def test_an_unknown_datapath_is_bad_usage() -> None:
    done = railweave(*SMALL, "--datapath", "kernal")
    assert done.returncode == 2 and "auto, kernel, userspace" in done.stderr
