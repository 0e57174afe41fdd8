"""`vagrant up` to `vagrant destroy` with the project's own Vagrantfile, and a host that stays as it was."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.vm import image
from tests.vm.needs import VAGRANT, missing
from tests.vm.project import PROJECT, box_name
from tests.vm.vagrant import ENVIRONMENT, box, cell, copy_project, start_libvirt, vagrant

pytestmark = [
    pytest.mark.timeout(4500),
    pytest.mark.skipif(bool(missing(VAGRANT)), reason=missing(VAGRANT)),
]

UP_WITHIN_S = 2800
RUN_WITHIN_S = 1200
"""As in tests/vm/test_lab.py: what takes so long hangs."""


@contextmanager
def step(name: str) -> Iterator[None]:
    """Say how long it took, whether or not it went well."""
    began = time.monotonic()
    try:
        yield
    finally:
        print(f"{time.monotonic() - began:6.1f} s  {name}", flush=True)


def host_state() -> dict[str, object]:
    """What a libvirt that runs on a machine changes of it."""
    state: dict[str, object] = {}
    for name in ("/etc/passwd", "/etc/group", "/etc/resolv.conf", "/proc/self/mounts"):
        state[name] = Path(name).read_text().splitlines()
    for name in (
        "/etc/libvirt",
        "/var/lib/libvirt",
        "/var/log/libvirt",
        "/var/cache/libvirt",
        "/run/libvirt",
    ):
        folder = Path(name)
        state[name] = sorted(map(str, folder.rglob("*"))) if folder.exists() else None
    state["interfaces"] = sorted(path.name for path in Path("/sys/class/net").iterdir())
    for words in (["nft", "list", "ruleset"], ["iptables-save"], ["ip6tables-save"]):
        if program := shutil.which(words[0], path=ENVIRONMENT["PATH"]):
            done = subprocess.run(
                [program, *words[1:]], capture_output=True, text=True, check=True, timeout=60
            )
            # remarks hold the time of day
            state[words[0]] = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    for family in ("bridge", "ipv4", "ipv6"):
        for setting in Path("/proc/sys/net", family).rglob("*"):
            # some are commands, to be written alone
            with suppress(OSError):
                state[str(setting)] = setting.read_text()
    return state


def inhabitants(network: str) -> list[str]:
    """The processes in a network namespace, by their command lines."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str((process / "ns/net").readlink()) == network:
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:  # it has ended, or is closed even to root and so none of ours
            continue
    return found


def test_vagrant_up_runs_the_main_job_and_destroy_leaves_nothing() -> None:
    with step("image"):
        base = image.build()
    before = host_state()

    with cell() as inside:
        network = str(Path(f"/proc/{inside.pid}/ns/net").readlink())
        with step("libvirtd"):
            start_libvirt(inside)
        copy_project(inside)
        with step("vagrant validate"):
            vagrant(inside, "validate", timeout_s=120)
        with step("box"):
            file = box(inside, base)
        with step("vagrant box add"):
            vagrant(
                inside, "box", "add", "--name", box_name(), "--provider", "libvirt", str(file), timeout_s=120
            )
        with step("vagrant up"):
            vagrant(inside, "up", "--provider=libvirt", timeout_s=UP_WITHIN_S)
        with step("vagrant ssh: railweave run"):
            said = vagrant(inside, "ssh", "-c", "railweave run --json -", timeout_s=RUN_WITHIN_S)
        with step("vagrant destroy"):
            vagrant(inside, "destroy", "-f", timeout_s=120)
        assert inside.run("virsh", "list", "--all", "--name", timeout_s=60).strip() == ""

    result = json.loads(said)
    assert result["versions"]["datapath"] == "kernel"
    assert result["rows"] and all(row["wrong"] == 0 for row in result["rows"])

    assert inhabitants(network) == []
    assert host_state() == before


def test_a_killed_run_leaves_nothing() -> None:
    script = (
        "from tests.vm.vagrant import cell, start_libvirt\n"
        "with cell() as inside:\n"
        "    start_libvirt(inside)\n"
        "    print(inside.pid, flush=True)\n"
        "    input()\n"
    )
    before = host_state()
    with subprocess.Popen([sys.executable, "-c", script], cwd=PROJECT, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as run:  # fmt: skip
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        network = str(Path(f"/proc/{pid}/ns/net").readlink())
        assert any("libvirtd" in words for words in inhabitants(network))
        ours = [pid, *map(int, Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split())]
        ends = [os.pidfd_open(one) for one in ours]
        run.send_signal(signal.SIGKILL)
    for end in ends:
        assert select.select([end], [], [], 30)[0], "a process survives"
        os.close(end)
    assert inhabitants(network) == []
    assert host_state() == before
