"""One virtual machine: booted from an image without ever writing to it, used over ssh, ended by its pid."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.vm.image import HOME, Image

CPU = "Nehalem"
"""The least that numpy's wheels run on. Emulated: /dev/kvm being there does not mean that a stock kernel
boots on it."""
MEMORY_MIB = 3072
BOOT_WITHIN_S = 300
KERNEL_WORDS = (
    "root=/dev/vda rw console=ttyS0 net.ifnames=0 mitigations=off nokaslr fsck.mode=skip loglevel=4"
)


@dataclass(frozen=True, slots=True)
class Result:
    """How a command in the guest ended."""

    command: str
    code: int
    stdout: str
    stderr: str

    def check(self) -> str:
        """What it printed; AssertionError with its last words if it failed."""
        assert self.code == 0, (
            f"{self.command!r} ended with {self.code}:\n{self.stdout[-2000:]}\n{self.stderr[-3000:]}"
        )
        return self.stdout


class Machine:
    """Use as a context manager; leaving it ends the machine and throws away what it wrote.

    `layer`: a disk that an earlier machine left (`keep`), over the image's own.
    """

    def __init__(self, image: Image, layer: Path | None = None) -> None:
        self._image = image
        self._folder = tempfile.TemporaryDirectory(prefix="running-", dir=HOME)
        folder = Path(self._folder.name)
        self._disk, self._serial, self._words = (
            folder / "disk.qcow2",
            folder / "serial.log",
            folder / "qemu.log",
        )
        self._control = folder / "ssh"
        base, kind = (layer, "qcow2") if layer else (image.disk, "raw")
        subprocess.run(
            ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(base), "-F", kind, str(self._disk)],
            check=True,
        )
        self._port = _free_port()
        accelerate = ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", CPU]
        if os.environ.get("RAILWEAVE_VM_ACCEL") == "kvm":
            accelerate = ["-accel", "kvm", "-cpu", "host"]
        with self._words.open("wb") as words:
            # it dies with us, whatever ends us
            self._qemu = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-machine", "q35", *accelerate,
                 "-smp", "2", "-m", str(MEMORY_MIB), "-nodefaults", "-no-user-config", "-display", "none",
                 "-kernel", str(image.folder / "vmlinuz"), "-initrd", str(image.folder / "initrd.img"),
                 "-append", KERNEL_WORDS, "-drive", f"file={self._disk},if=virtio,cache=unsafe",
                 "-netdev", f"user,id=n0,hostfwd=tcp:127.0.0.1:{self._port}-:22",
                 "-device", "virtio-net-pci,netdev=n0,romfile=", "-device", "virtio-rng-pci",
                 "-serial", f"file:{self._serial}"],
                stdin=subprocess.DEVNULL, stdout=words, stderr=words, start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> Self:
        try:
            self._await_ssh()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _await_ssh(self) -> None:
        end = time.monotonic() + BOOT_WITHIN_S
        while True:
            # the guest's boot cannot be awaited from here: the port answers, by qemu, before its sshd does
            if self.run(
                "systemctl is-system-running --wait", user="root", timeout_s=BOOT_WITHIN_S
            ).stdout.strip():
                return
            if self._qemu.poll() is not None:
                raise RuntimeError(f"qemu ended ({self._qemu.returncode}): {self._words.read_text()[-2000:]}")
            if time.monotonic() > end:
                tail = self._serial.read_text(errors="replace")[-3000:]
                raise RuntimeError(f"no ssh within {BOOT_WITHIN_S} s. The end of its console:\n{tail}")
            time.sleep(0.5)

    def _ssh(self, user: str) -> list[str]:
        return [
            "ssh", "-q", "-i", str(self._image.key), "-p", str(self._port), "-o", "StrictHostKeyChecking=no",
            "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=20",
            "-o", "ControlMaster=auto", "-o", "ControlPersist=yes", "-o", f"ControlPath={self._control}-%r",
            f"{user}@127.0.0.1",
        ]  # fmt: skip

    def run(self, command: str, *, user: str = "vagrant", timeout_s: float = 120) -> Result:
        """Run a shell command in the guest; the guest ends it after `timeout_s`, with the code 124.

        Ending ssh would leave the command running there, next to those of later tests.
        """
        limited = f"timeout --kill-after=10 {timeout_s} bash -c {shlex.quote(command)}"
        done = subprocess.run(
            [*self._ssh(user), limited],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s + 30, check=False,
        )  # fmt: skip
        return Result(command, done.returncode, done.stdout, done.stderr)

    def push(self, tree: Path, target: str, rsync: Sequence[str]) -> None:
        """Copy a folder of the host into the guest by that rsync command, which runs in the folder."""
        shell = " ".join(self._ssh("vagrant")[:-1])
        words = [*rsync, "-e", shell, f"{tree}/", f"vagrant@127.0.0.1:{target}/"]
        subprocess.run(words, cwd=tree, check=True, timeout=300)

    def keep(self, target: Path) -> None:
        """Shut the guest down in order and keep what it wrote as a layer for later machines."""
        self.run("systemctl poweroff", user="root")
        self._qemu.wait(60)
        self._disk.rename(target)

    def stop(self) -> None:
        """End it at once; its disk is thrown away."""
        for user in ("root", "vagrant"):
            if Path(f"{self._control}-{user}").exists():
                subprocess.run([*self._ssh(user), "-O", "exit"], capture_output=True, check=False)
        self._qemu.kill()
        self._qemu.wait()
        self._folder.cleanup()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
