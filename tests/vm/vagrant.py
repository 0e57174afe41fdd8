"""Vagrant and libvirt in a cell: what they make of a machine (users, networks, rules, guests) is made of the
cell alone.

The cell has networks, mounts and processes of its own, and they end with its first process, however that
ends. It sees the machine's files; what is written below /etc, /run and the parts of /var that libvirt uses
stays in the cell's memory, and home and temporary folders are there too. libvirt's addresses are translated
by the cell; the way out of it is slirp4netns, which needs nothing of the machine but a user's sockets.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import select
import shlex
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.vm.image import DISK_BYTES, Image, digest, pack
from tests.vm.machine import CPU, KERNEL_WORDS
from tests.vm.project import PROJECT, git_names

START_WITHIN_S = 60
LAST_LINES = 25

CELL = """
set -eu
read -r pid _ </proc/self/stat  # as the machine counts, for /proc is still the machine's
mount -t tmpfs -o mode=755 cell /run
for folder in /etc /var/lib /var/log /var/cache; do
    layer=/run/layers$folder
    mkdir -p "$layer/upper" "$layer/work"
    mount -t overlay -o "lowerdir=$folder,upperdir=$layer/upper,workdir=$layer/work" cell "$folder"
done
# the networks and guests of a libvirt that this machine has are not for us to start
for folder in /etc/libvirt /var/lib/libvirt /var/log/libvirt /var/cache/libvirt; do
    mkdir -p "$folder"
    mount -t tmpfs -o mode=755 cell "$folder"
done
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir /run/home /run/project /run/tmp
rm -f /etc/resolv.conf
echo 'nameserver 10.0.2.3' >/etc/resolv.conf  # slirp4netns answers there, with what the machine knows
# libvirt looks these up before it reads its configuration, which then says root
echo 'libvirt-qemu:x:0:0::/:/usr/sbin/nologin' >>/etc/passwd
echo 'libvirt-qemu:x:0:' >>/etc/group
echo "$pid"
# libvirt waits until its guests are buried; the kernel buries the children of whom that does not interest
exec env --ignore-signal=CHLD cat
"""

ENVIRONMENT = {
    "HOME": "/run/home",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TMPDIR": "/run/tmp",
    "VAGRANT_BOX_UPDATE_CHECK_DISABLE": "1",
    "VAGRANT_CHECKPOINT_DISABLE": "1",
    "VAGRANT_DEFAULT_PROVIDER": "libvirt",
    "VAGRANT_DOTFILE_PATH": "/run/home/project",
    "VAGRANT_HOME": "/run/home/vagrant",
}

LIBVIRT = {
    "/etc/libvirt/libvirtd.conf": """
auth_unix_ro = "none"
auth_unix_rw = "none"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
""",
    "/etc/libvirt/qemu.conf": """
user = "root"
group = "root"
dynamic_ownership = 0
security_driver = "none"
cgroup_controllers = []
namespaces = []
""",
}
"""Nothing here needs the guest kept from the cell's root, whose machine it is."""

BOX = f"""
Vagrant.configure("2") do |config|
  config.vm.boot_timeout = 600
  config.vm.provider :libvirt do |libvirt|
    # emulated, and booted without a boot loader: the disk has none
    libvirt.driver = "qemu"
    libvirt.machine_type = "q35"
    libvirt.cpu_mode = "custom"
    libvirt.cpu_model = "{CPU}"
    libvirt.kernel = File.expand_path("vmlinuz", __dir__)
    libvirt.initrd = File.expand_path("initrd.img", __dir__)
    libvirt.cmd_line = "{KERNEL_WORDS}"
    libvirt.disk_driver :cache => "unsafe"
    libvirt.graphics_type = "none"
    libvirt.video_type = "none"
  end
end
"""
"""The box's own Vagrantfile. Vagrant lays the project's over it."""


class CellError(RuntimeError):
    """Something in the cell failed; the message ends with what it said last."""


@dataclass(frozen=True, slots=True)
class Cell:
    """`pid`: its first process, as the machine counts."""

    pid: int

    def path(self, inside: str) -> Path:
        """Where the machine finds a file of the cell."""
        return Path(f"/proc/{self.pid}/root{inside}")

    def run(self, *words: str, timeout_s: float, folder: str = "/") -> str:
        """Run a program in the cell and return what it printed. CellError when it fails or takes longer."""
        environment = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        # files, not pipes: those stay open as long as anything that a program leaves behind
        with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as complained:
            began = time.monotonic()
            done = subprocess.run(
                [
                    "nsenter",
                    f"--target={self.pid}",
                    "--net",
                    "--mount",
                    "--pid",
                    "--",
                    "env",
                    "--ignore-environment",
                    f"--chdir={folder}",
                    *environment,
                    "timeout",
                    "--kill-after=5",
                    f"{timeout_s}",
                    *words,
                ],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=complained,
                timeout=timeout_s + 10,
                check=False,
            )
            took_s = time.monotonic() - began
            said = _content(printed)
            if done.returncode:
                raise CellError(
                    f"`{shlex.join(words)}` ended with {done.returncode} after {took_s:.0f} of "
                    f"{timeout_s:.0f} s\n"
                    + self._last_words({"stdout": said, "stderr": _content(complained)})
                )
        return said

    def _last_words(self, said: dict[str, str]) -> str:
        logs = sorted(self.path("/var/log/libvirt").rglob("*.log"))
        said |= {log.name: log.read_text(errors="replace") for log in logs}
        return "\n".join(f"--- {name}\n{_tail(text)}" for name, text in said.items() if text.strip())


@contextmanager
def cell() -> Iterator[Cell]:
    """A new cell, connected to the internet. It leaves nothing behind, even if this process is killed."""
    bound = ["setpriv", "--pdeathsig", "KILL"]
    apart = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child=KILL"]
    with ExitStack() as stack:
        log = stack.enter_context(tempfile.TemporaryFile())
        # its first process ends with its stdin, which leaving this `with` closes; that ends all others
        world = stack.enter_context(
            subprocess.Popen(
                [*bound, *apart, "sh", "-c", CELL],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        )
        assert world.stdout is not None
        pid = int(_first(world, world.stdout, log))

        ready, tell = (os.fdopen(end, mode) for end, mode in zip(os.pipe(), ("rb", "wb"), strict=True))
        stack.enter_context(ready)
        with tell:
            slirp = stack.enter_context(
                subprocess.Popen([*bound, "slirp4netns", "--configure", "--disable-host-loopback",
                                  f"--ready-fd={tell.fileno()}", str(pid), "tap0"],
                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 pass_fds=[tell.fileno()], start_new_session=True)
            )  # fmt: skip
        stack.callback(slirp.kill)
        _first(slirp, ready, log)
        yield Cell(pid)


def _first(process: subprocess.Popen[bytes], stream: IO[bytes], log: IO[bytes]) -> bytes:
    """The first line that a process says there; CellError with the end of its log when it says none."""
    said = stream.readline() if select.select([stream], [], [], START_WITHIN_S)[0] else b""
    if not said:
        process.kill()
        raise CellError(f"no cell on this machine: {_tail(_content(log)) or 'it takes too long'}")
    return said


def start_libvirt(inside: Cell) -> None:
    """Start libvirtd. It returns when it listens, and a first question when it answers."""
    for name, content in LIBVIRT.items():
        inside.path(name).write_text(content)
    inside.run("virtlogd", "--daemon", timeout_s=START_WITHIN_S)
    inside.run("libvirtd", "--daemon", timeout_s=START_WITHIN_S)
    inside.run("virsh", "version", timeout_s=START_WITHIN_S)


def copy_project(inside: Cell) -> None:
    """What git would have of the project, as it lies there now; nothing that was built in it."""
    inside.path("/run/names").write_text("\0".join(git_names()))
    words = ["rsync", "--archive", "--from0", "--files-from=/run/names"]
    inside.run(*words, f"{PROJECT}/", "/run/project/", timeout_s=60)


def vagrant(inside: Cell, *words: str, timeout_s: float) -> str:
    """Run vagrant on the project in the cell."""
    return inside.run("vagrant", *words, timeout_s=timeout_s, folder="/run/project")


def box(inside: Cell, image: Image) -> Path:
    """The image as a box for vagrant-libvirt, made now or earlier; vagrant has run in this cell before.

    Any box lets in the key that every vagrant has, and vagrant changes it when the machine is up first.
    """
    private = f"{ENVIRONMENT['VAGRANT_HOME']}/insecure_private_key"
    key = inside.run("ssh-keygen", "-y", "-f", private, timeout_s=30)
    packed = image.folder / f"vagrant-{digest(BOX, key, inspect.getsource(_pack_box))}.box"
    if not packed.exists():
        making = packed.with_suffix(".making")
        _pack_box(inside, image, key, making)
        making.rename(packed)
    return packed


def _pack_box(inside: Cell, image: Image, key: str, making: Path) -> None:
    inside.run("mkdir", "-p", "/run/box/root", "/run/box/upper", "/run/box/work", timeout_s=30)
    layers = f"lowerdir={image.root},upperdir=/run/box/upper,workdir=/run/box/work"
    inside.run("mount", "-t", "overlay", "-o", layers, "box", "/run/box/root", timeout_s=30)
    folder = inside.path("/run/box")
    with (folder / "root/home/vagrant/.ssh/authorized_keys").open("a") as file:
        file.write(key)
    pack(folder / "root", folder / "disk.raw")
    how = ["-c", "-o", "compression_type=zstd", "-O", "qcow2"]
    inside.run("qemu-img", "convert", *how, "/run/box/disk.raw", "/run/box/box.img", timeout_s=300)
    about = {"provider": "libvirt", "format": "qcow2", "virtual_size": DISK_BYTES >> 30}
    with tarfile.open(making, "w") as archive:
        for name, text in {"metadata.json": json.dumps(about), "Vagrantfile": BOX}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
        archive.add(folder / "box.img", "box.img")
        for name in ("vmlinuz", "initrd.img"):
            archive.add(image.folder / name, name)
    inside.run("umount", "/run/box/root", timeout_s=30)
    inside.run("rm", "-r", "/run/box", timeout_s=30)


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _tail(text: str) -> str:
    # progress is written over with carriage returns
    return "\n".join(re.split(r"[\r\n]+", text.strip())[-LAST_LINES:])
